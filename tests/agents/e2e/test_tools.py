"""Agents that use tools: their rights, and their processes after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anyio
import pytest

from otpy_agents.run import Access, AttemptRequest, Detail
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import Home
from tests.agents.fake_api import INPUT_TOKENS, Answer, FakeApi, UseTool

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
MADE: Final = "made.txt"


def shell(cli: str, command: str, pause: float = 0.0) -> UseTool:
    """Return the call by which a CLI's model runs a command, after `pause` seconds of thought."""
    match cli:
        case "claude":
            return UseTool("Bash", {"command": command, "description": "Run it"}, pause)
        case "codex":
            return UseTool("exec_command", {"cmd": command}, pause)
        case "gemini":
            return UseTool("run_shell_command", {"command": command}, pause)
        case _:
            return UseTool("bash", {"command": command, "description": "Run it"}, pause)


def may_run_commands(home: Home) -> AttemptRequest:
    """Return a request of an agent that may run any command."""
    if home.adapter.name == "claude":
        # Root cannot switch its guards off, so one tool is allowed by name.
        return home.request(flags=("--allowedTools=Bash",))
    return home.request(access=Access.FULL)


@pytest.mark.parametrize("cli", AGENTS)
async def test_an_agent_uses_a_tool_and_answers(cli: str, home_of: MakeHome) -> None:
    """The command is run, and both requests are counted."""
    async with FakeApi(shell(cli, f"echo hi > {MADE}"), Answer("made it")) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter, may_run_commands(home), environment=home.environment, cwd=home.work
        )
    assert outcome.verdict.succeeded, outcome
    assert outcome.transcript.answer == "made it"
    assert (home.work / MADE).read_text(encoding="utf-8") == "hi\n"
    assert outcome.transcript.usage is not None
    assert outcome.transcript.usage.input == 2 * INPUT_TOKENS
    assert len(api.exchanges) == 2
    assert outcome.left_behind == ()


@pytest.mark.parametrize(
    ("cli", "detail"),
    [
        ("claude", Detail.TOOLS_DENIED),
        # The command fails in its sandbox, which the CLI does not report.
        ("codex", None),
        ("copilot", Detail.TOOLS_DENIED),
        # It has no such tool then, which is not a refusal.
        ("gemini", None),
    ],
)
async def test_an_agent_that_may_only_read_writes_nothing(
    cli: str, detail: Detail | None, home_of: MakeHome
) -> None:
    """`Access.READ` holds, against the model's wishes and claims."""
    async with FakeApi(shell(cli, f"echo hi > {MADE}"), Answer("made it")) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter,
            home.request(access=Access.READ),
            environment=home.environment,
            cwd=home.work,
        )
    assert not (home.work / MADE).exists()
    assert outcome.verdict.detail is detail, outcome


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_stopped_agent_takes_its_tools_along(cli: str, home_of: MakeHome) -> None:
    """A command that still runs, in any session of the CLI, ends with the agent (G-02)."""
    async with FakeApi(shell(cli, f"echo hi > {MADE}; sleep 429"), Answer()) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter,
            may_run_commands(home),
            environment=home.environment,
            cwd=home.work,
            until=_exists(home.work / MADE),
        )
    assert not outcome.by_itself, outcome
    assert (home.work / MADE).exists()
    assert outcome.survivors == ()
    assert home.processes() == []


async def _exists(path: Path) -> None:
    while not await anyio.Path(path).exists():  # noqa: ASYNC110 - a file tells nobody
        await anyio.sleep(0.05)
