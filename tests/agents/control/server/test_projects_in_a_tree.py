"""Projects as a branch of a caller's tree, beside a work list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

import otpy
from otpy_agents import open_app
from otpy_agents.control import orders
from otpy_agents.control.loop.protocol import (
    ControlEffect,
    DispatchTask,
    EndLoop,
    ProjectOutcome,
)
from otpy_agents.control.server import ControlSettings, open_projects
from otpy_agents.control.server.performer import Performer
from otpy_agents.control.state import ExecutionMode
from otpy_agents.control.stores import ControlStore, SqliteControl
from otpy_agents.control.task import ControlTask
from tests.agents.host import PATIENCE

pytestmark = pytest.mark.real_time

LIST = """
[[assignment]]
id = "a"
argv = ["sh", "-c", "until test -e FOLDER/done; do sleep 0.01; done"]
"""


def opens(folder: Path, name: str) -> Callable[[], AbstractAsyncContextManager[ControlStore]]:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[ControlStore]:
        log = folder / "events.sqlite3"
        async with SqliteControl(log, f"control/x/{name}", str(folder)) as store:
            yield store

    return opened


async def begin(folder: Path, name: str, command: str = "touch made.txt") -> None:
    task = ControlTask(
        task_id="t",
        intent="Make it",
        tool="command",
        command=("sh", "-c", f"{command}; echo Done."),
        instructions="Make it.",
        acceptance_criteria=("made.txt exists",),
    )
    async with opens(folder, name)() as store:
        await orders.init_state(store, ExecutionMode.AUTO, fresh=False, actor="ann")
        await orders.set_goal(store, orders.Goal("g", name, goal_completed=True), actor="ann")
        await orders.enqueue(store, [task], actor="ann")
        await orders.resume(store, actor="ann")


async def test_projects_are_worked_on_beside_a_list(tmp_path: Path) -> None:
    """C-20, C-29: one tree has both, and an ended project is released at once."""
    (tmp_path / "w.toml").write_text(LIST.replace("FOLDER", str(tmp_path)))
    settings = ControlSettings(root=tmp_path / "sandbox")
    for name in ("shop", "site"):
        await begin(tmp_path, name)
    async with (
        open_projects(tmp_path / "runs.sqlite3") as projects,
        open_app(tmp_path / "w.toml", branches=[projects.spec()]) as app,
    ):
        working = [projects.work_on(opens(tmp_path, name), settings) for name in ("shop", "site")]
        ends = [await projects.wait(one) for one in working]
        assert {end.outcome for end in ends} == {ProjectOutcome.COMPLETED}
        async with asyncio.timeout(PATIENCE), opens(tmp_path, "shop")() as store:
            while True:
                try:
                    async with store.lease():
                        break
                except otpy.OtpyError:
                    await asyncio.sleep(0.01)
        (tmp_path / "done").touch()
        await app.wait()
    assert [(one.id, one.ended) for one in app.conclusions] == [("a", "done")]
    assert (tmp_path / "sandbox/shop/made.txt").exists()


async def test_a_project_whose_tree_ends_is_not_waited_for(tmp_path: Path) -> None:
    """The caller gets an error instead of an endless wait."""
    await begin(tmp_path, "site", "sleep 60")
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()])):
            settings = ControlSettings(root=tmp_path / "sandbox")
            site = projects.work_on(opens(tmp_path, "site"), settings)
        with pytest.raises(otpy.errors.NotRunning, match="ControlPlane"):
            await projects.wait(site)


async def test_a_project_without_a_state_disturbs_no_other(tmp_path: Path) -> None:
    """Such a project ends with one line."""
    settings = ControlSettings(root=tmp_path / "sandbox")
    await begin(tmp_path, "site")
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        missing = projects.work_on(opens(tmp_path, "none"), settings)
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()])):
            site = projects.work_on(opens(tmp_path, "site"), settings)
            assert (await projects.wait(site)).outcome is ProjectOutcome.COMPLETED
            end = await projects.wait(missing)
            assert end.outcome is ProjectOutcome.BROKEN
            assert "control init-state" in end.line


@pytest.mark.parametrize(
    "words",
    [
        "429 Too Many Requests; retry after 600 seconds",
        "Error: connect ECONNREFUSED 127.0.0.1:443",
        "401 Unauthorized",
        "error: unknown option --foo",
    ],
)
async def test_what_a_program_writes_halts_no_project(tmp_path: Path, words: str) -> None:
    """CTL-35: it has no vendor, so rules alone judge its work, and no other project waits."""
    settings = ControlSettings(root=tmp_path / "sandbox")
    await begin(tmp_path, "shop", f"touch made.txt; echo '{words}' >&2; exit 1")
    await begin(tmp_path, "site")
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()])):
            for name in ("shop", "site"):
                end = await projects.wait(projects.work_on(opens(tmp_path, name), settings))
                assert end.outcome is ProjectOutcome.COMPLETED, end.line


async def test_a_program_that_is_killed_halts(tmp_path: Path) -> None:
    """CTL-33: it was not executed to its end."""
    settings = ControlSettings(root=tmp_path / "sandbox")
    await begin(tmp_path, "shop", "kill -9 $$")
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()])):
            end = await projects.wait(projects.work_on(opens(tmp_path, "shop"), settings))
    assert end.outcome is ProjectOutcome.HALTED
    assert end.line.startswith("CURSOR_EXEC_FAILURE")


async def test_a_loop_that_crashed_is_restarted_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-29, CTL-62: the child is transient, so a crash restarts it and a completion does not."""
    settings = ControlSettings(root=tmp_path / "sandbox")
    await begin(tmp_path, "site")
    whole, crashes = Performer.perform, 2

    async def crashing(self: Performer, effect: ControlEffect) -> object:
        nonlocal crashes
        event = await whole(self, effect)
        if isinstance(effect, DispatchTask) and crashes:
            crashes -= 1
            raise RuntimeError("struck")
        return event

    monkeypatch.setattr(Performer, "perform", crashing)
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()]), hooks=()):
            site = projects.work_on(opens(tmp_path, "site"), settings)
            assert (await projects.wait(site)).outcome is ProjectOutcome.COMPLETED
    assert crashes == 0


async def test_projects_go_on_when_the_host_of_runs_was_restarted(tmp_path: Path) -> None:
    """The run host's restart loses the attempt, which is taken up or repeated."""
    settings = ControlSettings(root=tmp_path / "sandbox")
    await begin(tmp_path, "site", "test -e begun || { touch begun; sleep 60; }; touch made.txt")
    async with open_projects(tmp_path / "runs.sqlite3") as projects:
        async with otpy.start(otpy.SupervisorSpec("App", [projects.spec()]), hooks=()) as root:
            site = projects.work_on(opens(tmp_path, "site"), settings)
            async with asyncio.timeout(PATIENCE):
                while not (tmp_path / "sandbox/site/begun").exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                plane = cast("otpy.Supervisor", root.child("ControlPlane").supervisor)
                plane.child("RunHost").exit(otpy.Crashed(RuntimeError("struck")))
                assert (await projects.wait(site)) == EndLoop(
                    ProjectOutcome.COMPLETED, "the goal is reached; 1 task completed, 0 blocked"
                )
