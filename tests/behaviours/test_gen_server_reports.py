"""Reports and logs of servers and tasks: each failure is logged once, a clean end is not."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    Exit,
    ExitReason,
    Ignore,
    Killed,
    Normal,
    Restart,
    Shutdown,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import AlreadyStarted, CallFailed, StartFailed, TreeStartFailed
from tests.behaviours.servers import Script, fail, running, stop
from tests.runtime.children import Boom

Logs = list[MutableMapping[str, Any]]


def errors(logs: Logs) -> list[tuple[str, str]]:
    """Return event and reason of each error in the log."""
    return [(log["event"], log["reason"]) for log in logs if log["log_level"] == "error"]


def failing(error: BaseException) -> ChildSpec:
    """Return a server whose `init` raises."""
    return ChildSpec("s", Script, ([], None, fail(error)), restart=Restart.TEMPORARY)


class TestFailedStarts:
    @pytest.mark.parametrize("error", [Boom("init"), Exit(Shutdown("no")), Exit(Killed())], ids=str)
    async def test_a_failed_init_is_logged_once_by_its_supervisor(
        self, error: Exception, logs: Logs
    ) -> None:
        """GEN-03: a start of a tree logs it with the traceback."""
        with pytest.raises(TreeStartFailed):
            async with otpy.start(SupervisorSpec("app", [failing(error)])):
                raise AssertionError
        (log,) = [log for log in logs if log["log_level"] == "error"]
        assert (log["event"], log["child"]) == ("child.start_failed", "app/s")
        assert log.get("exc_info") is (error if isinstance(error, Boom) else None)

    @pytest.mark.parametrize("error", [Boom("init"), Exit(Shutdown()), Ignore()], ids=repr)
    async def test_a_start_that_somebody_asked_for_is_told_to_them_alone(
        self, error: Exception, logs: Logs
    ) -> None:
        """GEN-03: it is not an error of the tree, and declining is no error at all."""
        async with otpy.start(SupervisorSpec("app")) as app:
            if isinstance(error, Ignore):
                assert await app.start_child(failing(error)) is None
            else:
                with pytest.raises(StartFailed) as caught:
                    await app.start_child(failing(error))
                assert caught.value.__cause__ is (error if isinstance(error, Boom) else None)
        assert errors(logs) == []

    async def test_a_name_that_is_taken_starts_nothing(self) -> None:
        """GEN-05: the error names the process that holds the name, and `init` does not run."""
        begun: list[str] = []

        def init(server: Script) -> str:
            begun.append("init")
            return "state"

        async with running(None, init) as (app, process, _ref, _log):
            again = ChildSpec("s", Script, ([], None, init))
            with pytest.raises(AlreadyStarted, match="app/s") as caught:
                await app.start_child(again)
            assert caught.value.process is process
        assert begun == ["init"]


class TestEnds:
    @pytest.mark.parametrize("reason", [Normal(), Shutdown(), Shutdown("x")], ids=str)
    async def test_clean_ends_are_not_logged(self, reason: ExitReason, logs: Logs) -> None:
        """GEN-22: this holds whatever the state was."""
        async with running(hooks=[otpy.log_reports()]) as (_, process, ref, _log):
            with pytest.raises(CallFailed):
                await ref.call(stop(reason))
            assert await process.wait() == reason
        assert errors(logs) == []

    @pytest.mark.parametrize("error", [Boom("bad"), Exit(Killed())], ids=repr)
    async def test_any_other_end_is_logged_once(self, error: Exception, logs: Logs) -> None:
        """GEN-22: its supervisor logs it, with the traceback."""
        async with running(hooks=[otpy.log_reports()]) as (_, process, ref, _log):
            ref.cast(fail(error))
            reason = await process.wait()
        assert errors(logs) == [("child.exited", str(reason))]
        assert isinstance(reason, Crashed if isinstance(error, Boom) else Killed)

    @pytest.mark.parametrize("error", [Boom("bad"), Exit(Killed()), Exit(Shutdown("x")), Exit()])
    async def test_a_task_is_logged_unless_it_ended_cleanly(
        self, error: Exception, logs: Logs
    ) -> None:
        """TSK-09: the function's error is the task's reason."""

        async def fails() -> None:
            raise error

        async with otpy.start(TaskSupervisor.spec("tasks")) as root:
            process = await TaskSupervisor(root).start_child(fails)
            reason = await process.wait()
        expected = Crashed(error) if isinstance(error, Boom) else getattr(error, "reason", None)
        assert reason == expected
        clean = isinstance(reason, Normal | Shutdown)
        assert errors(logs) == ([] if clean else [("child.exited", str(reason))])
