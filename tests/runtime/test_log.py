"""Where the log goes, what it contains, and that no error removes it from the tree."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

import pytest
import structlog

import otpy
from otpy import ChildSpec, Crashed, InvalidSpec, Restart, Shutdown, SupervisorSpec, log_reports
from otpy._core.reason import failed_to_start
from otpy._runtime.log_console import ENTRY_LIMIT
from otpy._runtime.log_program import ProgramLog
from otpy._runtime.shells import shell_of
from otpy.reports import (
    ChildAbandoned,
    ChildExited,
    ChildRestarting,
    ChildStarted,
    ErrorContext,
    MessageUnhandled,
    Report,
    SupervisorStopped,
)
from otpy.testing import MockClock
from tests.runtime.children import Boom, crash, forever

Logs = list[MutableMapping[str, Any]]

ROOT_STOPPED = SupervisorStopped(path="app", time=0.5, reason=Shutdown())


@contextmanager
def nothing_configured(*handlers: logging.Handler) -> Generator[None]:
    """Leave neither structlog nor `logging` configured, which pytest configures for each test."""
    structlog.reset_defaults()
    with patch.object(logging.root, "handlers", [*handlers]):
        yield


def exited(child: str = "c", time: float = 0.0, error: BaseException | None = None) -> ChildExited:
    return ChildExited(
        path=f"app/{child}",
        time=time,
        reason=Crashed(Boom("paper") if error is None else error),
        context=ErrorContext.CHILD_TERMINATED,
    )


class FailingLogger:
    """A logger whose disk may be full.

    Attributes:
        fault: What it raises; None while there is space.
    """

    def __init__(self, fault: BaseException) -> None:
        self.fault: BaseException | None = fault
        self.entries: list[tuple[str, dict[str, Any]]] = []

    def _write(self, event: str, **fields: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.entries.append((event, fields))

    debug = warning = error = _write

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.entries]


class TestTarget:
    def test_without_any_configuration_lines_go_to_stderr(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each event is one line, with Python's traceback; starts are logged only on request."""
        with nothing_configured():
            hook = log_reports()
            hook(ChildStarted(path="app/c", time=0))
            assert capsys.readouterr() == ("", "")
            hook(exited())
            out, err = capsys.readouterr()
            assert out == ""
            first, last = err.splitlines()
            assert "[error    ] child.exited" in first
            assert last == "tests.runtime.children.Boom: paper"
            log_reports(otpy.console_logger(verbose=True))(ChildStarted(path="app/c", time=0))
        assert "child.started" in capsys.readouterr().err

    def test_logging_gets_records(self, caplog: pytest.LogCaptureFixture) -> None:
        """A record has the traceback, and the fields of the report as attributes."""
        caplog.set_level("DEBUG")
        structlog.reset_defaults()
        hook = log_reports()
        report = exited()
        hook(ChildStarted(path="app/c", time=0, incarnation=2, restarts=1))
        hook(report)
        hook(MessageUnhandled(path="app/c", time=0, message="'what ever'"))
        started, crashed, unhandled = caplog.records
        assert (started.name, started.levelname) == ("otpy", "DEBUG")
        assert started.getMessage() == "child.started child='app/c' incarnation=2 restarts=1"
        assert isinstance(report.reason, Crashed)
        assert crashed.exc_info is not None
        assert crashed.exc_info[1] is report.reason.error
        assert (
            vars(crashed).items()
            >= {
                "levelname": "ERROR",
                "event": "child.exited",
                "child": "app/c",
                "reason": "crashed: Boom: paper",
                "context": "child_terminated",
            }.items()
        )
        assert crashed.msg == "child.exited %s"
        assert vars(unhandled)["unhandled"] == "'what ever'"

    def test_what_a_record_has_already_gets_another_name(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """This applies to names of `logging`, and to those that the program gives each record."""
        structlog.reset_defaults()

        def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = make(*args, **kwargs)
            vars(record)["child"] = "mine"
            return record

        make = logging.getLogRecordFactory()
        logging.setLogRecordFactory(factory)
        try:
            log_reports()(exited())
            ProgramLog().write("error", "other", message="text", args=1)
        finally:
            logging.setLogRecordFactory(make)
        crashed, other = caplog.records
        assert vars(crashed)["child"] == "mine"
        assert vars(crashed)["otpy_child"] == "app/c"
        assert (vars(other)["otpy_message"], vars(other)["otpy_args"]) == ("text", 1)

    def test_a_handler_of_our_own_logger_is_enough(
        self, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A program may want to handle only the log of otpy."""
        own = logging.getLogger("otpy")
        with nothing_configured(), patch.object(own, "handlers", [caplog.handler]):
            log_reports()(exited())
        assert [record.message for record in caplog.records] != []
        assert capsys.readouterr().err == ""

    def test_structlog_goes_before_logging(
        self, logs: Logs, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A program that has configured structlog wants it used."""
        log_reports()(exited())
        assert [entry["event"] for entry in logs] == ["child.exited"]
        assert caplog.records == []

    def test_it_is_decided_by_the_first_entry_that_is_written(
        self, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Neither the start of the tree nor a suppressed entry decides; the decision then stays."""
        with nothing_configured():
            hook, other = log_reports(), log_reports()
            for each in (hook, other):
                each(ChildStarted(path="app/c", time=0))
            with patch.object(logging.root, "handlers", [caplog.handler]):
                hook(ChildStarted(path="app/c", time=0))  # below the level of `logging`
                hook(exited())
            other(exited())
            with patch.object(logging.root, "handlers", [caplog.handler]):
                other(exited())
        assert len(caplog.records) == 1
        assert capsys.readouterr().err.count(".Boom: paper\n") == 2  # in its traceback


class TestLength:
    def huge(self) -> Report:
        return exited(error=ValueError("x" * 10_000_000))

    def test_on_stderr(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The line, and the message below it, say how long the text was."""
        with nothing_configured():
            log_reports()(self.huge())
        err = capsys.readouterr().err
        assert err.count("… (10,000,000 characters)") == 2
        assert len(err) < 12_000

    def test_of_a_whole_entry(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Of many long errors in a chain, the first and the last are shown."""
        error = ValueError("first")
        for number in range(15):
            outer = ValueError(f"{number} " + "x" * 9_000)
            outer.__cause__, error = error, outer
        with nothing_configured():
            log_reports()(exited(error=error))
        err = capsys.readouterr().err
        assert ENTRY_LIMIT < len(err) < ENTRY_LIMIT + 50
        assert "ValueError: first\n" in err
        assert "ValueError: 14 xxx" in err
        assert " characters …\n" in err

    def test_of_a_failure_deep_below(self, logs: Logs) -> None:
        """The text of a reason grows with the levels of a tree, but the logged one is short."""
        reason: otpy.ExitReason = otpy.Killed()
        for _ in range(1_000):
            reason = failed_to_start("s", reason)
        log_reports()(SupervisorStopped(path="app", time=0, reason=reason))
        assert len(str(reason)) > 20_000
        assert len(logs[0]["reason"]) < 2_050

    def test_in_other_logs(self, caplog: pytest.LogCaptureFixture, logs: Logs) -> None:
        """A logger gets an exception with a short text."""
        log_reports()(self.huge())
        structlog.reset_defaults()
        log_reports()(self.huge())
        for error in (logs[0]["exc_info"], (caplog.records[0].exc_info or [None] * 2)[1]):
            assert type(error).__name__ == "ValueError"
            assert len(str(error)) < 10_050
        assert len(caplog.records[0].getMessage()) < 1_200


class TestLimit:
    async def test_of_a_burst_some_are_written_and_the_others_summed_up(
        self, clock: MockClock, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """By default hooks, the sum is logged after a second, even if nothing more happens."""
        go = asyncio.Event()

        async def worker() -> None:
            if otpy.current().incarnation > 1:
                await forever()
            await go.wait()
            raise Boom

        children = [ChildSpec(f"w{number}", worker) for number in range(1_000)]
        with nothing_configured():
            async with otpy.start(SupervisorSpec("app", children, intensity=1_000)) as app:
                go.set()
                await app.wait_for_restart("w999", after=1)
                lines = capsys.readouterr().err.splitlines()
                assert sum("] child.exited " in line for line in lines) == 10
                assert sum("] child.restarting " in line for line in lines) == 10
                assert not any("more" in line for line in lines)
                await clock.advance(1)
                exits, restarts = capsys.readouterr().err.splitlines()
                assert "[error    ] child.exited: +990 more in 1 s more=990 paths=990" in exits
                assert "[warning  ] child.restarting: +990 more in 1 s" in restarts
        assert capsys.readouterr().err == ""

    async def test_the_end_of_the_tree_does_not_wait_for_the_sum(
        self, clock: MockClock, logs: Logs
    ) -> None:
        """The sum comes last, with the elapsed time."""
        spec = SupervisorSpec("app", [ChildSpec("c", crash)], intensity=8)
        with pytest.raises(otpy.SupervisorFailed):
            async with otpy.start(spec) as app:
                await app.wait()
        exits = [entry for entry in logs if entry["event"].startswith("child.exited")]
        assert len(exits) == 4
        assert exits[-1]["event"] == "child.exited: +6 more in 0 s"
        assert (exits[-1]["child"], exits[-1]["more"]) == ("app/c", 6)
        await clock.advance(5)
        assert sum("more" in entry for entry in logs) == 3

    def test_a_child_that_crashes_often_hides_no_other(self, logs: Logs) -> None:
        """One child gets at most a fourth of the limit."""
        hook = log_reports(limit=8)
        for _ in range(100):
            hook(exited("often"))
        for number in range(7):
            hook(exited(f"other{number}"))
        hook(ROOT_STOPPED)
        told = [entry.get("child") for entry in logs if entry["event"] == "child.exited"]
        assert told == ["app/often"] * 2 + [f"app/other{number}" for number in range(6)]
        (rest,) = (entry for entry in logs if "more" in entry)
        assert (rest["event"], rest["paths"]) == ("child.exited: +99 more in 0.5 s", 2)

    def test_each_second_counts_for_itself(self, logs: Logs) -> None:
        """This holds even without a running loop that could tell the time."""
        hook = log_reports(limit=1)
        for time in (0.0, 0.9, 1.0, 2.5, 3.4, 3.5):
            hook(exited(time=time))
        assert [entry["event"].removeprefix("child.exited") for entry in logs] == [
            "",
            ": +1 more in 1 s",
            "",
            "",
            ": +1 more in 1 s",
            "",
        ]

    def test_every_kind_of_entry_counts_for_itself(self, logs: Logs) -> None:
        """Entries are counted by name and level, so harmless ends do not hide the others."""
        hook = log_reports(limit=1)
        for _ in range(3):
            hook(ChildExited(path="app/c", time=0, reason=otpy.Normal()))
            hook(exited())
            hook(ChildRestarting(path="app/c", time=0, reason=otpy.Normal()))
        hook(ROOT_STOPPED)
        assert [(entry["log_level"], entry["event"]) for entry in logs] == [
            ("debug", "child.exited"),
            ("error", "child.exited"),
            ("warning", "child.restarting"),
            ("debug", "supervisor.stopped"),
            ("debug", "child.exited: +2 more in 0.5 s"),
            ("error", "child.exited: +2 more in 0.5 s"),
            ("warning", "child.restarting: +2 more in 0.5 s"),
        ]

    def test_it_can_be_switched_off(self, logs: Logs) -> None:
        """Without a limit, every entry is written."""
        hook = log_reports(limit=None)
        for _ in range(100):
            hook(exited())
        hook(ROOT_STOPPED)
        assert len(logs) == 101

    @pytest.mark.parametrize("limit", [0, -1, 1.5, True, "10"])
    def test_a_limit_that_is_none_is_refused(self, limit: Any) -> None:
        """The error comes where the limit is given."""
        with pytest.raises(InvalidSpec, match=r"limit is .*, wanted a whole number of at least 1"):
            log_reports(limit=limit)


class TestFailure:
    @pytest.mark.parametrize("error", [OSError(28, "full"), asyncio.CancelledError("x")])
    async def test_a_log_that_fails_stays_and_says_how_much_it_lost(
        self, clock: MockClock, capsys: pytest.CaptureFixture[str], error: BaseException
    ) -> None:
        """The first lost entry goes to stderr, their number to the log when it works again."""
        logger = FailingLogger(error)
        spec = SupervisorSpec("app", [ChildSpec("c", forever)])
        async with otpy.start(spec, hooks=[log_reports(logger)]) as app:
            (hook,) = shell_of(app).tree.hooks
            hook(exited("x"))
            hook(exited("y"))
            assert shell_of(app).tree.hooks == [hook]
            assert logger.entries == []
            name = type(error).__name__
            err = capsys.readouterr().err
            assert err.startswith(f"otpy: the log failed: {name}: {error}; lost: child.started ")
            await clock.advance(10)
            logger.fault = None
            await clock.advance(10)
            (lost,) = logger.entries
            assert lost == ("log.lost", {"entries": 3, "reason": f"{name}: {error}"})
            hook(exited("z"))
            assert logger.events == ["log.lost", "child.exited"]
        assert capsys.readouterr().err == ""

    def test_the_next_entry_tells_what_was_lost(self) -> None:
        """The notice comes just before that entry."""
        logger = FailingLogger(OSError())
        hook = log_reports(logger)
        hook(exited())
        logger.fault = None
        hook(exited())
        assert logger.events == ["log.lost", "child.exited"]

    async def test_a_log_that_fails_for_ever_disturbs_nobody(
        self, clock: MockClock, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Even the end of its tree is not affected."""
        spec = ChildSpec("c", crash, restart=Restart.TEMPORARY)
        logger = FailingLogger(RuntimeError("never"))
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=[log_reports(logger)]):
            await clock.advance(300)
        assert logger.entries == []
        assert capsys.readouterr().err.count("the log failed") == 1

    async def test_a_log_that_ends_the_program_ends_the_tree(self, clock: MockClock) -> None:
        """`SystemExit` does not count as a failure to write."""
        logger = FailingLogger(SystemExit(3))
        with pytest.raises(SystemExit):
            async with otpy.start(SupervisorSpec("app"), hooks=[log_reports(logger)]) as app:
                shell_of(app).tree.hooks[0](exited())
        hook = log_reports(logger)
        with pytest.raises(SystemExit):
            hook(exited())

    def test_what_cannot_even_be_looked_at_is_lost_and_counted(self, logs: Logs) -> None:
        """An example is a report whose fields cannot be formatted."""
        hook = log_reports()
        hook(ChildAbandoned(path="app/c", time=0, what="task", stack=cast("tuple[str]", [1])))
        hook(exited())
        assert [entry["event"] for entry in logs] == ["log.lost", "child.exited"]
        assert logs[0]["reason"].startswith("TypeError: sequence item 0")
