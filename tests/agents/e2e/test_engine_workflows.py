"""A whole workflow of the engine with each real CLI, against the fake vendor."""

from __future__ import annotations

import itertools
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import otpy
from otpy_agents.engine.events import EngineEvent, StepCompleted, WorkerAnswered
from otpy_agents.engine.orders import Orders
from otpy_agents.engine.server import Engine, EngineSettings, open_engine
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.test_tools import shell
from tests.agents.fake_api import Answer, FakeApi, Reply, UseTool

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

COMPONENT: dict[str, Any] = {
    "id": "greet",
    "title": "Write hello.txt",
    "description": "It says hello.",
    "files": ["hello.txt"],
    "depends_on": [],
    "role": None,
}
PLAN: dict[str, Any] = {
    "features": [
        {"title": "A greeting", "phases": [{"title": "All", "components": [COMPONENT]}]},
    ]
}
DONE: dict[str, Any] = {
    "status": "completed",
    "files_modified": ["hello.txt"],
    "changes": ["it greets"],
    "next_steps": [],
}
REVIEW: dict[str, Any] = {"status": "approved", "issues": [], "summary": "fine"}
GATES = "gates:\n  greets: {{command: [{python}, -c, 'open(\"hello.txt\").close()']}}\n"
SHIPPED = "  {name}: {{command: [{python}, -c, pass]}}\n"


def answers(cli: str, output: dict[str, Any]) -> tuple[Reply, ...]:
    """Return the replies by which a model gives an output, in its CLI's way."""
    if cli == "claude":
        return (UseTool("StructuredOutput", output),)
    return (Answer(f"```json\n{json.dumps(output)}\n```"),)


def writes(cli: str, folder: Path) -> UseTool:
    """Return the call by which a model writes a file, with a tool allowed without walls."""
    place = folder / ".worktrees" / "wf-2-step-001" / "hello.txt"
    file = {"file_path": str(place), "content": "hello\n"}
    tools = {"claude": "Write", "gemini": "write_file"}
    return UseTool(tools[cli], file) if cli in tools else shell(cli, "echo hello > hello.txt")


def repository(folder: Path, cli: str) -> None:
    """Make the folder a repository whose roles use a CLI."""
    roles = folder / ".supervisor" / "roles"
    roles.mkdir(parents=True)
    model = ":gemini-2.5-flash" if cli == "gemini" else ""
    for role, gates in (("planner", "[]"), ("implementer", "[greets]"), ("reviewer", "[]")):
        text = f"extends: {role}\ncli: {cli}{model}\ngates: {gates}\n"
        (roles / f"{role}.yaml").write_text(text)
    text = GATES.format(python=sys.executable)
    text += "".join(SHIPPED.format(name=name, python=sys.executable) for name in ("test", "lint"))
    (folder / ".supervisor" / "gates.yaml").write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run([*git, *words], check=True)


def head(folder: Path) -> str:
    log = ["git", "-C", str(folder), "log", "--format=%H", "-1"]
    return subprocess.check_output(log, text=True).strip()


async def ended(engine: Engine, name: str) -> None:
    end = await engine.wait(name)
    assert end.cause is None, end


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_a_feature_is_planned_implemented_and_reviewed(
    cli: str, home_of: MakeHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step has a fresh agent; the change is judged by a gate, and applied."""
    told: list[EngineEvent] = []
    drawn, ids = secrets.token_hex, map(str, itertools.count(1))

    def token_hex(size: int) -> str:
        # Only for workflow ids: the model has to know its work tree.
        return next(ids) if size == 4 else drawn(size)

    monkeypatch.setattr(secrets, "token_hex", token_hex)
    work = tmp_path / "work"
    replies = (
        *answers(cli, PLAN),
        writes(cli, work),
        *answers(cli, DONE),
        *answers(cli, REVIEW),
    )
    async with FakeApi(*replies) as api:
        home = home_of(cli, api.url)
        if cli == "codex":
            home.log_codex_in()
        repository(work, cli)
        settings = EngineSettings(
            repository=work,
            state=tmp_path / "state" / "runs.sqlite3",
            sandbox="process",
            environment=home.environment,
            listen=told.append,
        )
        async with (
            open_engine(settings) as engine,
            otpy.start(otpy.SupervisorSpec("App", [engine.spec()]), hooks=()),
        ):
            await ended(engine, await engine.begin_plan("Greet", actor="ann"))
            orders: Orders = engine.orders
            (waiting,) = (await orders.waiting()).keys()
            await orders.answer(waiting, None, yes=True, why="", actor="ann")
            (feature,) = await engine.features_in(waiting)
            await ended(engine, await engine.begin_feature(feature, parallel=1, actor="ann"))
            review = await engine.begin_run(
                "reviewer", "Review it", ("hello.txt",), rebase=False, actor="ann"
            )
            await ended(engine, review)
    answered = [one for one in told if isinstance(one, WorkerAnswered)]
    assert [one.status for one in answered] == ["ok"] * 3, answered
    commits = [one.commit for one in told if isinstance(one, StepCompleted) and one.commit]
    assert commits == [head(work)]
    assert (work / "hello.txt").read_text() == "hello\n"
