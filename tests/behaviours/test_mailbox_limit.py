"""Servers whose class limits how many messages may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import pytest

import otpy
from otpy import (
    INFINITY,
    ChildSpec,
    Crashed,
    GenServer,
    GenStateMachine,
    InvalidSpec,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy.errors import CallFailed, MailboxFull
from otpy.reports import MailboxGrown
from otpy.server import MailboxLimit, NoReply, Overflow, Reply, Result, ServerRef
from otpy.signals import Down
from otpy.statem import Keep, Next
from otpy.tasks import Ok
from otpy.testing import MockClock, Recording, settled
from tests.runtime.children import forever

HEARD: list[Any] = []


class Desk(GenServer[Any, Any, None]):
    """A server that serves one message a second, and records what it has served."""

    mailbox: ClassVar[MailboxLimit | None] = MailboxLimit(4, 6)

    def init(self) -> None:
        HEARD.clear()

    async def serve(self, message: Any) -> None:
        await asyncio.sleep(1)
        HEARD.append(message)

    async def handle_call(self, request: Any, caller: Any, state: None) -> Reply[Any, None]:
        await self.serve(request)
        return Reply(request, state)

    async def handle_cast(self, request: Any, state: None) -> Result[None]:
        await self.serve(request)
        return NoReply(state)

    async def handle_info(self, message: object, state: None) -> Result[None]:
        await self.serve(message)
        return NoReply(state)

    async def terminate(self, reason: Any, state: None) -> None:
        HEARD.append("terminated")


class Mortal(Desk):
    """A server that ends when too many messages wait."""

    mailbox: ClassVar[MailboxLimit | None] = MailboxLimit(4, 6, Overflow.END)


@asynccontextmanager
async def desk(
    kind: type[Desk], reports: Recording, **options: Any
) -> AsyncGenerator[tuple[Supervisor, ServerRef[Any, Any]]]:
    """Run a server that is busy with its first message, so that all others wait."""
    spec = ChildSpec("desk", kind, **options)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as root:
        ref = kind.at(root.child("desk"))
        ref.cast("first")
        await settled(root)
        await asyncio.sleep(0)
        yield root, ref


def counts(reports: Recording) -> list[tuple[int, int]]:
    """Return how many messages waited and were dropped, for each report."""
    return [(report.waiting, report.dropped) for report in reports.of(MailboxGrown)]


async def send(ref: ServerRef[Any, Any], *messages: Any) -> None:
    """Send casts, and let their effects happen."""
    for message in messages:
        ref.cast(message)
    await asyncio.sleep(0)


# --- the mark -------------------------------------------------------------------------------------


async def test_the_mark_is_reported_when_so_many_wait(clock: MockClock, reports: Recording) -> None:
    """The report names the path and the life of the server, and comes once."""
    async with desk(Desk, reports) as (root, ref):
        await send(ref, 1, 2, 3)
        assert counts(reports) == []
        await send(ref, 4)
        report = reports.one(MailboxGrown)
        assert (report.path, report.incarnation) == ("app/desk", 1)
        assert (report.waiting, report.dropped) == (4, 0)
        await send(ref, 5, 6)
        await clock.advance(4)
        await send(ref, 7, 8)
        assert counts(reports) == [(4, 0)]
        await clock.advance(20)
        assert HEARD == ["first", 1, 2, 3, 4, 5, 6, 7, 8]
        assert root.child("desk").incarnation == 1


async def test_the_mark_is_reported_again_when_fewer_than_half_have_waited(
    clock: MockClock, reports: Recording
) -> None:
    """Half of the mark is not few enough."""
    async with desk(Desk, reports) as (_, ref):
        await send(ref, 1, 2, 3, 4)
        await clock.advance(2)  # two wait
        await send(ref, 5, 6)
        assert counts(reports) == [(4, 0)]
        await clock.advance(3)  # one waits
        await send(ref, 7, 8, 9)
        assert counts(reports) == [(4, 0), (4, 0)]


async def test_what_waits_while_a_server_is_suspended_counts(
    clock: MockClock, reports: Recording
) -> None:
    """Messages that the server holds back count, and so do those still in its queue."""
    async with desk(Desk, reports) as (_, ref):
        suspending = asyncio.create_task(ref.suspend())
        await clock.advance(2)
        await suspending
        for message in range(8):
            await send(ref, message)
        assert counts(reports) == [(4, 0), (6, 1)]
        await ref.resume()
        await clock.advance(9)
        assert HEARD == ["first", 0, 1, 2, 3, 4, 5]


async def test_a_mark_alone_is_no_limit(clock: MockClock, reports: Recording) -> None:
    """A limit without a mark reports only what it drops."""

    class Warned(Desk):
        mailbox = MailboxLimit(2)

    class Bounded(Desk):
        mailbox = MailboxLimit(INFINITY, 2)

    async with desk(Warned, reports) as (_, ref):
        await send(ref, *range(9))
        assert counts(reports) == [(2, 0)]
        await clock.advance(12)
        assert ["first", *range(9)] == HEARD
    reports = Recording()
    async with desk(Bounded, reports) as (_, ref):
        await send(ref, 1, 2)
        assert counts(reports) == []
        await send(ref, 3, 4)
        assert counts(reports) == [(2, 1)]
        with pytest.raises(MailboxFull):
            await ref.call(5)


# --- refusing -------------------------------------------------------------------------------------


async def test_a_call_that_finds_the_mailbox_full_fails_at_once(
    clock: MockClock, reports: Recording
) -> None:
    """That request is never served; a later one is, as soon as there is room."""
    async with desk(Desk, reports) as (_, ref):
        await send(ref, 1, 2, 3, 4, 5, 6)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(MailboxFull, match=r"^app/desk: has as many .* may: most=6$"):
            await ref.call("late")
        assert asyncio.get_running_loop().time() == begun
        await clock.advance(1)
        assert await ref.call("in time", timeout=None) == "in time"
        assert "late" not in HEARD


async def test_who_calls_again_and_again_is_served() -> None:
    """A loop around `call` that never sleeps lets the server make room."""

    class Quick(GenServer[object, object, None]):
        mailbox = MailboxLimit(1, 1)

        def init(self) -> None:
            return None

        def handle_call(self, request: object, caller: object, state: None) -> Any:
            return Reply(request, state)

        def handle_cast(self, request: object, state: None) -> Any:
            return NoReply(state)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("quick", Quick)]), hooks=()) as root:
        ref = Quick.at("app/quick", root)
        ref.cast("first")
        for _ in range(100):
            with suppress(MailboxFull):
                assert await ref.call("again") == "again"
                return
        pytest.fail("it was never served")


async def test_what_is_dropped_is_counted_in_the_next_report(
    clock: MockClock, reports: Recording
) -> None:
    """The first is reported at once, the others when the mark is reached again."""
    async with desk(Desk, reports) as (_, ref):
        await send(ref, 1, 2, 3, 4, 5, 6)
        await send(ref, "lost")
        assert counts(reports) == [(4, 0), (6, 1)]
        ref.send("lost")
        await send(ref, "lost", "lost")
        assert counts(reports) == [(4, 0), (6, 1)]
        await clock.advance(7)
        assert HEARD == ["first", 1, 2, 3, 4, 5, 6]
        await send(ref, 1, 2, 3, 4, 5)
        assert counts(reports) == [(4, 0), (6, 1), (4, 3)]


async def test_what_no_report_has_counted_is_reported_at_the_end(
    clock: MockClock, reports: Recording
) -> None:
    """The report belongs to that life; the next life starts to count from zero."""
    async with desk(Desk, reports) as (root, ref):
        await send(ref, 1, 2, 3, 4, 5, 6, "lost")
        await send(ref, "lost", "lost")
        root.child("desk").kill()
        await root.wait_for_restart("desk", after=1)
        assert counts(reports)[2:] == [(6, 2)]
        assert reports.of(MailboxGrown)[-1].incarnation == 1
        again = Desk.at("app/desk", root)
        again.cast("first")
        await settled(root)
        await send(again, 1, 2, 3, 4)
        await clock.advance(0)
        assert counts(reports)[3:] == [(4, 0)]


async def test_what_a_server_has_asked_for_comes_in_all_the_same(
    clock: MockClock, reports: Recording
) -> None:
    """Timers, ends of processes, results of tasks, a question about the server's own state."""

    class Asker(Desk):
        async def handle_cast(self, request: Any, state: None) -> Result[None]:
            if request == "first":
                self.send_after(0.5, "timer")
                root = otpy.current().root
                _ = self.monitor(root.whereis("app/other"))
                _ = await TaskSupervisor.at("app/tasks").spawn(asyncio.sleep, 0.5, deliver=True)
            return await super().handle_cast(request, state)

    tree = SupervisorSpec(
        "app",
        [TaskSupervisor.spec("tasks"), ChildSpec("other", forever), ChildSpec("desk", Asker)],
    )
    async with otpy.start(tree, hooks=[reports]) as root:
        ref = Asker.at("app/desk", root)
        ref.cast("first")
        await settled(root)
        await clock.advance(0.1)
        await send(ref, 1, 2, 3, 4, 5, 6)
        root.child("other").kill()
        await clock.advance(0.5)
        state = asyncio.create_task(ref.get_state(timeout=None))
        await clock.advance(30)
        assert state.done()
        down, *rest = HEARD[7:]
        assert isinstance(down, Down)
        timer = rest.pop(rest.index("timer"))
        (_, result), ended = rest
        assert (timer, result, type(ended)) == ("timer", Ok(None), Down)


async def test_messages_of_other_threads_are_limited_too(
    clock: MockClock, reports: Recording
) -> None:
    """The messages that are dropped there are counted, and the loop reports them."""
    async with desk(Desk, reports) as (_, ref):

        def send_all() -> None:
            for number in range(20):
                ref.cast(number)

        thread = threading.Thread(target=send_all)
        thread.start()
        thread.join()
        await clock.advance(0)
        assert [waiting for waiting, _ in counts(reports)] == [4, 6]
        await clock.advance(9)
        assert ["first", *range(6)] == HEARD
    assert sum(dropped for _, dropped in counts(reports)) == 14


async def test_a_state_machine_has_a_limit_as_a_server_has(reports: Recording) -> None:
    """Its class declares the limit in the same way."""

    class Machine(GenStateMachine[Any, Any, str, None]):
        mailbox = MailboxLimit(2, 3)

        def init(self) -> Next[str, None]:
            return Next("idle", None)

        def handle_event(self, event: Any, state: str, data: None) -> Keep[None]:
            return Keep()

    tree = SupervisorSpec("app", [ChildSpec("m", Machine)])
    async with otpy.start(tree, hooks=[reports]) as root:
        await send(Machine.at("app/m", root), *range(9))
        assert counts(reports) == [(2, 0), (3, 1)]


# --- ending ---------------------------------------------------------------------------------------


async def test_a_server_can_end_instead(clock: MockClock, reports: Recording) -> None:
    """It is killed without `terminate`, for a reason that names the limit, and restarted."""
    async with desk(Mortal, reports) as (root, ref):
        first = root.child("desk")
        await send(ref, 1, 2, 3, 4, 5, 6)
        assert first.alive
        await send(ref, 7, 8)
        reason = await first.wait()
        assert str(reason) == (
            "crashed: MailboxFull: app/desk: has as many messages waiting as it may: most=6"
        )
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, MailboxFull)
        await root.wait_for_restart("desk", after=1)
        await clock.advance(9)
        assert HEARD == []
        assert counts(reports) == [(4, 0)]


async def test_who_calls_a_server_that_ends_of_it_hears_the_reason(
    clock: MockClock, reports: Recording
) -> None:
    """This includes the call that exceeded the limit."""
    async with desk(Mortal, reports) as (_, ref):
        calls = [asyncio.create_task(ref.call(number, timeout=None)) for number in range(8)]
        await clock.advance(0.5)
        for failed in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(failed, CallFailed)
            assert isinstance(failed.reason, Crashed)
            assert isinstance(failed.reason.error, MailboxFull)


async def test_a_plain_server_ends_of_it_too(reports: Recording) -> None:
    """It has no task to cancel, and its queue never exceeds the limit."""

    class Plain(GenServer[Any, Any, None]):
        mailbox = MailboxLimit(2, 3, Overflow.END)

        def init(self) -> None: ...

    tree = SupervisorSpec("app", [ChildSpec("p", Plain, restart="temporary")])
    async with otpy.start(tree, hooks=[reports]) as root:
        process = root.child("p")
        server: Any = live_of(process).behaviour
        ref = Plain.at(process)
        for number in range(100):
            ref.send(number)
        assert len(server.mailbox.queue) == 3
        reason = await process.wait()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, MailboxFull)


async def test_a_server_that_is_stopping_is_not_ended_by_its_limit(
    clock: MockClock, reports: Recording
) -> None:
    """It gets the time that its shutdown limit allows."""
    async with desk(Mortal, reports, shutdown=30) as (root, ref):
        process = root.child("desk")
        await send(ref, 1, 2, 3)
        ending = asyncio.create_task(root.terminate_child("desk"))
        await clock.advance(0)
        await send(ref, 4, 5, 6, 7)
        await clock.advance(20)
        await ending
        assert process.exit_reason == Shutdown()
        assert HEARD == ["first", 1, 2, 3, "terminated"]


# --- what is declared -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "warn is 0, wanted a whole number of at least 1, or INFINITY"),
        ((True,), "warn is True"),
        ((1.5,), "warn is 1.5"),
        ((1, "2"), "most is '2'"),
        ((3, 2), "most is 2, wanted at least warn, which is 3"),
        ((1, 2, "end"), "then is 'end', wanted Overflow.REFUSE or Overflow.END"),
    ],
)
def test_a_limit_that_can_never_work_is_refused(arguments: Any, message: str) -> None:
    """The error comes from the line that declares the limit."""
    with pytest.raises(InvalidSpec, match=f"^MailboxLimit: {message}"):
        MailboxLimit(*arguments)


def test_a_class_with_another_mailbox_is_refused() -> None:
    """The definition of the class fails, so a method of that name is found at once."""
    with pytest.raises(InvalidSpec, match=r"Wrong: mailbox is 5, wanted MailboxLimit, or None"):

        class Wrong(GenServer[Any, Any, Any]):  # pyright: ignore[reportUnusedClass]
            mailbox: ClassVar[Any] = 5
