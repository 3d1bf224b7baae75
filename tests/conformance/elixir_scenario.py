"""Scenarios for Elixir's additions to OTP: the contents of a tree, and what happens to it.

As in `scenario.py` a scenario is one frozen value. `elixir_runner` runs it on Elixir's own modules,
`elixir_player.py` on otpy; their traces are compared. Everything has a name of its own, unique in
the scenario. Words for reasons are those of `scenario.py`, and `return`: a task returns.
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

from attrs import fields, frozen

from tests.conformance.scenario import Limit, term_of


@final
@frozen
class Child:
    """A process that follows a script, and otherwise obeys orders.

    Attributes:
        name: Its name.
        id: The id in its spec; its name, if it is empty.
        restart: "permanent", "transient" or "temporary".
        shutdown: Its shutdown limit.
        starts: The results of its starts, one letter each: `s` succeeds, `v` too with a value, `f`
            fails, `e` raises, `h` fails with reason `shutdown`, `i` is ignored. After the last
            letter all succeed.
        ends: How it ends when asked: a reason, "silent" (`shutdown`, and no code of its own runs:
            it does not trap exits) or "refuses" (only a kill ends it).
        takes: Milliseconds it takes to end when asked.
        registers: Registry and key under which it registers itself while it starts, as one text
            with a slash, or empty.
    """

    name: str
    id: str = ""
    restart: str = "permanent"
    shutdown: Limit = 5000
    starts: str = ""
    ends: str = "shutdown"
    takes: int = 0
    registers: str = ""


@final
@frozen
class Server:
    """A `GenServer` that answers a call with its number, or else with its calls so far.

    As the child of a `Partitions` its number is that of its partition.
    """

    name: str
    registers: str = ""


@final
@frozen
class Job:
    """The work of a task.

    Attributes:
        name: The name of the task; what it returns, too.
        does: "return"; a reason to end with; "wait" for a `Die`.
        after: Milliseconds before it does so.
        ends: How it ends when asked; see `Child`.
        shutdown: Its shutdown limit.
        restart: Its restart type, for `start_child`.
        inner: Tasks that it starts first, and awaits.
    """

    name: str
    does: str = "wait"
    after: int = 0
    ends: str = "silent"
    shutdown: Limit = 5000
    restart: str = "temporary"
    inner: tuple[Job, ...] = ()


@final
@frozen
class Sup:
    """A `Supervisor`; -1 leaves `max_restarts` to its default."""

    name: str
    children: tuple[Node, ...] = ()
    strategy: str = "one_for_one"
    max_restarts: int = -1


@final
@frozen
class Dynamic:
    """A `DynamicSupervisor`; -1 leaves an option to its default."""

    name: str
    max_restarts: int = -1
    max_children: int = -1


@final
@frozen
class Tasks:
    """A `Task.Supervisor`; -1 leaves an option to its default."""

    name: str
    max_restarts: int = -1
    max_children: int = -1


@final
@frozen
class Partitions:
    """A `PartitionSupervisor`; its children are called `name.0`, `name.1` and so on.

    Attributes:
        name: Its name.
        child: The node of each partition.
        count: The number of partitions; -1 leaves it to the default.
    """

    name: str
    child: Child | Server | Dynamic
    count: int = 3


@final
@frozen
class Names:
    """A `Registry`.

    Attributes:
        name: Its name.
        keys: "unique" or "duplicate".
        partitions: The number of its partitions; a registry of otpy has none.
        listener: The name of the child that listens, if any.
    """

    name: str
    keys: str = "unique"
    partitions: int = 1
    listener: str = ""


Node: TypeAlias = Child | Server | Sup | Dynamic | Tasks | Partitions | Names
Value: TypeAlias = str | int | float
Arg: TypeAlias = Node | Job | Value | tuple[Job, ...]


@final
@frozen
class Die:
    """`name` ends with `reason`: by "itself", or because "others" end it.

    No process survives being "killed". Of a registry, one of its processes is meant.
    """

    name: str
    reason: str = "boom"
    by: str = "itself"


@final
@frozen
class Do:
    """A call of `op` on something.

    The operations are in `elixir_operations.py` and, for Elixir, in `elixir_runner`.

    Attributes:
        op: The operation.
        on: Its target: a supervisor, a task, a registry; or, with a slash, the process that a
            registry or a partition supervisor has for a key.
        args: Its arguments.
        by: The child that calls; if empty, code outside of the tree.
    """

    op: str
    on: str
    args: tuple[Arg, ...] = ()
    by: str = ""


@final
@frozen
class Meanwhile:
    """These begin in order, each when nothing more happens without time passing."""

    items: tuple[Die | Do, ...]


@final
@frozen
class Between:
    """A child dies, its restart fails, and these calls come before the next attempt."""

    die: Die
    calls: tuple[Do, ...]


Step: TypeAlias = Die | Do | Meanwhile | Between


@final
@frozen
class Scenario:
    """A tree, and the steps that happen to it."""

    tree: Sup
    steps: tuple[Step, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the scenario as dicts, lists, texts and numbers."""
        return {"tree": _plain(self.tree), "steps": [_plain_step(step) for step in self.steps]}

    def term(self) -> str:
        """Return the scenario as an Erlang term, in one line."""
        return f"{term_of(self.plain())}.\n"

    def __str__(self) -> str:
        """Return the scenario as Python code that makes it again."""
        return f"Scenario(\n    {self.tree},\n    {self.steps},\n)"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not hasattr(value, "__attrs_attrs__"):
        return value
    kind: type[Any] = value.__class__
    found = {field.name: _plain(getattr(value, field.name)) for field in fields(kind)}
    return {"kind": kind.__name__.lower(), **found}


def _plain_step(step: Step) -> dict[str, Any]:
    return {"text": name_of(step), **_plain(step)}


def name_of(step: Step) -> str:
    """Return the step in one line."""
    match step:
        case Die():
            return f"die {step.name} {step.reason} {step.by}"
        case Do():
            said = " ".join([step.op, step.on, *map(_said, step.args)])
            return f"{step.by}: {said}" if step.by else said
        case Meanwhile():
            return f"meanwhile [{', '.join(map(name_of, step.items))}]"
        case Between():
            return f"between {step.die.name} [{', '.join(map(name_of, step.calls))}]"


def _said(arg: Arg) -> str:
    if isinstance(arg, tuple):
        return ",".join(job.name for job in arg)
    return str(arg) if isinstance(arg, str | int | float) else arg.name


def partition(name: str, index: int) -> str:
    """Return the name of one child of a partition supervisor."""
    return f"{name}.{index}"
