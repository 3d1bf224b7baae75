"""The local variables of a crash live until every hook has returned, its traceback longer."""

from __future__ import annotations

import asyncio
import traceback
import weakref
from typing import Any

import pytest

import otpy
from otpy import (
    Backoff,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    GenServer,
    Strategy,
    SupervisorFailed,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import CallFailed, StartFailed
from otpy.reports import ChildExited, ChildStopped, Report
from otpy.server import NoReply
from otpy.tasks import TaskFailed
from otpy.testing import MockClock
from tests.runtime.children import Boom, forever


class Big:
    """A large object in a local variable of a child."""


class Holders:
    """The living large objects, and how many each life found when it began.

    Attributes:
        alive: The living objects.
        found: Their number at the beginning of each life.
    """

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Big] = weakref.WeakSet()
        self.found: list[int] = []

    def made(self) -> Big:
        """Make one more, and record how many there were."""
        self.found.append(len(self.alive))
        big = Big()
        self.alive.add(big)
        return big

    async def child(self) -> None:
        """Crash twice, each time with a large object in a variable."""
        big = self.made()
        await asyncio.sleep(0)
        if otpy.current().incarnation < 3:
            raise Boom(id(big))
        await forever()


def ignore(report: Report) -> None:
    """Ignore each report."""
    del report


def locals_of(error: BaseException) -> dict[str, object]:
    """Return the variables of the frame that raised."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return dict(frame.f_locals)


def text_of(error: BaseException | None) -> str:
    """Return the traceback as Python prints it."""
    assert error is not None
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("hooks", [(), None, [ignore]], ids=["none", "log", "own"])
async def test_the_next_life_begins_without_the_locals_of_the_crash(
    clock: MockClock, hooks: Any
) -> None:
    """An object that fits into memory once fits again after a crash."""
    holders = Holders()
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", holders.child)]), hooks=hooks):
        await clock.advance(1)
    assert holders.found == [0, 0, 0]


@pytest.mark.parametrize("hooks", [(), None], ids=["none", "log"])
@pytest.mark.parametrize("strategy", list(Strategy))
async def test_no_strategy_keeps_the_locals_of_a_crash(
    clock: MockClock, hooks: Any, strategy: Strategy
) -> None:
    """This holds even where siblings stop first, and where that takes time."""
    holders = Holders()

    async def slow() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(1)

    children = [ChildSpec("c", holders.child), ChildSpec("slow", slow)]
    async with otpy.start(SupervisorSpec("app", children, strategy=strategy), hooks=hooks):
        await clock.advance(3)
    assert holders.found == [0, 0, 0]


@pytest.mark.parametrize("hooks", [(), None], ids=["none", "log"])
async def test_locals_are_released_while_the_child_waits_for_its_restart(
    clock: MockClock, hooks: Any
) -> None:
    """A backoff of an hour does not keep them for an hour."""
    holders = Holders()
    spec = ChildSpec("c", holders.child, backoff=Backoff((3600,)))
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=hooks):
        await clock.advance(1)
        assert len(holders.found) == 1
        assert not holders.alive


async def test_a_crash_that_has_to_wait_is_released_when_it_has_been_told(
    clock: MockClock,
) -> None:
    """A busy supervisor reports the crash later; until then hooks may look at the variables."""
    seen: list[object] = []
    holders = Holders()

    async def starts_slowly(*, task_status: Any) -> None:
        await asyncio.sleep(1)
        task_status.started()
        await forever()

    async def crashes() -> None:
        big = holders.made()
        await asyncio.sleep(0.5)
        if otpy.current().incarnation == 1:
            raise Boom(id(big))
        await forever()

    def hook(report: Report) -> None:
        if isinstance(report, ChildExited | ChildStopped) and isinstance(report.reason, Crashed):
            seen.append(type(locals_of(report.reason.error)["big"]))

    children = [ChildSpec("c", crashes), ChildSpec("s", starts_slowly)]
    async with otpy.start(SupervisorSpec("app", children), hooks=[hook]):
        await clock.advance(0)
        assert seen == [Big]
        assert holders.found == [0, 0]


@pytest.mark.usefixtures("clock")
async def test_a_server_releases_the_locals_of_its_crash() -> None:
    """This includes the variables of its callbacks, and its state."""
    holders = Holders()

    class Server(GenServer[None, None, Big]):
        def init(self) -> Big:
            return holders.made()

        def handle_cast(self, request: None, state: Big) -> NoReply[Big]:
            big = state
            raise Boom(id(big))

    async with otpy.start(SupervisorSpec("app", [ChildSpec("s", Server)]), hooks=()) as app:
        Server.at("app/s", app).cast(None)
        await app.wait_for_restart("s", after=1)
        assert holders.found == [0, 0]


async def test_every_hook_sees_the_locals_of_a_crash(clock: MockClock) -> None:
    """An error tracker can read them inside its hook, without keeping them alive."""
    seen: list[object] = []
    holders = Holders()

    def hook(report: Report) -> None:
        if isinstance(report, ChildExited) and isinstance(report.reason, Crashed):
            seen.append(type(locals_of(report.reason.error)["big"]))

    children = [ChildSpec("c", holders.child)]
    async with otpy.start(SupervisorSpec("app", children), hooks=[hook, hook]):
        await clock.advance(1)
        assert seen == [Big] * 4
        assert holders.found == [0, 0, 0]


async def test_a_hook_may_keep_the_exception(clock: MockClock) -> None:
    """In another thread it still has its type, text and traceback, but no variables."""
    kept: list[BaseException] = []

    def hook(report: Report) -> None:
        if isinstance(report, ChildExited) and isinstance(report.reason, Crashed):
            kept.append(report.reason.error)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", Holders().child)]), hooks=[hook]):
        await clock.advance(1)
    text = await asyncio.to_thread(text_of, kept[0])
    assert "raise Boom(id(big))" in text
    assert "Boom: " in text
    assert locals_of(kept[0]) == {}


async def fails(word: str) -> None:
    raise Boom(word)


@pytest.mark.usefixtures("clock")
class TestTracebacksStay:
    """A caller that gets the exception of a child can print its traceback."""

    async def test_of_a_start_that_somebody_asked_for(self) -> None:
        """The traceback is in the cause of `StartFailed`."""

        async def start(*, task_status: object) -> None:
            del task_status
            await fails("start")

        async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
            with pytest.raises(StartFailed) as caught:
                await app.start_child(ChildSpec("c", start))
        assert "raise Boom(word)" in text_of(caught.value.__cause__)

    async def test_of_a_task(self) -> None:
        """The traceback is in the cause of `TaskFailed`."""
        async with otpy.start(SupervisorSpec("app", [TaskSupervisor.spec("t")]), hooks=()) as app:
            task = await TaskSupervisor(app.child("t")).spawn(fails, "task")
            with pytest.raises(TaskFailed) as caught:
                await task
        assert "raise Boom(word)" in text_of(caught.value.__cause__)

    async def test_of_a_call(self) -> None:
        """The traceback is in the cause of `CallFailed`."""

        class Server(GenServer[str, None, None]):
            def init(self) -> None:
                pass

            async def handle_call(self, request: str, caller: object, state: None) -> Any:
                await fails(request)

        async with otpy.start(SupervisorSpec("app", [ChildSpec("s", Server)]), hooks=()) as app:
            with pytest.raises(CallFailed) as caught:
                await Server.at("app/s", app).call("call")
        assert "raise Boom(word)" in text_of(caught.value.__cause__)

    async def test_of_a_tree(self) -> None:
        """The traceback is in the cause of `SupervisorFailed`."""
        with pytest.raises(SupervisorFailed) as caught:
            async with otpy.start(SupervisorSpec("app", [ChildSpec("c", fails, ("x",))])) as app:
                await app.wait()
        assert "raise Boom(word)" in text_of(caught.value.__cause__)
