"""The scenario language: a tree of scripted children and a list of steps, as one frozen value.

A scenario does not say how a supervisor works. `runner.erl` runs it on Erlang's own supervisor and
`otpy_runner.py` on otpy; their traces are compared.

Words for reasons: `normal`, `shutdown`, `shutdown:x` (a shutdown with a detail), `boom` (a crash)
and `killed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast, final

from attrs import asdict, frozen

Limit: TypeAlias = int | str
"""Milliseconds, "brutal_kill" or "infinity"."""

POOL: Final = "simple_one_for_one"

HELD: Final = -1
"""Instead of milliseconds: until a step releases it."""


@final
@frozen
class Worker:
    """A child that follows a script.

    Attributes:
        id: Its id.
        restart: "permanent", "transient" or "temporary".
        shutdown: Its shutdown limit.
        significant: Whether its end can end its supervisor.
        starts: Results of starts, one letter each, counted over the whole scenario: `s` succeeds,
            `f` fails, `e` raises, `h` fails with reason `shutdown`, `i` is ignored, `d` succeeds
            and the child is dead (`boom`) on arrival, `w` waits until a step releases it and
            succeeds, `W` waits and fails. After the last letter all succeed.
        ends: How it ends when asked: a reason, "silent" (`shutdown`, and no code of its own runs:
            it does not trap exits) or "refuses" (only a kill ends it).
        takes: Milliseconds it takes to end when asked; `HELD` waits until a step releases it.
        start_takes: Milliseconds each start takes.
        style: For otpy only: whether it ends by being "cancelled", or waits to be "asked".
    """

    id: str
    restart: str = "permanent"
    shutdown: Limit = 5000
    significant: bool = False
    starts: str = ""
    ends: str = "shutdown"
    takes: int = 0
    start_takes: int = 0
    style: str = "cancelled"


@final
@frozen
class Sup:
    """A supervisor, with its flags and its role as a child.

    With the strategy `simple_one_for_one` its one child is a pattern that is not started. Started
    children have its restart type and its limit, and only the scenario knows them by their ids.
    """

    id: str
    children: tuple[Node, ...] = ()
    strategy: str = "one_for_one"
    intensity: int = 1
    auto_shutdown: str = "never"
    restart: str = "permanent"
    shutdown: Limit = "infinity"
    significant: bool = False

    @property
    def is_pool(self) -> bool:
        """Whether the supervisor is a pool, whose children come and go."""
        return self.strategy == POOL


Node: TypeAlias = Worker | Sup


@final
@frozen
class Die:
    """The child at `path` ends with `reason`: by "itself", or because "others" end it.

    Only a "silent" child obeys others, but no child survives being "killed". Nothing happens if it
    does not run.
    """

    path: str
    reason: str = "boom"
    by: str = "itself"


@final
@frozen
class Call:
    """Ask the supervisor at `path`.

    `op` is start (a child given as `arg`), terminate, restart, delete, get (of the id `arg`),
    which, count, or stop (with the reason `arg`).
    """

    path: str
    op: str
    arg: str | Node = ""


@final
@frozen
class Stop:
    """The root's parent ends with `reason`, or asks the root to end."""

    reason: str = "shutdown"


@final
@frozen
class Together:
    """All items happen, in this order, before the supervisor at `path` handles any of them."""

    path: str
    items: tuple[Die | Call | Stop, ...]


@final
@frozen
class Release:
    """The first child, by its path, that is held up in its start or its end goes on."""


Step: TypeAlias = Die | Call | Stop | Together | Release


@final
@frozen
class Scenario:
    """A tree, and the steps that happen to it."""

    tree: Sup
    steps: tuple[Step, ...] = ()

    def nodes(self) -> Iterator[tuple[str, Node]]:
        """Yield every path and node that can ever exist, added ones included, top down."""
        yield from below(self.tree.id, self.tree)
        for step in self.steps:
            for item in step.items if isinstance(step, Together) else (step,):
                if isinstance(item, Call) and isinstance(item.arg, Worker | Sup):
                    yield from below(f"{item.path}/{item.arg.id}", item.arg)

    @property
    def holds(self) -> bool:
        """Whether a step may meet an operation in progress."""
        workers = [node for _, node in self.nodes() if isinstance(node, Worker)]
        return any(w.takes == HELD or set("wW") & set(w.starts) for w in workers)

    def plain(self) -> dict[str, Any]:
        """Return the scenario as dicts, lists, texts and numbers."""
        return {"tree": asdict(self.tree), "steps": [_plain_step(step) for step in self.steps]}

    def term(self) -> str:
        """Return the scenario as an Erlang term, in one line."""
        return f"{term_of(self.plain())}.\n"

    def __str__(self) -> str:
        """Return the scenario as Python code that makes it again."""
        return f"Scenario(\n    {self.tree},\n    {self.steps},\n)"


def below(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Yield `node` and everything below it, with paths."""
    yield path, node
    if isinstance(node, Sup) and not node.is_pool:
        for child in node.children:
            yield from below(f"{path}/{child.id}", child)


def _plain_step(step: Step) -> list[Any]:
    match step:
        case Die():
            return ["die", step.path, step.reason, step.by]
        case Call():
            arg = step.arg if isinstance(step.arg, str) else asdict(step.arg)
            return ["call", step.path, step.op, arg]
        case Stop():
            return ["stop", step.reason]
        case Release():
            return ["release"]
        case Together():
            return ["together", step.path, [_plain_step(item) for item in step.items]]


def term_of(value: Any) -> str:
    """Return plain data as an Erlang term; the keys of dicts become atoms."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"<<{json.dumps(value)}>>"
        case dict():
            table = cast("dict[str, Any]", value)
            return "#{" + ",".join(f"'{key}'=>{term_of(item)}" for key, item in table.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(term_of, cast("list[Any]", value))) + "]"
        case _:
            return str(value)


def name_of(step: Step) -> str:
    """Return the step in one line, in the words of the trace."""
    match step:
        case Die():
            return f"die {step.path} {step.reason} {step.by}"
        case Call():
            arg = step.arg if isinstance(step.arg, str) else step.arg.id
            return f"call {step.path} {step.op} {arg}"
        case Stop():
            return f"stop {step.reason}"
        case Release():
            return "release"
        case Together():
            return f"together {step.path} [{', '.join(map(name_of, step.items))}]"
