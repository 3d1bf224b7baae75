"""A hand-written Elixir scenario: its name, the rules it proves, and helpers to write it."""

from __future__ import annotations

from typing import Any, final

from attrs import frozen

from tests.conformance.elixir_scenario import (
    Arg,
    Between,
    Child,
    Die,
    Do,
    Job,
    Meanwhile,
    Node,
    Scenario,
    Step,
    Sup,
)


@final
@frozen
class Case:
    """One scenario with a name.

    Attributes:
        name: Its name; that of the case of Elixir's own tests, if it has one there.
        rules: The rules it proves.
        scenario: The scenario.
    """

    name: str
    rules: tuple[str, ...]
    scenario: Scenario


def case(name: str, rules: str, tree: Sup, *steps: Step | str) -> Case:
    """Return a case; `rules` are separated by spaces, steps may be written as text.

    As text: `die a boom`, `kill a`, `exit a boom` (by others), and otherwise `op on args…`, after
    `who:` if a child makes the call.
    """
    return Case(name, tuple(rules.split()), Scenario(tree, tuple(map(_step, steps))))


def _step(step: Step | str) -> Step:
    if not isinstance(step, str):
        return step
    item = _item(step)
    assert isinstance(item, Die | Do)
    return item


def _item(item: Die | Do | str) -> Die | Do:
    if not isinstance(item, str):
        return item
    match item.split():
        case ["die", name, *reason]:
            return Die(name, *reason)
        case ["kill", name]:
            return Die(name, "killed")
        case ["exit", name, reason]:
            return Die(name, reason, "others")
        case [by, op, on, *args] if by.endswith(":"):
            return Do(op, on, tuple(map(_value, args)), by[:-1])
        case [op, on, *args]:
            return Do(op, on, tuple(map(_value, args)))
        case _:
            raise AssertionError(item)


def _value(word: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def meanwhile(*items: Die | Do | str) -> Meanwhile:
    """Return items that begin one after the other, without time passing between them."""
    return Meanwhile(tuple(map(_item, items)))


def between(name: str, *calls: str) -> Between:
    """Return calls between a failed restart of `name` and the next attempt."""
    found = tuple(item for item in map(_item, calls) if isinstance(item, Do))
    assert len(found) == len(calls)
    return Between(Die(name), found)


def start(on: str, *children: Node) -> tuple[Do, ...]:
    """Return calls that start children of `on`, one after the other."""
    return tuple(Do("start", on, (child,)) for child in children)


def ask(who: str, op: str, on: str, *args: Arg) -> Do:
    """Return a call that the child `who` makes."""
    return Do(op, on, args, who)


def top(*children: Node, **flags: Any) -> Sup:
    """Return a root."""
    return Sup("top", children, **flags)


def person(name: str, ends: str = "silent") -> Child:
    """Return a child that acts for a test; it does not trap exits."""
    return Child(name, restart="temporary", ends=ends)


def waits(*names: str) -> tuple[Job, ...]:
    """Return jobs that wait for a step to end them."""
    return tuple(Job(name) for name in names)
