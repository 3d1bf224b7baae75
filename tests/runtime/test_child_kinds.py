"""The kinds of child: each starts, hands over its value, runs and ends."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Exit,
    Ignore,
    InvalidSpec,
    Killed,
    Normal,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import ChildNotReady, StartFailed
from otpy.reports import ChildExited, ChildStartFailed, ChildStopped
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, Journal, crash, forever


class Service:
    """An object with every kind of callable that a child can be."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.seen: list[object] = []

    async def method(self, *args: object, **kwargs: object) -> None:
        self.seen.append((args, kwargs))
        await forever()

    async def ready_method(self, seconds: float, *, task_status: TaskStatus[str]) -> None:
        await asyncio.sleep(seconds)
        task_status.started("up")
        await forever()

    async def __call__(self, *args: object) -> None:
        self.seen.append(args)
        await forever()

    async def __aenter__(self) -> str:
        self.seen.append("entered")
        return f"connected to {self.url}"

    async def __aexit__(self, *_: object) -> None:
        self.seen.append("left")


class ReadyCallable:
    async def __call__(self, *, task_status: TaskStatus[int]) -> None:
        task_status.started(7)
        await forever()


async def ready_child(
    value: object, seconds: float = 0, *, task_status: TaskStatus[object]
) -> None:
    await asyncio.sleep(seconds)
    task_status.started(value)
    await forever()


def later(*, task_status: TaskStatus[object]) -> Awaitable[None]:
    return ready_child("up", 2, task_status=task_status)


def logged(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    async def wrapper(*args: Any, **kwargs: Any) -> None:
        await start(*args, **kwargs)

    return wrapper


async def test_arguments_reach_every_kind_of_callable(clock: MockClock) -> None:
    """Functions, partials, bound methods, callable objects and lambdas get args and kwargs."""
    service = Service()
    children = [
        ChildSpec("method", service.method, (1,), {"a": 2}),
        ChildSpec("partial", functools.partial(service.method, 1, a=2)),
        ChildSpec("both", functools.partial(service.method, 1), (), {"a": 2}),
        ChildSpec("lambda", lambda one: service.method(one, a=2), (1,)),
        ChildSpec("object", service, (3, 4)),
        ChildSpec("partial object", functools.partial(service, 3), (4,)),
    ]
    async with otpy.start(SupervisorSpec("app", children)):
        await clock.advance(0)
    assert service.seen == [((1,), {"a": 2})] * 4 + [(3, 4)] * 2


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (ChildSpec("c", ready_child, ("up", 2)), "up"),
        (ChildSpec("c", functools.partial(ready_child, "up", 2)), "up"),  # pyright: ignore[reportCallIssue, reportArgumentType] - sees no `task_status` in a partial
        (ChildSpec("c", logged(ready_child), ("up", 2)), "up"),
        (ChildSpec("c", Service().ready_method, (2,)), "up"),
        (ChildSpec("c", later), "up"),
    ],
)
async def test_readiness_is_awaited_and_hands_over_a_value(
    clock: MockClock, spec: ChildSpec, value: object
) -> None:
    """SUP-304: a child that takes `task_status` has started when it says so, and no earlier."""
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        assert clock.now == 2
        assert app.child("c").value == value
        assert app.child("c").ready


async def test_a_callable_object_may_take_task_status() -> None:
    """The keyword is found on `__call__` too."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", ReadyCallable())])) as app:
        assert app.child("c").value == 7


async def test_a_coroutine_function_is_ready_as_soon_as_its_task_exists(clock: MockClock) -> None:
    """The supervisor does not wait for the first step of the child."""
    seen: list[str] = []

    async def child() -> None:
        seen.append("ran")
        await forever()

    root = otpy.start(
        SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[lambda r: seen.append(r.event)]
    )
    async with root as app:
        await clock.advance(0)
        assert seen == ["child.started", "ran"]
        assert app.child("c").ready
        assert app.child("c").value is None


async def test_a_mock_may_stand_in_for_a_child(clock: MockClock) -> None:
    """`AsyncMock` counts as a coroutine function."""
    mock = AsyncMock()
    spec = ChildSpec("c", mock, ("hello",), restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        await clock.advance(0)
        assert await app.which_children() == []
    mock.assert_awaited_once_with("hello")


@pytest.mark.parametrize(
    ("raised", "reason"), [(Exit(Shutdown("no")), Shutdown("no")), (Exit(), None), (Boom(), None)]
)
async def test_an_end_before_readiness_is_a_start_failure(
    reports: Recording, raised: Exception, reason: otpy.ExitReason | None
) -> None:
    """An exception before `started()` fails the start, whatever it is."""

    async def child(*, task_status: TaskStatus[None]) -> None:
        await asyncio.sleep(1)
        raise raised

    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", child))
        assert caught.value.path == "app/c"
    got = reports.one(ChildStartFailed).reason
    if reason is not None:
        assert got == reason
    else:
        assert isinstance(got, Crashed)
        assert caught.value.__cause__ is got.error
        assert isinstance(got.error, Boom if isinstance(raised, Boom) else ChildNotReady)


async def test_returning_before_readiness_is_child_not_ready() -> None:
    """A child that takes `task_status` and returns without `started()` has not started."""

    async def child(*, task_status: TaskStatus[None]) -> None:
        return

    async with otpy.start(SupervisorSpec("app")) as app:
        with pytest.raises(StartFailed, match=r"task_status\.started") as caught:
            await app.start_child(ChildSpec("c", child))
        assert isinstance(caught.value.__cause__, ChildNotReady)


async def test_saying_started_twice_is_the_childs_error(
    clock: MockClock, reports: Recording
) -> None:
    """The second call raises inside the child, which crashes with that error."""

    async def child(*, task_status: TaskStatus[int]) -> None:
        task_status.started(1)
        task_status.started(2)

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await clock.advance(0)
    reason = reports.one(ChildExited).reason
    assert isinstance(reason, Crashed)
    assert "app/c: task_status.started() was called twice" in str(reason.error)


async def test_context_managers_are_entered_in_order_and_left_in_reverse(
    journal: Journal, reports: Recording
) -> None:
    """For both kinds of factory: ready when entered, clean-up on stop, value handed over."""
    service = Service("db")
    children = [
        ChildSpec("a", journal.service, ("a",)),
        ChildSpec("b", lambda: service),
        ChildSpec("c", journal.service, ("c",)),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]) as app:
        assert journal.lines == ["+a", "+c"]
        assert [app.child(n).value for n in "abc"] == ["a", "connected to db", "c"]
    assert journal.lines == ["+a", "+c", "-c", "-a"]
    assert service.seen == ["entered", "left"]
    assert [r.reason for r in reports.of(ChildStopped)] == [Shutdown()] * 3
    assert all(r.context is None for r in reports.of(ChildStopped))


async def test_a_class_is_a_factory_of_context_managers() -> None:
    """Each incarnation has an object of its own."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", Service, ("db",))])) as app:
        first = app.child("c")
        assert first.value == "connected to db"
        first.kill()
        assert await first.wait() == Killed()
        second = await app.wait_for_restart("c", after=1)
        assert second.value == "connected to db"


async def test_entering_a_context_manager_may_fail(journal: Journal) -> None:
    """An error on entry fails the start."""

    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        raise Boom("entry")
        yield

    async with otpy.start(journal.tree("a")) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", broken))
        assert isinstance(caught.value.__cause__, Boom)


async def test_leaving_a_context_manager_may_raise(
    clock: MockClock, journal: Journal, reports: Recording
) -> None:
    """A crash in the clean-up is reported; the stop goes on."""

    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        yield
        raise Boom("clean-up")

    children = [journal.spec("a"), ChildSpec("c", broken)]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
        await clock.advance(0)
    reason = reports.one(ChildStopped, "app/c").reason
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Boom)
    assert journal.lines == ["+a", "-a"]


async def test_a_nested_supervisor_is_ready_when_all_below_is(clock: MockClock) -> None:
    """A whole branch starts before the next sibling does."""
    inner = SupervisorSpec("in", [ChildSpec("x", ready_child, (1, 2)), ChildSpec("y", forever)])
    pool = DynamicSupervisor.spec("pool")
    last = ChildSpec("last", ready_child, ("last", 1))
    async with otpy.start(SupervisorSpec("app", [inner, pool, last])) as app:
        assert clock.now == 3
        process = app.child("in")
        assert isinstance(process.supervisor, Supervisor)
        assert isinstance(app.child("pool").supervisor, DynamicSupervisor)
        assert process.supervisor.child("x").path == "app/in/x"
        assert app.whereis("app/in/x") is process.supervisor.child("x")
        assert live_of(process).task is None


@pytest.mark.parametrize("junk", [None, 42, "text", asyncio.sleep])
async def test_a_start_that_returns_junk_names_the_path(junk: Any) -> None:
    """SUP-304: a value that can be neither awaited nor entered is a `TypeError` with the path."""
    async with otpy.start(SupervisorSpec("app")) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", lambda: junk))
        assert isinstance(caught.value.__cause__, TypeError)
        assert str(caught.value.__cause__).startswith("app/c: start returned ")


async def test_a_start_that_raises_instead_of_returning_a_coroutine() -> None:
    """A plain callable that raises has not started."""

    def start() -> Any:
        raise Boom("call")

    async with otpy.start(SupervisorSpec("app")) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", start))
        assert isinstance(caught.value.__cause__, Boom)


async def test_a_callable_written_in_c_is_called() -> None:
    """A callable without a signature takes no `task_status`, and is called as it is."""
    smallest: Any = min  # types would refuse them
    mapping: Any = dict
    async with otpy.start(SupervisorSpec("app")) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", smallest, (1, 2)))
        assert isinstance(caught.value.__cause__, TypeError)
        with pytest.raises(StartFailed):
            await app.start_child(ChildSpec("d", mapping))
        future = asyncio.get_running_loop().create_future()
        process = await app.start_child(ChildSpec("e", asyncio.ensure_future, (future,)))
        assert process is not None
        future.set_result(None)
        assert await process.wait() == Normal()
        await app.terminate_child("e")


@pytest.mark.parametrize("restart", [Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY])
async def test_ignore_declines_to_run(restart: Restart) -> None:
    """The start goes on; a temporary child is forgotten, any other can be started later."""

    @asynccontextmanager
    async def manager() -> AsyncGenerator[None]:
        raise Ignore
        yield

    def call() -> object:
        raise Ignore

    async def child(*, task_status: TaskStatus[None]) -> None:
        raise Ignore

    starts: list[Callable[..., Any]] = [manager, call, child]
    specs = [ChildSpec(str(n), start, restart=restart) for n, start in enumerate(starts)]
    async with otpy.start(SupervisorSpec("app", [*specs, ChildSpec("last", forever)])) as app:
        assert app.child("last").alive
        assert (await app.count_children()).active == 1
        assert (await app.count_children()).specs == (1 if restart is Restart.TEMPORARY else 4)
        assert await app.start_child(ChildSpec("late", child, restart=restart)) is None


async def test_ignore_after_readiness_is_a_crash(clock: MockClock, reports: Recording) -> None:
    """Declining is for starting children only: later, `Ignore` is an exception like any other."""

    async def child() -> None:
        raise Ignore

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await clock.advance(0)
    reason = reports.one(ChildExited).reason
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Ignore)


async def test_a_failing_child_says_which_one_failed() -> None:
    """Only a supervisor can be a root."""
    with pytest.raises(InvalidSpec, match="SupervisorSpec"):
        otpy.start(ChildSpec("c", crash))  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
