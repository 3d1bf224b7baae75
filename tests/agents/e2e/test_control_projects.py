"""A whole project of the control plane with each real CLI, against the fake vendor."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from otpy_agents.agent.runs import HostedRuns
from otpy_agents.control import orders
from otpy_agents.control.loop.protocol import ProjectOutcome
from otpy_agents.control.server import ControlProject, ControlSettings
from otpy_agents.control.state import ExecutionMode, InHand
from otpy_agents.control.stores import SqliteControl
from otpy_agents.control.task import ControlTask
from otpy_agents.run.host.host import run_host
from otpy_agents.store import RunStore
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import Answer, FakeApi

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]


def tasks(cli: str) -> tuple[ControlTask, ControlTask]:
    """Return a task that answers with JSON, and one that is in the folder already."""
    mode = "gemini-2.5-flash" if cli == "gemini" else "auto"
    survey = ControlTask(
        task_id="survey",
        intent="Say whether it works",
        tool=cli,
        instructions="Answer with JSON.",
        expected_json_schema={"ok": "boolean"},
        max_retries=1,
        agent_mode=mode,
    )
    greet = ControlTask(
        task_id="greet",
        intent="Add a greeting",
        tool=cli,
        instructions="Write hello.txt.",
        acceptance_criteria=("hello.txt contains 'hello'",),
        max_retries=1,
        agent_mode=mode,
    )
    return survey, greet


async def confirm(_: InHand) -> bool:
    """Fail the test: in the mode AUTO no confirmation is asked for."""
    raise AssertionError


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_a_project_is_worked_off(cli: str, home_of: MakeHome, tmp_path: Path) -> None:
    """CTL-34: JSON that does not fit is fixed, a question is clarified, both are completed."""
    said = ('{"ok": 3}', '{"ok": true}', "Should I use tabs or spaces?", "I took spaces.")
    async with FakeApi(*map(Answer, said)) as api:
        home = home_of(cli, api.url)
        if cli == "codex":
            home.log_codex_in()
        settings = ControlSettings(root=home.work)
        folder = settings.folder("demo")
        folder.mkdir()
        (folder / "hello.txt").write_text("hello\n")
        async with (
            SqliteControl(tmp_path / "events.sqlite3", "control/x/key", "here") as store,
            RunStore(home.work.parent / "state" / "runs.sqlite3") as runs,
            run_host(runs, environment=home.environment, hooks=()) as host,
        ):
            await orders.init_state(store, ExecutionMode.AUTO, fresh=False, actor="ann")
            goal = orders.Goal("Build it", "demo", goal_completed=True)
            await orders.set_goal(store, goal, actor="ann")
            await orders.enqueue(store, tasks(cli), actor="ann")
            await orders.resume(store, actor="ann")
            project = ControlProject(
                lambda: contextlib.nullcontext(store),
                HostedRuns(host, runs),
                settings,
                confirm,
                lambda tag, line: None,
            )
            async with project.opened():
                await project.work()
            state = await store.load()
            events = [event async for event in store.log.read(stream=store.stream)]
    assert project.ended is not None
    assert project.ended.outcome is ProjectOutcome.COMPLETED, project.ended
    assert [one.task_id for one in state.completed_tasks] == ["survey", "greet"]
    prompts = [event.fields for event in events if event.name == "prompt"]
    kinds = [one["type"] for one in prompts if one["type"] != "RESPONSE"]
    assert kinds == ["PROMPT", "FIX_PROMPT", "PROMPT", "CLARIFICATION_PROMPT"]
    heard = [one["content"].strip() for one in prompts if one["type"] == "RESPONSE"]
    assert heard == list(said)
    assert json.loads(heard[1]) == {"ok": True}
