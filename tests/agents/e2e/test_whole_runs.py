"""Whole runs of the four CLIs against the fake vendor: retry, fallback, resume, usage, stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final

import pytest
from attrs import evolve, frozen

from otpy_agents.process.orphans import find
from otpy_agents.run import (
    AgentInstance,
    AgentSelection,
    Cause,
    Detail,
    Ending,
    Liveness,
    RetryPolicy,
    RunControl,
    SelectionMode,
    StopCause,
    Usage,
    VendorSession,
    run_marker,
)
from otpy_agents.run.host.facts import Fact, Listener
from otpy_agents.run.host.host import RunHost, run_host
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox import SandboxLimits
from otpy_agents.store import RunStore
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import PROVIDER, Home
from tests.agents.fake_api import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    Error,
    FakeApi,
    Hang,
    Refuse,
    Reply,
)

# Long enough to install the CLIs; an attempt takes far less.
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
        agent_fallbacks=dict(pairwise(clis)),
    )
    settings.setdefault("policy", POLICY)
    sandbox = SandboxChoice(limits=SandboxLimits(grace=3.0))
    return RunOrder(
        prompt="Say hello", cwd=home.work, selection=selection, sandbox=sandbox, **settings
    )


@asynccontextmanager
async def hosted(home: Home, *listeners: Listener) -> AsyncGenerator[RunHost]:
    """A host whose store lies in a folder from which Gemini accepts settings."""
    async with (
        RunStore(home.work.parent / "state" / "runs.sqlite3") as store,
        run_host(store, listeners=listeners, environment=home.environment, hooks=()) as host,
    ):
        yield host


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_failure_is_tried_again_and_counted_once(cli: str, home_of: MakeHome) -> None:
    """A wrong answer of the vendor, then a right one: one retry, every token counted once."""
    # Copilot retries by itself; a refused key would end the run at once.
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


@pytest.mark.parametrize(
    ("first", "second"), [("claude", "codex"), ("codex", "gemini"), ("gemini", "claude")]
)
async def test_another_cli_takes_over(first: str, second: str, home_of: MakeHome) -> None:
    """After a used-up quota the next CLI of the chain takes over, at once and in its own way."""
    async with FakeApi(Refuse(Error.QUOTA), Answer("taken over")) as api:
        home = home_of(first, api.url, second)
        async with hosted(home) as host:
            asked = order(home, first, second, policy=RetryPolicy())
            handle = await host.submit(asked)
            result = await handle.wait()
            later = await (await host.submit(asked)).wait()
    assert [record.agent_cli for record in result.attempts] == [first, second], result
    assert result.attempts[0].detail in {Detail.QUOTA, Detail.RATE_LIMIT}
    assert result.attempts[1].cause is Cause.FALLBACK
    assert (result.ending, handle.answer) == (Ending.SUCCEEDED, "taken over")
    # Its account rests for all runs of the user (C-15).
    assert [record.agent_cli for record in later.attempts] == [second]


async def test_codex_without_a_connection_is_tried_again_by_us(home_of: MakeHome) -> None:
    """By itself it would wait for the network for ever, without naming a time."""
    home = home_of("codex", "http://127.0.0.1:1")
    policy = evolve(POLICY, max_retries=1)
    async with hosted(home) as host:
        result = await (await host.submit(order(home, "codex", policy=policy))).wait()
    assert [record.detail for record in result.attempts] == [Detail.NETWORK] * 2, result
    assert result.ending is Ending.EXHAUSTED


@frozen
class Case:
    """A vendor's answer, and the result of a run without retries."""

    reply: Reply
    detail: Detail | None
    ending: Ending


CASES: Final = (
    Case(Answer("hello"), None, Ending.SUCCEEDED),
    Case(Refuse(Error.UNAUTHORIZED), Detail.AUTH, Ending.FATAL),
    Case(Refuse(Error.RATE_LIMIT), Detail.RATE_LIMIT, Ending.EXHAUSTED),
    Case(Refuse(Error.OVERLOADED), Detail.OVERLOADED, Ending.EXHAUSTED),
    Case(Refuse(Error.CONTEXT), Detail.CONTEXT_OVERFLOW, Ending.FATAL),
)


@pytest.mark.parametrize("cli", AGENTS)
async def test_every_answer_of_a_vendor_gets_its_class(cli: str, home_of: MakeHome) -> None:
    """Acceptance 25: success, 401, 429, 529 and a context that is too long, through whole runs."""

    async def check(case: Case) -> None:
        async with FakeApi(case.reply) as api:
            home = home_of(cli, api.url)
            async with hosted(home) as host:
                handle = await host.submit(order(home, cli, policy=RetryPolicy(max_retries=0)))
                result = await handle.wait()
        assert result.attempts[-1].detail is case.detail, result
        assert result.ending is case.ending, result
        assert find(run_marker(handle.id)) == []

    # Copilot's own waits cannot be switched off, so all run at the same time.
    await asyncio.gather(*map(check, CASES))


@pytest.mark.parametrize("control", [RunControl.CANCEL, RunControl.KILL])
@pytest.mark.parametrize("cli", AGENTS)
async def test_a_stop_leaves_no_orphan(cli: str, control: RunControl, home_of: MakeHome) -> None:
    """The vendor is silent: the run ends soon, and no process of the CLI is alive."""
    async with FakeApi(Hang()) as api:
        home = home_of(cli, api.url)
        async with hosted(home) as host:
            handle = await host.submit(order(home, cli))
            await api.asked(1)
            assert (await handle.ask(control)).accepted
            result = await handle.wait()
            assert find(run_marker(handle.id)) == []
            assert home.processes() == []
    assert result.user_stop is StopCause(control)
    assert result.total_attempts == 1


async def test_a_cli_that_hangs_is_ended_and_tried_again(home_of: MakeHome) -> None:
    """With `stall:5` a silent vendor costs a retry, after one event `child.quiet`."""
    facts: list[Fact] = []
    async with FakeApi(Hang(), Answer("at last")) as api:
        home = home_of("claude", api.url)
        async with hosted(home, facts.append) as host:
            asked = order(home, "claude", liveness=Liveness.parse("stall:5"))
            handle = await host.submit(asked)
            result = await handle.wait()
    assert [record.stopped for record in result.attempts] == [StopCause.STALL, None]
    assert (result.ending, handle.answer) == (Ending.SUCCEEDED, "at last")
    assert [fact.event for fact in facts].count("child.quiet") == 1


@pytest.mark.parametrize("cli", AGENTS)
async def test_three_resumes_count_each_token_once(cli: str, home_of: MakeHome) -> None:
    """Acceptance 16: four runs of one session, which knows all of them; each counts its own."""
    turns = 4
    session = None
    spent = Usage()
    async with FakeApi(*(Answer(f"reply {turn}") for turn in range(turns))) as api:
        home = home_of(cli, api.url)
        async with hosted(home) as host:
            for turn in range(turns):
                asked = evolve(order(home, cli, session=session), prompt=f"prompt {turn}")
                handle = await host.submit(asked)
                result = await handle.wait()
                assert (result.ending, handle.answer) == (Ending.SUCCEEDED, f"reply {turn}"), result
                assert result.attempts[0].resumed == (None if session is None else session.id)
                session = result.resumable
                spent += result.usage
    assert len(api.exchanges) == turns
    said = str(api.exchanges[-1].body)
    assert all(f"prompt {turn}" in said for turn in range(turns))
    assert all(f"reply {turn}" in said for turn in range(turns - 1))
    counted = spent.input, spent.cached, spent.output
    assert counted == (turns * INPUT_TOKENS, turns * CACHED_TOKENS, turns * OUTPUT_TOKENS)


async def test_a_session_that_is_gone_is_left_for_a_new_one(home_of: MakeHome) -> None:
    """G-12: one more attempt without it costs no retry."""
    gone = VendorSession(id="00000000-0000-4290-8000-000000000429", agent_cli="claude")
    async with FakeApi(Answer("anew")) as api:
        home = home_of("claude", api.url)
        async with hosted(home) as host:
            result = await (await host.submit(order(home, "claude", session=gone))).wait()
    assert [record.detail for record in result.attempts] == [Detail.SESSION_INVALID, None]
    assert (result.ending, result.retry_count) == (Ending.SUCCEEDED, 0)
