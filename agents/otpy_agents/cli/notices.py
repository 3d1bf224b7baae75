"""Events a person must see although a live tree is drawn, with what to type. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve

from otpy_agents.app.chronicle import Event
from otpy_agents.cli.run_words import one_line
from otpy_agents.cli.status_table import what_to_type
from otpy_agents.cli.view import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otpy_agents.cli.tree_lookup import KnownTree

__all__ = ["notice", "notice_of"]

_LONGEST: Final = 500

# By event: what is said of whom it happened to, and the detail that says why.
_WORDS: Final = {
    "operator.asked": ("NEEDS INPUT", "question"),
    "operator.notified": ("NEEDS A LOOK", "detail"),
    "operator.unreachable": ("cannot be commanded from other terminals", "reason"),
    "agent.no_walls": ("has agents without walls", "detail"),
    "agent.work_discarded": ("starts from scratch; its old work is on a branch", "branch"),
    "agent.session_corrupt": ("starts without its session", "reason"),
    "budget.unheld": ("may spend beyond its limit", "detail"),
    "gang.failed": ("failed as a group", "detail"),
    "log.unwritable": ("has no log any more", "reason"),
    "state.astray": ("has lost its state file", "reason"),
    "state.unwritable": ("waits for its disk", "reason"),
    "state.written": ("goes on: the disk takes writes again", ""),
    "mortal.failed": ("FAILED", "reason"),
    "mortal.paused": ("rests", "detail"),
    "mortal.reaped": ("REAPED", "reason"),
    "mortal.warning_failed": ("could not be warned", "reason"),
}
_QUESTION: Final = "question"
_JAKE: Final = "/Jake"


def notice(event: Event, tree: KnownTree) -> str | None:
    """Return the words about an event that is not to be missed; None for one the tree shows.

    Restarts are told of Jake, always; those of mortals stand in the tree, and those of drones are
    told when one is given up, for then it is in no tree any more (TREE-50).

    Args:
        event: The event.
        tree: How the tree is named in a command.
    """
    detail = event.detail
    if event.name == "child.restarting" and event.id.endswith(_JAKE):
        said, why = "Jake crashed and is started again", "reason"
    elif event.name in _WORDS:
        words, why = _WORDS[event.name]
        said = f"{printable(event.id)} {words}"
    else:
        return None
    if event.name == "mortal.paused" and detail.get("by") == _QUESTION:
        return None  # what it has asked was told
    restarts = f" ↻{detail['restarts']}" if "restarts" in detail else ""
    reason = one_line(str(detail.get(why, "")), _LONGEST)
    line = f"{said}{restarts}" + (f": {reason}" if reason else "")
    command = _command(event, tree)
    return line if command is None else f"{line} -> `{command}`"


def _command(event: Event, tree: KnownTree) -> str | None:
    match event.name:
        case "operator.asked":
            return what_to_type(event.id, _QUESTION, tree)
        case "mortal.paused":
            by, account, kind = (
                str(event.detail.get(key, default))
                for key, default in (("by", ""), ("account", ""), ("kind", "tokens"))
            )
            return what_to_type(event.id, by, tree, account, kind)
        case "operator.notified":
            return tree.typed("status")
        case _:
            return None


def notice_of(event: Event, trees: Mapping[str, KnownTree]) -> str | None:
    """Return the words about an event of one of several lists, which its id begins with.

    Args:
        event: The event.
        trees: How the tree of each list is named in a command, by the name of the list.
    """
    for name, tree in trees.items():
        if event.id.startswith(f"{name}/"):
            words = notice(evolve(event, id=event.id.removeprefix(f"{name}/")), tree)
            return None if words is None else f"{printable(name)}: {words}"
    return None
