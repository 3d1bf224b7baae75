"""`otpy-agents engine circuits` lists the circuits and resets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from otpy_agents.cli.engine_circuits import circuits
from otpy_agents.engine.circuits import CircuitKey, CircuitStore
from otpy_agents.engine.server.site import engine_log
from otpy_agents.log import log_beside
from tests.agents.click_runner import click_runner

OPUS = CircuitKey("claude", "opus", "implementer")
CODEX = CircuitKey("codex", "", "reviewer")

Typed = Callable[..., Result]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository."""
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    return tmp_path / "repository"


@pytest.fixture
def typed(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that types the command in a folder of the repository."""
    monkeypatch.setenv("OTPY_STATE", str(tmp_path / "runs.sqlite3"))
    (repository / "src").mkdir()

    def typed(*words: str) -> Result:
        return click_runner().invoke(circuits, ["--repo", str(repository / "src"), *words])

    return typed


def fail_often(tmp_path: Path, repository: Path, *keys: CircuitKey) -> None:
    """Record failures of agents, as an engine in another process does."""

    async def failing() -> None:
        async with engine_log(log_beside(tmp_path / "runs.sqlite3")) as log:
            for key in keys:
                await CircuitStore(log, repository).failed(key, "overloaded")

    asyncio.run(failing())


def test_where_nothing_failed_nothing_is_listed(typed: Typed, tmp_path: Path) -> None:
    """The command creates no log either."""
    done = typed()
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "otpy-agents: no agent has failed here so far\n"
    assert not log_beside(tmp_path / "runs.sqlite3").exists()


def test_circuits_are_listed_and_reset(typed: Typed, tmp_path: Path, repository: Path) -> None:
    """A key of the list resets it; any other text is refused, with the known keys (ENG-05)."""
    fail_often(tmp_path, repository, CODEX, *(OPUS,) * 5)
    first, second = typed().stdout.splitlines()
    assert first.startswith("claude:opus/implementer  open for ")
    assert "; 5 failures, the last " in first
    assert second.startswith("codex/reviewer  closed; 1 failure, the last ")
    one = json.loads(typed("--json").stdout.splitlines()[0])
    assert (one["state"], one["role"], len(one["failures"])) == ("open", "implementer", 5)
    refused = typed("--reset", "claude/implementer")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "otpy-agents: --reset: got 'claude/implementer',"
        " wanted claude:opus/implementer, codex/reviewer\n"
    )
    assert typed("--reset", str(OPUS)).stdout == "claude:opus/implementer: reset\n"
    again = typed("--reset", str(OPUS), "--reset", str(CODEX)).stdout
    assert again == "claude:opus/implementer: was closed, and stays\ncodex/reviewer: reset\n"
    assert typed().stdout == "claude:opus/implementer  closed\ncodex/reviewer  closed\n"


def test_deleting_the_file_resets(typed: Typed, tmp_path: Path, repository: Path) -> None:
    """Users know this way to reset circuits."""
    fail_often(tmp_path, repository, *(OPUS,) * 5)
    (repository / ".supervisor" / "circuits.json").unlink()
    assert typed().stdout == "claude:opus/implementer  closed\n"
