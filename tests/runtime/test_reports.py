"""The stream of reports: hooks get everything that happens, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

import attrs
import pytest
import structlog
from anyio.abc import TaskStatus

import otpy
from otpy import (
    Abandoned,
    Backoff,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    GenServer,
    Intensity,
    Normal,
    Restart,
    Shutdown,
    SupervisorFailed,
    SupervisorSpec,
    log_reports,
)
from otpy._runtime.shells import shell_of
from otpy.errors import StartFailed
from otpy.reports import (
    ChildAbandoned,
    ChildExited,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    ErrorContext,
    HookFailed,
    MailboxGrown,
    MessageUnhandled,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)
from otpy.server import Result
from otpy.specs import GIVE_UP
from otpy.testing import MockClock, Recording, assert_reports, settled
from tests.runtime.children import Boom, crash, forever, stubborn

Logs = list[MutableMapping[str, Any]]


async def crash_once() -> None:
    if otpy.current().incarnation > 1:
        await forever()
    await asyncio.sleep(1)
    raise Boom


async def test_one_stream_in_the_order_of_events(clock: MockClock, reports: Recording) -> None:
    """Starts in order, a crash and its restart, stops in reverse, the root last."""
    inner = SupervisorSpec("in", [ChildSpec("x", crash_once)])
    tree = SupervisorSpec("app", [ChildSpec("a", forever), inner])
    async with otpy.start(tree, hooks=[reports]):
        await asyncio.sleep(2)
    assert_reports(
        reports,
        """
        0 s app/a #1 started
        0 s app/in/x #1 started
        0 s app/in #1 started
        1 s app/in/x #1 exited: crashed: Boom
        1 s app/in/x #1 restarting in 0 s: crashed: Boom
        1 s app/in/x #2 started
        2 s app/in/x #2 stopped: shutdown
        2 s app/in stopped: shutdown
        2 s app/in #1 stopped: shutdown
        2 s app/a #1 stopped: shutdown
        2 s app stopped: normal
        """,
    )
    exited = reports.one(ChildExited)
    assert (exited.id, exited.supervisor) == ("x", "app/in")
    assert exited.context is ErrorContext.CHILD_TERMINATED
    assert list(reports)[-1].supervisor == ""


async def test_reports_are_frozen_values(reports: Recording) -> None:
    """A hook cannot change the reports of other hooks."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("a", forever)]), hooks=[reports]):
        pass
    for report in reports:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(report, "path", "changed")  # noqa: B010 - a type checker would see it
        assert hash(report) == hash(attrs.evolve(report))


async def test_a_hook_that_raises_is_dropped_and_the_others_are_told(
    clock: MockClock,
) -> None:
    """Each remaining hook gets the same reports in the same order."""
    before, after = Recording(), Recording()
    error = Boom("hook")
    calls = 0

    def bad(report: Report) -> None:
        nonlocal calls
        calls += 1
        if isinstance(report, ChildExited):
            raise error

    tree = SupervisorSpec("app", [ChildSpec("c", crash_once)])
    async with otpy.start(tree, hooks=[before, bad, after]) as app:
        await asyncio.sleep(2)
        assert app.child("c").incarnation == 2
    assert calls == 2
    failed = after.one(HookFailed)
    assert failed.error is error
    assert "bad" in failed.hook
    assert failed.time == 1
    assert before.one(HookFailed).path == "app/c"
    assert list(before) == list(after)


async def test_when_every_hook_raises_the_loop_hears_of_it(clock: MockClock) -> None:
    """The tree runs on; the loop's exception handler names each removed hook."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def bad(report: Report) -> None:
        raise Boom

    def worse(report: Report) -> None:
        raise Boom

    spec = SupervisorSpec("app", [ChildSpec("c", crash_once)])
    async with otpy.start(spec, hooks=[bad, worse]) as app:
        await app.wait_for_restart("c", after=1)
    assert [type(context["exception"]) for context in told] == [Boom, Boom]
    assert ["bad" in told[0]["message"], "worse" in told[1]["message"]] == [True, True]


async def test_hooks_come_and_go(clock: MockClock, reports: Recording) -> None:
    """`subscribe` delivers later reports, and on any supervisor those of the whole tree."""
    inner = SupervisorSpec("in", [ChildSpec("x", forever)])
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=()) as app:
        below = app.child("in").supervisor
        assert below is not None
        unsubscribe = below.subscribe(reports)
        await app.start_child(ChildSpec("a", forever))
        assert_reports(reports, "app/a #1 started")
        unsubscribe()
        unsubscribe()
        await app.start_child(ChildSpec("b", forever))
    assert_reports(reports, "app/a #1 started")


async def test_a_hook_may_take_itself_off(reports: Recording) -> None:
    """A hook that unsubscribes while being called does not affect the other reports."""
    once = Recording()
    async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
        leave: list[Callable[[], None]] = []

        def hook(report: Report) -> None:
            once(report)
            leave.pop()()

        leave.append(app.subscribe(hook))
        app.subscribe(reports)
        await app.start_child(ChildSpec("a", forever))
        await app.start_child(ChildSpec("b", forever))
    assert_reports(once, "app/a #1 started")
    assert_reports(
        list(reports)[:2],
        """
        app/a #1 started
        app/b #1 started
    """,
    )


async def test_a_hook_may_leave_and_raise(reports: Recording) -> None:
    """The hook is removed once, and its error is still reported."""
    async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
        leave: list[Callable[[], None]] = []

        def hook(report: Report) -> None:
            leave[0]()
            raise Boom

        leave.append(app.subscribe(hook))
        app.subscribe(reports)
        await app.start_child(ChildSpec("a", forever))
        await app.start_child(ChildSpec("b", forever))
    assert {type(report) for report in reports.about("app/a")[:2]} == {ChildStarted, HookFailed}
    assert_reports(list(reports)[2:3], "app/b #1 started")


async def test_a_hook_may_act_on_the_tree(clock: MockClock) -> None:
    """Its request is served after the operation in progress."""
    reports = Recording()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", crash_once)])) as app:

        def stop(report: Report) -> None:
            if isinstance(report, ChildRestarting):
                assert app.snapshot().state == "running"
                shell_of(app).shut_down(Shutdown("seen enough"))

        app.subscribe(stop)
        app.subscribe(reports)
        assert await app.wait() == Shutdown("seen enough")
    assert_reports(
        reports,
        """
        app/c #1 exited: crashed: Boom
        app/c #1 restarting in 0 s
        app/c #2 started
        app/c #2 stopped: shutdown
        app stopped: shutdown: seen enough
        """,
    )


async def test_an_error_report_says_who_where_and_why(clock: MockClock, reports: Recording) -> None:
    """REP-01 to REP-05 in other words: supervisor, context, reason, and the child's path."""
    spec = ChildSpec("c", crash, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [SupervisorSpec("in", [spec])]), hooks=[reports]):
        await clock.advance(0)
    report = reports.one(ChildExited)
    assert (report.supervisor, report.path, report.id) == ("app/in", "app/in/c", "c")
    assert report.context is ErrorContext.CHILD_TERMINATED
    assert isinstance(report.reason, Crashed)
    assert (report.incarnation, report.restarts) == (1, 0)


async def test_children_of_a_pool_are_reported_as_started(reports: Recording) -> None:
    """REP-07, REP-08 differ: every start is reported, by the caller or by a restart."""
    spec = ChildSpec("c", crash_once)
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=[reports]) as pool:
        await pool.start_child(spec)
        await asyncio.sleep(2)
    assert [report.incarnation for report in reports.of(ChildStarted, "pool/c")] == [1, 2]


class Fragile(GenServer[str, None, int]):
    """A server that crashes with any cast."""

    def init(self) -> int:
        return 0

    def handle_cast(self, request: str, state: int) -> Result[int]:
        raise Boom


async def test_a_server_that_crashes_is_reported_once(reports: Recording) -> None:
    """REP-12 differs: in OTP the server and its process report it too, besides the supervisor."""
    spec = ChildSpec("s", Fragile, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        Fragile.at(app.child("s")).cast("x")
        reason = await app.child("s").wait()
        await settled(app)
        assert_reports(
            reports,
            """
            app/s #1 started
            app/s #1 exited: crashed: Boom
            """,
        )
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Boom)
    assert reason.error.__traceback__ is not None


async def test_contexts_are_those_of_otp(clock: MockClock, reports: Recording) -> None:
    """A report has a context exactly where OTP would write an error report."""

    async def broken(*, task_status: TaskStatus[None]) -> None:
        raise Boom

    async def returns() -> None:
        return

    children = [
        ChildSpec("permanent", forever),
        ChildSpec("transient", returns, restart=Restart.TRANSIENT),
        ChildSpec("temporary", crash, restart=Restart.TEMPORARY),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]) as app:
        with pytest.raises(StartFailed):
            await app.start_child(ChildSpec("asked", broken))
        await clock.advance(0)
    assert reports.one(ChildExited, "app/transient").context is None
    assert reports.one(ChildExited, "app/temporary").context is ErrorContext.CHILD_TERMINATED
    assert reports.one(ChildStartFailed).context is None
    assert reports.one(ChildStopped).context is None
    with pytest.raises(SupervisorFailed):
        async with otpy.start(SupervisorSpec("app", [ChildSpec("b", broken)]), hooks=[reports]):
            pass
    assert reports.of(ChildStartFailed)[-1].context is ErrorContext.START_ERROR


def fields(entry: MutableMapping[str, Any]) -> tuple[object, ...]:
    return entry["log_level"], entry["event"], entry.get("child", entry.get("supervisor"))


async def test_structlog_gets_each_report_as_one_event(clock: MockClock, logs: Logs) -> None:
    """REP-11 differs: its name is the label; errors have a traceback, restarts are warnings."""
    spec = ChildSpec("c", crash_once, backoff=Backoff.sequence(5))
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[log_reports()]):
        await asyncio.sleep(10)
    assert [fields(entry) for entry in logs] == [
        ("debug", "child.started", "app/c"),
        ("error", "child.exited", "app/c"),
        ("warning", "child.restarting", "app/c"),
        ("debug", "child.started", "app/c"),
        ("debug", "child.stopped", "app/c"),
        ("debug", "supervisor.stopped", "app"),
    ]
    assert isinstance(logs[1]["exc_info"], Boom)
    assert logs[1]["context"] == "child_terminated"
    assert logs[1]["reason"] == "crashed: Boom"
    assert logs[2]["delay"] == 5
    assert (logs[3]["incarnation"], logs[3]["restarts"]) == (2, 1)
    assert "context" not in logs[0]
    assert logs[-1]["reason"] == "normal"


async def test_structlog_gets_what_went_wrong(
    clock: MockClock, logs: Logs, release: asyncio.Event
) -> None:
    """Giving up, abandoning and failing hooks are errors, with all known details."""

    def bad(report: Report) -> None:
        raise Boom("hook")

    logger = structlog.get_logger("mine")
    children = [
        ChildSpec("stubborn", stubborn, (release,), shutdown=1),
        ChildSpec("own", crash, intensity=Intensity(0, 5, GIVE_UP)),
        ChildSpec("bad", crash),
    ]
    with pytest.raises(SupervisorFailed):
        async with otpy.start(
            SupervisorSpec("app", children, intensity=0), hooks=[log_reports(logger), bad]
        ):
            await forever()
    by_event = {entry["event"]: entry for entry in logs}
    gave_up = by_event["supervisor.gave_up"]
    assert (gave_up["log_level"], gave_up["child"]) == ("error", "app/bad")
    abandoned = by_event["child.abandoned"]
    assert (abandoned["log_level"], abandoned["what"]) == ("error", "task")
    assert "stubborn (" in abandoned["stack"]
    hook = by_event["hook.failed"]
    assert (hook["log_level"], str(hook["exc_info"])) == ("error", "hook")
    assert by_event["child.gave_up"]["child"] == "app/own"


def test_every_report_has_a_name_of_its_own() -> None:
    """Event names are stable and unique."""
    names: dict[type[Report], str] = {
        ChildStarted: "child.started",
        ChildStartFailed: "child.start_failed",
        ChildExited: "child.exited",
        ChildRestarting: "child.restarting",
        ChildStopped: "child.stopped",
        ChildAbandoned: "child.abandoned",
        ChildGaveUp: "child.gave_up",
        MailboxGrown: "child.mailbox_grown",
        MessageUnhandled: "child.message_unhandled",
        SupervisorGaveUp: "supervisor.gave_up",
        SupervisorStopped: "supervisor.stopped",
        HookFailed: "hook.failed",
    }
    assert {kind: kind.event for kind in names} == names
    assert set(Report.__subclasses__()) == set(names)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Normal(), "normal"),
        (Shutdown(), "shutdown"),
        (Shutdown("why"), "shutdown: why"),
        (otpy.Killed(), "killed"),
        (Crashed(Boom("two\nlines")), "crashed: Boom: two"),
        (Crashed(Boom()), "crashed: Boom"),
        (Abandoned(), "abandoned: refused to end"),
        (Abandoned(("outer", "inner (file:1)")), "abandoned: refused to end in inner (file:1)"),
    ],
)
def test_reasons_read_as_one_line(reason: otpy.ExitReason, text: str) -> None:
    """In logs and messages a reason is one line of text."""
    assert str(reason) == text
