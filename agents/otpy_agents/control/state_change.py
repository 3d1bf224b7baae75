"""What a writer changed of a state, so that two writers lose nothing of each other (CTL-22).

A state is written whole. Its writer has read it a while ago, and an operator may have halted the
project or set its goal since. So the writer's changes are applied to the state as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from otpy_agents.control.state import OWN, ProjectStatus

__all__ = ["Change", "changed", "difference", "halting"]

Plain: TypeAlias = dict[str, Any]

Change: TypeAlias = dict[str, Any]
"""A change as JSON: the status seen, fields by section, ends of lists, whole fields."""

_SECTIONS: Final = ("supervisor", "goal", "queue", OWN)
_LISTS: Final = ("completed_tasks", "blocked_tasks")
_HALT: Final = ("status", "halt_reason", "halt_details")


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    """Return what leads from one state to another, both as JSON."""
    change: Change = {"saw": _of(before, "supervisor").get("status")}
    for section in _SECTIONS:
        old, new = _of(before, section), _of(after, section)
        put = {name: value for name, value in new.items() if name not in old or old[name] != value}
        if put:
            change.setdefault("set", {})[section] = put
        if gone := [name for name in old if name not in new]:
            change.setdefault("unset", {})[section] = gone
    for name in after.keys() - set(_SECTIONS):
        if name in before and before[name] == after[name]:
            continue
        known = len(before[name]) if name in _LISTS and name in before else -1
        if known >= 0 and after[name][:known] == before[name]:
            change.setdefault("append", {})[name] = after[name][known:]
        else:
            change.setdefault("whole", {})[name] = after[name]
    if lost := sorted(before.keys() - after.keys() - set(_SECTIONS)):
        change["gone"] = lost
    return change


def halting(reason: str, details: str, at: str) -> Change:
    """Return the change that halts a project, whatever its state has or lacks.

    Args:
        reason: Why.
        details: The same for a person; may be empty.
        at: When, as text in UTC.
    """
    fields = {"status": ProjectStatus.HALTED.value, "halt_reason": reason}
    change: Change = {"saw": None, "set": {"supervisor": fields}, "whole": {"last_updated": at}}
    if details:
        fields["halt_details"] = details
    else:
        change["unset"] = {"supervisor": ["halt_details"]}
    return change


def changed(state: Mapping[str, Any], change: Change) -> Plain:
    """Return a state, as JSON, after a change; a state that was halted meanwhile stays halted.

    Only a writer that has read it halted resumes it.
    """
    after: Plain = {**state}
    put: Mapping[str, Plain] = change.get("set", {})
    unset: Mapping[str, list[str]] = change.get("unset", {})
    halted = _of(state, "supervisor").get("status") == ProjectStatus.HALTED
    keep = _HALT if halted and change["saw"] != ProjectStatus.HALTED else ()
    for section in _SECTIONS:
        held = keep if section == "supervisor" else ()
        gone = [name for name in unset.get(section, []) if name not in held]
        fields = {name: value for name, value in _of(state, section).items() if name not in gone}
        fields |= {name: one for name, one in put.get(section, {}).items() if name not in held}
        if fields or section in after:
            after[section] = fields
    for name, tail in change.get("append", {}).items():
        after[name] = [*after.get(name, []), *tail]
    after.update(change.get("whole", {}))
    for name in change.get("gone", []):
        after.pop(name, None)
    return after


def _of(state: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    value = state.get(section)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
