"""What keys of a work list go together, each of them sound by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otpy_agents.tree.diagnosis import Problem

__all__ = ["contradictions"]

_AGENT_ONLY: Final = (
    *("prompt", "fallback", "model", "access", "context", "changeset", "tokens", "cost_usd"),
    *("stall_warn", "long_tools", "on_exceed", "verify", "verify_deadline"),
)


def contradictions(raw: Mapping[str, Any]) -> list[Problem]:
    """Return what does not go together in a work list whose keys are sound one by one.

    Args:
        raw: The parsed text, in which only what was written stands.
    """
    gangs = [gang["name"] for gang in raw.get("gang", ())]
    return [
        Problem(("assignment", number, *path), got, wanted)
        for number, table in enumerate(raw["assignment"])
        for path, got, wanted in _in_assignment(table, raw.get("list", {}), gangs)
    ]


def _in_assignment(
    table: Mapping[str, Any], whole: Mapping[str, Any], gangs: list[str]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    agent = table.get("agent")
    if agent is None:
        for key in _AGENT_ONLY:
            if key in table:
                yield (key,), "it without an agent", "it together with `agent`"
        if "argv" not in table:
            yield ("argv",), "nothing", "a list of texts, the program first, or an `agent`"
    else:
        if "prompt" not in table:
            yield ("prompt",), "nothing", "what the agent shall do"
        if agent == "command" and "argv" not in table:
            yield ("argv",), "nothing", "a list of texts, the program first"
        if agent != "command" and "argv" in table:
            yield ("argv",), f"it beside {json.dumps(agent)}", 'it with `agent = "command"` only'
        if "verify_deadline" in table and "verify" not in table:
            yield ("verify_deadline",), "it without `verify`", "it together with `verify`"
    warn, stall = table.get("stall_warn"), table.get("stall")
    if warn is not None and agent is not None and (stall is None or warn >= stall):
        got = "nothing" if stall is None else f"{stall:g}"
        yield ("stall_warn",), f"{warn:g} with a `stall` of {got}", "less than `stall`"
    if "long_tools" in table and agent is not None and stall is None:
        yield ("long_tools",), "it without `stall`", "it together with `stall`"
    for key in ("tokens", "cost_usd"):
        limit = whole.get(key)
        if agent is not None and limit is not None and table.get(key, 0) > limit:
            yield (key,), f"{table[key]:g}", f"at most the {limit:g} of the whole list"
    gang = table.get("gang")
    if gang is not None and gang not in gangs:
        yield ("gang",), json.dumps(gang), "the name of a [[gang]]"
