"""A hand-written scenario: its name, the rules it proves, and helpers to write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from attrs import frozen

from tests.conformance.scenario import Call, Die, Node, Scenario, Step, Stop, Sup, Together, Worker


@final
@frozen
class Case:
    """One scenario with a name.

    Attributes:
        name: Its name; that of the case of OTP's own supervisor suite, if it has one there.
        rules: The rules it proves.
        scenario: The scenario.
    """

    name: str
    rules: tuple[str, ...]
    scenario: Scenario


def case(name: str, rules: str, tree: Sup, *steps: Step | str) -> Case:
    """Return a case; `rules` are separated by spaces, steps may be written as text.

    As text: `die a boom`, `kill a`, `restart a` (and terminate, delete, get), `which`, `count`,
    `stop shutdown`. Paths are below the root; a call about `sub/a` goes to `sub`.
    """
    return Case(name, tuple(rules.split()), Scenario(tree, tuple(map(_step, steps))))


def _step(step: Step | str) -> Step:
    if not isinstance(step, str):
        return step
    word, *rest = step.split()
    match word, rest:
        case "die", [path, *reason]:
            return Die(f"top/{path}", *reason)
        case "kill", [path]:
            return Die(f"top/{path}", "killed")
        case "stop", reason:
            return Stop(*reason)
        case _, []:
            return Call("top", word)
        case _, [path]:
            above, _, name = f"top/{path}".rpartition("/")
            return Call(above, word, name)
        case _:
            raise AssertionError(step)


def together(*items: Step | str, at: str = "top") -> Together:
    """Return items that reach the supervisor `at` before it handles any of them."""
    found: Iterator[Any] = map(_step, items)
    return Together(at, tuple(found))


def start(child: Node, at: str = "top") -> Call:
    """Return a call that starts a child of `at`."""
    return Call(at, "start", child)


def top(*children: Node | str, **flags: Any) -> Sup:
    """Return a root; a text stands for a permanent child. OTP's own default intensity is 1."""
    return Sup("top", tuple(map(_child, children)), **flags)


def sub(id: str, *children: Node | str, **flags: Any) -> Sup:
    """Return a supervisor below the root."""
    return Sup(id, tuple(map(_child, children)), **flags)


def _child(child: Node | str) -> Node:
    return Worker(child) if isinstance(child, str) else child


def permanent(id: str, **script: Any) -> Worker:
    """Return a permanent child."""
    return Worker(id, "permanent", **script)


def transient(id: str, **script: Any) -> Worker:
    """Return a transient child."""
    return Worker(id, "transient", **script)


def temporary(id: str, **script: Any) -> Worker:
    """Return a temporary child."""
    return Worker(id, "temporary", **script)
