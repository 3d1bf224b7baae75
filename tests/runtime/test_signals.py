"""Monitors, links and exit signals between processes."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    ExitReason,
    GenServer,
    Killed,
    Normal,
    Process,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import Demonitored, NotSupervised
from otpy.reports import ChildStopped
from otpy.server import Init
from otpy.signals import Down, ExitSignal, ExitSignals, Monitor
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, Journal, forever, own_exit, stubborn, turns

CRASH = Crashed(Boom("linked"))
REASONS = [Normal(), Shutdown(), Shutdown("why"), Killed(), CRASH]


def tree(*ids: str) -> SupervisorSpec:
    """Return a tree of children that run for ever and are not restarted."""
    return SupervisorSpec("app", [mortal(name) for name in ids])


def mortal(id: str) -> ChildSpec:
    return ChildSpec(id, forever, restart=Restart.TEMPORARY)


class Server(GenServer[None, None, None]):
    """A server that does nothing."""

    def init(self) -> Init[None]:
        return Init(None)


class Trapper:
    """A child that traps exits and keeps the signals."""

    def __init__(self) -> None:
        self.got: list[ExitSignal] = []
        self.signals: ExitSignals | None = None

    async def run(self) -> None:
        self.signals = otpy.signals.trap_exit()
        assert otpy.signals.trap_exit() is self.signals
        async for signal in self.signals:
            self.got.append(signal)

    def spec(self, id: str = "trapper") -> ChildSpec:
        return ChildSpec(id, self.run, restart=Restart.TEMPORARY)


class TestMonitors:
    @pytest.mark.parametrize("reason", REASONS, ids=str)
    async def test_the_end_is_told_once_with_its_reason(
        self, clock: MockClock, reason: ExitReason
    ) -> None:
        """SIG-04: every monitor gets one `Down`, always the same, whatever the reason."""
        async with otpy.start(tree("a"), hooks=()) as app:
            process = app.child("a")
            first, second = process.monitor(), process.monitor()
            waiting = asyncio.ensure_future(_value(first))
            await clock.advance(0)
            assert not waiting.done()
            own_exit(process, reason)
            assert await waiting == Down(process, reason)
            assert await second is await second
            assert "down" in repr(second)

    async def test_what_is_dead_already_is_told_at_once(self) -> None:
        """SIG-04: a late monitor delivers at once, with the real reason instead of `noproc`."""
        async with otpy.start(tree("a"), hooks=()) as app:
            process = app.child("a")
            process.exit(CRASH)
            await process.wait()
            assert process.exit_reason == CRASH
            assert await process.monitor() == Down(process, CRASH)
            assert live_of(process).watchers is None

    async def test_a_monitor_taken_back_delivers_nothing(self, clock: MockClock) -> None:
        """SIG-07: nothing comes later, a delivered notice is dropped, a waiter gets an error."""
        async with otpy.start(tree("a"), hooks=()) as app:
            process = app.child("a")
            monitor, kept = process.monitor(), process.monitor()
            waiting = asyncio.ensure_future(_value(monitor))
            await clock.advance(0)
            monitor.demonitor()
            monitor.demonitor()
            with pytest.raises(Demonitored, match="app/a"):
                await waiting
            process.kill()
            assert (await kept).reason == Killed()
            kept.demonitor()
            for gone in (monitor, kept):
                assert "removed" in repr(gone)
                with pytest.raises(Demonitored):
                    await gone

    async def test_a_cancelled_wait_leaves_the_monitor_as_it_is(self, clock: MockClock) -> None:
        """The monitor can be awaited again."""
        async with otpy.start(tree("a"), hooks=()) as app:
            monitor = app.child("a").monitor()
            assert "waiting" in repr(monitor)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await monitor
            app.child("a").exit(Shutdown("x"))
            assert (await monitor).reason == Shutdown("x")

    async def test_a_monitor_that_is_dropped_leaves_nothing(self) -> None:
        """It leaves nothing with its process or its maker, even without `demonitor`."""
        made: list[Process] = []

        async def curious() -> None:
            me = otpy.current()
            assert isinstance(me.parent, Supervisor)
            await look(me.parent.child("a"))
            made.append(me)
            await forever()

        async def look(process: Process) -> None:
            monitors = [process.monitor() for _ in range(10)]
            await asyncio.sleep(0)
            watchers = live_of(process).watchers
            assert watchers is not None
            assert len(watchers.monitors) >= len(monitors)

        async with otpy.start(SupervisorSpec("app", [mortal("a"), ChildSpec("c", curious)])) as app:
            process = app.child("a")
            await look(process)
            await turns(2)
            for one in (process, *made):
                watchers = live_of(one).watchers
                assert watchers is not None
                assert not watchers.monitors
                assert not watchers.watching

    async def test_a_monitor_that_is_only_awaited_is_kept(self) -> None:
        """The task that awaits it may have no other reference."""
        told: list[Down] = []

        async def tell(process: Process) -> None:
            told.append(await process.monitor())

        async with otpy.start(tree("a")) as app:
            process = app.child("a")
            asyncio.get_running_loop().call_soon(asyncio.ensure_future, tell(process))
            await turns(2)
            gc.collect()
            process.kill()
            await process.wait()
            await asyncio.sleep(0)
            assert told == [Down(process, Killed())]

    @pytest.mark.usefixtures("clock")
    async def test_a_monitor_whose_wait_was_cancelled_may_be_dropped(self) -> None:
        """It is kept only while a task awaits it."""
        async with otpy.start(tree("a")) as app:
            process = app.child("a")
            for _ in range(3):
                with suppress(TimeoutError):
                    await asyncio.wait_for(_value(process.monitor()), 1)
            await asyncio.sleep(1)  # asyncio itself keeps the last cancellation for a turn
            gc.collect()
            watchers = live_of(process).watchers
            assert watchers is not None
            assert not watchers.monitors

    async def test_a_supervisor_can_be_monitored(self) -> None:
        """A supervisor is a process too."""
        inner = SupervisorSpec("in", [mortal("a")], restart=Restart.TEMPORARY)
        async with otpy.start(SupervisorSpec("app", [inner]), hooks=()) as app:
            monitor = app.child("in").monitor()
            app.child("in").exit(Shutdown("enough"))
            assert (await monitor).reason == Shutdown("enough")

    async def test_an_abandoned_process_is_told_of_once(
        self, clock: MockClock, release: asyncio.Event
    ) -> None:
        """It counts as down when it is abandoned; its real end later sends nothing."""
        spec = ChildSpec("s", stubborn, (release,), restart=Restart.TEMPORARY, shutdown=1)
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
            monitor = app.child("s").monitor()
            await clock.advance(0)
            app.child("s").exit()
            down = await monitor
            assert isinstance(down.reason, otpy.Abandoned)
            release.set()
            await clock.advance(0)
            assert await monitor is down

    async def test_notices_come_in_the_order_of_the_ends(self, clock: MockClock) -> None:
        """SIG-05, AIO-14: first in the order of the ends, then in that of monitoring."""
        order: list[str] = []

        async def note(monitor: Monitor, name: str) -> None:
            await monitor
            order.append(name)

        async with otpy.start(tree("a", "b", "c"), hooks=()) as app:
            tasks = [
                asyncio.ensure_future(note(app.child(name).monitor(), f"{name}{n}"))
                for name in "abc"
                for n in (1, 2)
            ]
            await clock.advance(0)
            for name in "cab":
                app.child(name).exit()
            await asyncio.gather(*tasks)
        assert order == ["c1", "c2", "a1", "a2", "b1", "b2"]

    async def test_the_end_is_told_before_the_next_life_begins(self, reports: Recording) -> None:
        """A watcher never sees the next life of a child before the end of this one."""
        async with otpy.start(SupervisorSpec("app", [ChildSpec("a", forever)]), hooks=()) as app:
            process = app.child("a")
            monitor = process.monitor()
            seen: list[object] = []
            app.subscribe(lambda report: seen.append((report.event, repr(monitor))))
            process.kill()
            await app.wait_for_restart("a", after=1)
            assert seen[0] == ("child.exited", "<Monitor 'app/a' down>")


class TestLinks:
    @pytest.mark.parametrize("reason", REASONS, ids=str)
    @pytest.mark.parametrize("who", ["a", "b"])
    async def test_an_end_takes_the_partner_with_it_unless_it_is_normal(
        self, clock: MockClock, reason: ExitReason, who: str
    ) -> None:
        """SIG-01: it works both ways and with the same reason; only `Normal` is ignored."""
        async with otpy.start(tree("a", "b"), hooks=()) as app:
            partner = app.child("b" if who == "a" else "a")
            app.child("a").link(app.child("b"))
            await clock.advance(0)
            own_exit(app.child(who), reason)
            await clock.advance(0)
            assert partner.exit_reason == (None if reason == Normal() else reason)

    async def test_the_other_side_is_the_running_child(self, clock: MockClock) -> None:
        """`process.link()` links the caller, and `process.unlink()` unlinks it."""

        async def child() -> None:
            parent = otpy.current().parent
            assert isinstance(parent, Supervisor)
            parent.child("a").link()
            parent.child("b").link()
            parent.child("b").unlink()
            await forever()

        spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
        async with otpy.start(SupervisorSpec("app", [mortal("a"), mortal("b"), spec])) as app:
            process = app.child("c")
            await clock.advance(0)
            app.child("b").kill()
            await clock.advance(0)
            assert process.alive
            app.child("a").kill()
            assert await process.wait() == Killed()
            with pytest.raises(NotSupervised):
                process.link()
            with pytest.raises(NotSupervised):
                process.unlink()

    @pytest.mark.parametrize("dead_first", [True, False])
    async def test_linking_to_the_dead_delivers_at_once(
        self, clock: MockClock, dead_first: bool
    ) -> None:
        """SIG-04: the real reason is delivered, whichever side is dead."""
        async with otpy.start(tree("a", "b"), hooks=()) as app:
            dead, alive = app.child("a"), app.child("b")
            await clock.advance(0)
            dead.exit(CRASH)
            await dead.wait()
            if dead_first:
                dead.link(alive)
            else:
                alive.link(dead)
            assert await alive.wait() == CRASH
            alive.link(dead)  # both dead: nothing to deliver

    async def test_a_process_is_never_linked_to_itself(self) -> None:
        """A process is not a partner of its own."""
        async with otpy.start(tree("a"), hooks=()) as app:
            app.child("a").link(app.child("a"))
            assert live_of(app.child("a")).watchers is None

    async def test_links_form_chains_and_cycles(self, clock: MockClock) -> None:
        """One crash ends every linked process, over any number of steps, once."""
        names = [f"p{n}" for n in range(50)]
        async with otpy.start(tree(*names), hooks=()) as app:
            processes = [app.child(name) for name in names]
            for one, other in zip(processes, processes[1:] + processes[:1], strict=True):
                one.link(other)
            await clock.advance(0)
            processes[7].exit(CRASH)
            assert {await process.wait() for process in processes} == {CRASH}
            assert all(
                not watchers.links
                for process in processes
                if (watchers := live_of(process).watchers)
            )

    async def test_a_link_taken_back_delivers_nothing(self, clock: MockClock) -> None:
        """SIG-07: unlinking a stranger does no harm either."""
        async with otpy.start(tree("a", "b"), hooks=()) as app:
            a, b = app.child("a"), app.child("b")
            b.unlink(a)
            a.link(b)
            b.unlink(a)
            a.kill()
            await clock.advance(0)
            assert b.alive

    async def test_a_partner_gets_its_time_to_clean_up(self, clock: MockClock) -> None:
        """SIG-06, AIO-05: the signal asks, and the shutdown limit bounds the clean-up."""

        async def slow() -> None:
            try:
                await forever()
            finally:
                await asyncio.sleep(3)

        spec = ChildSpec("slow", slow, restart=Restart.TEMPORARY)
        async with otpy.start(SupervisorSpec("app", [mortal("a"), spec]), hooks=()) as app:
            process = app.child("slow")
            process.link(app.child("a"))
            await clock.advance(0)
            app.child("a").exit(CRASH)
            assert await process.wait() == CRASH
            assert clock.now == 3

    async def test_supervisors_ignore_the_end_of_what_they_are_linked_to(
        self, clock: MockClock
    ) -> None:
        """SUP-406: their own end, however, takes the partner with it."""
        inner = SupervisorSpec("in", [mortal("x")], restart=Restart.TEMPORARY)
        spec = SupervisorSpec("app", [mortal("a"), mortal("b"), inner])
        async with otpy.start(spec, hooks=()) as app:
            sup, a, b = app.child("in"), app.child("a"), app.child("b")
            sup.link(a)
            sup.link(b)
            a.exit(CRASH)
            await clock.advance(0)
            assert sup.alive
            sup.exit(Shutdown("over"))
            assert await b.wait() == Shutdown("over")

    async def test_a_supervisor_ignores_it_from_its_first_moment(self, clock: MockClock) -> None:
        """SUP-121: this holds even while it starts its children."""

        async def slow(*, task_status: TaskStatus[None]) -> None:
            app.child("a").link(app.child("in"))
            app.child("a").exit(CRASH)
            await app.child("a").wait()
            await turns(5)
            task_status.started()
            await forever()

        inner = SupervisorSpec("in", [ChildSpec("x", slow)])
        async with otpy.start(tree("a"), hooks=()) as app:
            await clock.advance(0)
            process = await app.start_child(inner)
            assert process is not None
            assert process.alive

    async def test_the_partner_of_the_abandoned_is_killed(
        self, clock: MockClock, release: asyncio.Event
    ) -> None:
        """The partner did not refuse to end, so its reason is `Killed`."""
        spec = ChildSpec("s", stubborn, (release,), restart=Restart.TEMPORARY, shutdown=1)
        async with otpy.start(SupervisorSpec("app", [spec, mortal("a")]), hooks=()) as app:
            partner = app.child("a")
            app.child("s").link(partner)
            await clock.advance(0)
            app.child("s").exit()
            assert await partner.wait() == Killed()

    async def test_a_linked_sibling_is_restarted_by_its_type(self) -> None:
        """The supervisor sees two separate ends, and restarts both."""
        spec = SupervisorSpec("app", [ChildSpec("a", forever), ChildSpec("b", forever)])
        async with otpy.start(spec, hooks=()) as app:
            app.child("a").link(app.child("b"))
            app.child("a").exit(CRASH)
            b = await app.wait_for_restart("b", after=1)
            assert b.last_exit == CRASH
            assert live_of(b).watchers is None

    async def test_a_stop_by_the_supervisor_ends_linked_children_in_order(
        self, clock: MockClock, journal: Journal, reports: Recording
    ) -> None:
        """A link changes the order of the ends, but every end is in good order."""
        async with otpy.start(journal.tree("a", "b", "c"), hooks=[reports]) as app:
            app.child("a").link(app.child("c"))
            await clock.advance(0)
        assert journal.lines[:3] == ["+a", "+b", "+c"]
        assert sorted(journal.lines[3:]) == ["-a", "-b", "-c"]
        assert {r.context for r in reports.of(ChildStopped)} == {None}


class TestTrapping:
    @pytest.mark.parametrize("reason", REASONS, ids=str)
    async def test_the_end_of_a_partner_is_a_value(
        self, clock: MockClock, reason: ExitReason
    ) -> None:
        """SIG-01, SIG-03: for every reason, even `Normal` and `Killed`; the child lives on."""
        trapper = Trapper()
        async with otpy.start(SupervisorSpec("app", [mortal("a"), trapper.spec()])) as app:
            await clock.advance(0)
            partner = app.child("a")
            partner.link(app.child("trapper"))
            own_exit(partner, reason)
            await partner.wait()
            await clock.advance(0)
            assert trapper.got == [ExitSignal(partner, reason)]
            assert app.child("trapper").alive

    async def test_linking_to_the_dead_is_a_value_at_once(self, clock: MockClock) -> None:
        """SIG-04: the signal has the real reason."""
        trapper = Trapper()
        async with otpy.start(SupervisorSpec("app", [mortal("a"), trapper.spec()])) as app:
            dead = app.child("a")
            dead.kill()
            await dead.wait()
            app.child("trapper").link(dead)
            await clock.advance(0)
            assert trapper.got == [ExitSignal(dead, Killed())]

    async def test_an_exit_request_is_a_value_with_its_sender(self, clock: MockClock) -> None:
        """SIG-02: the request comes from another child, or from outside of the tree."""
        trapper = Trapper()

        async def sender() -> None:
            app = otpy.current().parent
            assert isinstance(app, Supervisor)
            app.child("trapper").exit(Shutdown("please"))
            await forever()

        spec = SupervisorSpec("app", [trapper.spec(), ChildSpec("s", sender)])
        async with otpy.start(spec, hooks=()) as app:
            await clock.advance(0)
            app.child("trapper").exit()
            await clock.advance(0)
            assert trapper.got == [
                ExitSignal(app.child("s"), Shutdown("please")),
                ExitSignal(None, Shutdown()),
            ]

    @pytest.mark.parametrize("thread", [False, True], ids=["loop", "thread"])
    async def test_others_cannot_make_a_process_end_normally(
        self, clock: MockClock, *, thread: bool
    ) -> None:
        """SIG-02: without a trap `Normal` is ignored, with one it is a value."""
        trapper = Trapper()
        server = ChildSpec("s", Server)
        supervisor = SupervisorSpec("n", [mortal("c")])
        spec = SupervisorSpec("app", [mortal("a"), server, supervisor, trapper.spec()])
        async with otpy.start(spec, hooks=()) as app:
            await clock.advance(0)
            processes = [app.child(name) for name in ("a", "s", "n", "trapper")]
            for process in processes:
                if thread:
                    await asyncio.to_thread(process.exit, Normal())
                else:
                    process.exit(Normal())
            await clock.advance(60)
            assert [process.alive for process in processes] == [True] * 4
            assert trapper.got == [ExitSignal(None, Normal())]

    @pytest.mark.parametrize("traps", [False, True])
    async def test_a_process_can_ask_itself_to_end_normally(
        self, clock: MockClock, *, traps: bool
    ) -> None:
        """SIG-02: the process ends, unless it traps exits."""
        trapper = Trapper()
        spec = trapper.spec() if traps else mortal("trapper")
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
            await clock.advance(0)
            process = app.child("trapper")
            own_exit(process, Normal())
            await clock.advance(0)
            assert process.exit_reason == (None if traps else Normal())
            assert trapper.got == ([ExitSignal(process, Normal())] if traps else [])

    async def test_requests_of_one_sender_keep_their_order(self, clock: MockClock) -> None:
        """SIG-05: none is lost."""
        trapper = Trapper()
        reasons = [Shutdown(n) for n in range(20)]
        async with otpy.start(SupervisorSpec("app", [trapper.spec()]), hooks=()) as app:
            await clock.advance(0)
            for reason in reasons:
                app.child("trapper").exit(reason)
            await clock.advance(0)
            assert [signal.reason for signal in trapper.got] == reasons

    async def test_kill_cannot_be_trapped(self, clock: MockClock) -> None:
        """SIG-02: it ends the process."""
        trapper = Trapper()
        async with otpy.start(SupervisorSpec("app", [trapper.spec()]), hooks=()) as app:
            await clock.advance(0)
            process = app.child("trapper")
            process.kill()
            assert await process.wait() == Killed()
            process.exit()
            assert trapper.got == []

    async def test_the_supervisor_stops_a_trapping_child_all_the_same(
        self, clock: MockClock, reports: Recording
    ) -> None:
        """GEN-20: the supervisor's own stop is not a signal."""
        trapper = Trapper()
        async with otpy.start(SupervisorSpec("app", [trapper.spec()]), hooks=[reports]) as app:
            await clock.advance(0)
            await app.terminate_child("trapper")
            assert reports.one(ChildStopped).reason == Shutdown()
        assert trapper.got == []

    async def test_unlinking_takes_back_what_lies_unread(self, clock: MockClock) -> None:
        """SIG-07: it drops only signals of that partner and of that link."""
        ready: list[ExitSignals] = []

        async def child() -> None:
            ready.append(otpy.signals.trap_exit())
            await forever()

        specs = [mortal("a"), mortal("b"), ChildSpec("c", child)]
        async with otpy.start(SupervisorSpec("app", specs), hooks=()) as app:
            await clock.advance(0)
            a, b, c = (app.child(name) for name in "abc")
            c.link(a)
            c.link(b)
            for process in (a, b):
                process.exit(Shutdown("same"))
                await process.wait()
            c.exit(Shutdown("same"))
            c.unlink(a)
            got = [await ready[0].get(), await ready[0].get()]
            assert got == [ExitSignal(b, Shutdown("same")), ExitSignal(None, Shutdown("same"))]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await ready[0].get()

    async def test_only_children_trap(self) -> None:
        """Code outside of a tree has no process."""
        with pytest.raises(NotSupervised):
            otpy.signals.trap_exit()

    async def test_each_life_begins_without(self, clock: MockClock) -> None:
        """A restarted child traps only if it asks for it again."""
        lives: list[Process] = []

        async def child() -> None:
            lives.append(otpy.current())
            if len(lives) == 1:
                otpy.signals.trap_exit()
                raise Boom
            await forever()

        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=()) as app:
            second = await app.wait_for_restart("c", after=1)
            await clock.advance(0)
            second.exit(Shutdown("x"))
            assert await second.wait() == Shutdown("x")


async def test_nothing_is_made_until_it_is_used() -> None:
    """A process without watchers carries no signals."""
    async with otpy.start(tree("a"), hooks=()) as app:
        process = app.child("a")
        process.unlink(app.child("a"))
        process.exit()
        with suppress(asyncio.CancelledError):
            await process.wait()
        assert live_of(process).watchers is None


async def _value(monitor: Monitor) -> Down:
    return await monitor
