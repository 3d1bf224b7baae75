"""Never run: mypy and pyright check the arguments of a spec."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, assert_type

from anyio.abc import TaskStatus as AnyioTaskStatus

from otpy import (
    AutoShutdown,
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    PartitionSupervisor,
    Portal,
    Process,
    Registry,
    Restart,
    Strategy,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.registry import Entry, Via
from otpy.specs import TaskStatus
from otpy.tasks import Task


async def swift() -> None:
    """Take no arguments."""


WORDS = SupervisorSpec(
    "app",
    [
        ChildSpec("a", swift, restart="transient"),
        ChildSpec("b", swift, restart=Restart.TEMPORARY),
        DynamicSupervisor.spec("c", restart="temporary"),
        Registry.spec("d", restart="transient"),
        PartitionSupervisor.spec("e", ChildSpec("x", swift), strategy="rest_for_one"),
    ],
    strategy="one_for_all",
    auto_shutdown="any_significant",
    restart="permanent",
)
assert_type(WORDS.strategy, Strategy)
assert_type(WORDS.auto_shutdown, AutoShutdown)
assert_type(WORDS.restart, Restart)

ChildSpec("a", swift, restart="always")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
SupervisorSpec("b", strategy="all")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
SupervisorSpec("c", auto_shutdown="yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
DynamicSupervisor.spec("d", restart="never")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def made() -> list[ChildSpec[None]]:
    """Return children of one kind."""
    return [ChildSpec("a", swift, register=Via("app/names", "a"))]


SupervisorSpec("e", made)
SupervisorSpec("f", lambda: (ChildSpec("a", swift), DynamicSupervisor.spec("b")))
SupervisorSpec("g", swift)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
SupervisorSpec("h", lambda: [swift])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]
DynamicSupervisor.spec("i", auto_shutdown="all_significant")
ChildSpec("j", swift, register="app/names")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


async def delivered(tasks: TaskSupervisor) -> None:
    """A task has the same type if its messages are delivered."""
    task = await tasks.spawn(two, 1, deliver=True)
    _ = assert_type(task, Task[int])


async def words(tasks: TaskSupervisor) -> None:
    """The words are the same in each place that takes a restart type."""
    await tasks.start_child(swift, restart="permanent")
    await tasks.start_child(swift, restart="x")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


# --- start and its arguments ----------------------------------------------------------------------


async def two(number: int, text: str = "") -> int:
    """Take one argument or two; the result is not used."""
    return len(text) + number


async def named(number: int, *, text: str) -> None:
    """Take an argument that must be named."""


async def ready(*, task_status: TaskStatus[str]) -> None:
    """Hand over a text."""


async def ready_one(number: int, *, task_status: TaskStatus[str]) -> None:
    """Take an argument, hand over a text."""
    task_status.started(str(number))


async def ready_three(a: int, b: str, c: bytes = b"", *, task_status: TaskStatus[str]) -> None:
    """Take three arguments, hand over a text."""


async def ready_for_nothing(*, task_status: TaskStatus[None]) -> None:
    """Report ready, and hand over nothing."""
    task_status.started()


async def ready_as_anyio_says(number: int, *, task_status: AnyioTaskStatus[str]) -> None:
    """Hand over a text, with the type of anyio."""


@asynccontextmanager
async def pool(url: str) -> AsyncGenerator[list[str]]:
    """Hand over a list."""
    yield [url]


class Client:
    """A context manager, and a function."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def __call__(self, number: int) -> None: ...

    async def run(self, number: int) -> None: ...


class Counter(GenServer[int, int, int]):
    """A server."""

    def init(self, first: int) -> int:
        return first


def sync(number: int) -> None:
    """Block the loop."""


def right(client: Client, start: Callable[..., Awaitable[None]], args: tuple[Any, ...]) -> None:
    """A matching spec has the type of the value that it hands over."""
    assert_type(ChildSpec("a", swift), ChildSpec[None])
    assert_type(ChildSpec("a", two, (1,), shutdown=1.0), ChildSpec[None])
    assert_type(ChildSpec("a", two, (1, "x")), ChildSpec[None])
    assert_type(ChildSpec("a", client.run, (1,)), ChildSpec[None])
    assert_type(ChildSpec("a", client, (1,)), ChildSpec[None])
    assert_type(ChildSpec("a", partial(two, 1), ("x",)), ChildSpec[None])
    assert_type(ChildSpec("a", lambda: two(1)), ChildSpec[None])
    assert_type(ChildSpec("a", named, (1,), {"text": "x"}), ChildSpec)
    assert_type(ChildSpec("a", named, kwargs={"number": 1, "text": "x"}), ChildSpec)
    assert_type(ChildSpec("a", pool, ("url",)), ChildSpec[list[str]])
    assert_type(ChildSpec("a", Client, ("url",)), ChildSpec[Client])
    assert_type(ChildSpec("a", ready), ChildSpec[str])
    assert_type(ChildSpec("a", ready_one, (1,)), ChildSpec[str])
    assert_type(ChildSpec("a", ready_three, (1, "x")), ChildSpec[str])
    assert_type(ChildSpec("a", ready_three, (1, "x", b"")), ChildSpec[str])
    assert_type(ChildSpec("a", ready_for_nothing), ChildSpec[None])
    ChildSpec("a", ready_as_anyio_says, (1,))  # of a text for mypy, of any object for pyright
    assert_type(ChildSpec("a", Counter, (1,)), ChildSpec[None])
    ChildSpec("a", start, args)
    mixed: list[ChildSpec] = [ChildSpec("a", pool, ("url",)), ChildSpec("b", swift)]
    SupervisorSpec("app", mixed)


def wrong(client: Client) -> None:
    """Arguments are missing, too many or of another type, or the function blocks."""
    ChildSpec("a", two)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", two, ("x",))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", two, (1, "x", 2))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", swift, (1,))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", named, (1,))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", client.run, ("x",))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", pool)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", pool, (1,))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", ready_one)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", ready_one, ("x",))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", sync, (1,))  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", lambda: None)  # type: ignore[arg-type, return-value] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", swift())  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
    ChildSpec("a", swift, retries=1)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


def any_value(process: Process) -> None:
    """Take a process of any kind."""
    assert_type(process.value, object)


def names(process: Process) -> None:
    """A registry has types for its keys and values."""
    assert_type(Registry[str, int].spec("names"), ChildSpec[Registry[str, int]])
    ages = Registry[str, int].of(process)
    assert_type(ages, Registry[str, int])
    ages.register("ann", 41)
    assert_type(ages.lookup("ann"), list[Entry[str, int]])
    assert_type(ages.keys(process), list[str])
    assert_type(ages.values("ann", process), list[int])
    assert_type(ages.update_value("ann", lambda age: age + 1), tuple[int, int])
    assert_type(ages.select(lambda entry: entry.value > 40)[0].process, Process)
    ages.register(1, 41)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ages.register("ann", "old")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ages.lookup(1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    anything = Registry.of(process)
    anything.register(("a", 1), object())
    Registry.spec("any")


async def values(app: Supervisor, some: DynamicSupervisor, portal: Portal) -> None:
    """The value of a child has the type of its spec."""
    spec = ChildSpec("a", pool, ("url",))
    assert_type(await app.start_child(spec), Process[list[str]] | None)
    assert_type(await some.start_child(spec), Process[list[str]] | None)
    assert_type(portal.start_child(app, spec), Process[list[str]] | None)
    process = await app.start_child(spec)
    if process is not None:
        assert_type(process.value, list[str])
        any_value(process)
    assert_type(app.child("a").value, object)
    assert_type(await app.start_child(SupervisorSpec("b")), Process | None)
