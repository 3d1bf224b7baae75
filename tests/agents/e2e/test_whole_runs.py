"""Whole runs of the four CLIs against the fake vendor: retry, fallback, resume, usage, stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from attrs import evolve

from otpy_agents.run import (
    Access,
    AgentInstance,
    AgentSelection,
    Cause,
    Control,
    Detail,
    Ending,
    RetryPolicy,
    SelectionMode,
    run_marker,
)
from otpy_agents.run.host import RunHost, run_host
from otpy_agents.run.orphans import find
from otpy_agents.run.order import RunOrder, SandboxChoice
from otpy_agents.run.sandbox import Limits
from otpy_agents.store import RunStore
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import PROVIDER, Home
from tests.agents.fake_api import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    Error,
    FakeApi,
    Hang,
    Refuse,
)

# Only to install the CLIs; no attempt takes so long.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
POLICY: Final = RetryPolicy(backoff_base=0.1, rate_limit_backoff_base=0.1)


def agent(cli: str) -> AgentInstance:
    """Return an agent that the fake vendor can serve."""
    return AgentInstance(
        agent_id=cli,
        agent_cli=cli,
        model="gemini-2.5-flash" if cli == "gemini" else None,
        provider=PROVIDER if cli == "codex" else None,
    )


def order(home: Home, *clis: str, **settings: Any) -> RunOrder:
    """Return an order for a chain of these CLIs."""
    selection = AgentSelection(
        agents=tuple(map(agent, clis)),
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks=dict(zip(clis, clis[1:], strict=False)),
    )
    settings.setdefault("policy", POLICY)
    sandbox = SandboxChoice(limits=Limits(grace=3.0))
    return RunOrder(
        prompt="Say hello", cwd=home.work, selection=selection, sandbox=sandbox, **settings
    )


@asynccontextmanager
async def hosted(home: Home, **more: str) -> AsyncGenerator[RunHost]:
    """A host whose store lies where Gemini takes settings from."""
    environment = {**home.environment, **more}
    async with (
        RunStore(home.work.parent / "state" / "runs.sqlite3") as store,
        run_host(store, environment=environment, hooks=()) as host,
    ):
        yield host


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_failure_is_tried_again_and_counted_once(cli: str, home_of: MakeHome) -> None:
    """A wrong answer of the vendor, then a right one: one retry, every token counted once."""
    # Copilot tries again by itself, but not when its key is refused, which ends a run.
    script = [Refuse(Error.SERVER_ERROR)] * (6 if cli == "copilot" else 1)
    async with FakeApi(*script, Answer("hello at last")) as api:
        home = home_of(cli, api.url)
        async with hosted(home) as host:
            handle = await host.submit(order(home, cli))
            result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED, result
    assert [record.detail for record in result.attempts] == [Detail.SERVER_ERROR, None]
    assert handle.answer == "hello at last"
    assert (result.usage.input, result.usage.output) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert find(run_marker(handle.id)) == []


@pytest.mark.parametrize(("first", "second"), [("claude", "codex"), ("codex", "gemini")])
async def test_another_cli_takes_over(first: str, second: str, home_of: MakeHome) -> None:
    """A quota that is used up: the next CLI of the chain does it, at once and in its own terms."""
    async with FakeApi(Refuse(Error.QUOTA), Answer("taken over")) as api:
        home, other = home_of(first, api.url), home_of(second, api.url)
        selection = order(home, first, second)
        # Both find their own configuration: each has a home of its own.
        async with hosted(other, **_key(home)) as host:
            handle = await host.submit(_with_home(selection, home))
            result = await handle.wait()
    assert [record.agent_cli for record in result.attempts] == [first, second], result
    assert result.attempts[0].detail in {Detail.QUOTA, Detail.RATE_LIMIT}
    assert result.attempts[1].cause is Cause.FALLBACK
    assert (result.ending, handle.answer) == (Ending.SUCCEEDED, "taken over")
