"""The policy of a run, in whole runs: the counts, the ends, and the commands of a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otpy.testing import MockClock
from otpy_agents.errors import SpawnFailed
from otpy_agents.run import Cause, Detail, Ending, FatalScope, RetryPolicy, RunControl, Usage
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection
from otpy_agents.run.decide.result import VendorSession
from otpy_agents.run.host.callbacks import RunCallbacks
from otpy_agents.run.host.facts import AgentSwitched
from otpy_agents.testing import Script
from tests.agents.run.scripts import limited, network, ok, says, silent
from tests.agents.run.stage import Stage


def refused() -> Script:
    """Return an attempt whose key is refused."""
    return says('{"type": "error", "message": "invalid api key", "status": 401}', code=1)


def spends(cost: float, *, code: int = 1) -> Script:
    usage = '{"type": "usage", "input": 10, "output": 1, "cost_usd": %s}' % cost  # noqa: UP031
    return says('{"type": "session", "id": "s1"}', usage, "!connection reset by peer", code=code)


async def test_a_crash_is_restarted_once_for_nothing(stage: Stage) -> None:
    """C-04, RUN-16 and RUN-17: the first crash costs no delay and no retry; the second counts."""
    async with stage.host(says(code=137), says(code=137), ok()) as host:
        result = await (await host.submit(stage.order())).wait()
    causes = [record.cause for record in result.attempts]
    assert causes == [Cause.FIRST, Cause.CRASH_RESTART, Cause.RETRY]
    assert (result.retry_count, result.ending) == (1, Ending.SUCCEEDED)
    assert stage.delays == [5.0]
    assert "[supervisor] container crashed (exit 137), restarting..." in stage.log


async def test_a_restart_that_fails_is_told(stage: Stage) -> None:
    """RUN-17: when the attempt after a crash cannot be started, the log says why."""
    missing = SpawnFailed("agent", "no such file")
    async with stage.host(says(code=137), missing) as host:
        result = await (await host.submit(stage.order())).wait()
    assert result.total_attempts == 2
    (line,) = [text for text in stage.log if "restart failed" in text]
    assert line.startswith("[supervisor] restart failed: ")
    assert "no such file" in line


async def test_thirty_attempts_are_the_end(stage: Stage) -> None:
    """RUN-49: the limit holds even if the agents have retries left."""
    policy = RetryPolicy(max_retries=20, backoff_base=0.1)
    async with stage.host(network()) as host:
        result = await (await host.submit(stage.order("a", "b", policy=policy))).wait()
    assert (result.total_attempts, result.ending) == (30, Ending.ATTEMPT_LIMIT)
    assert len(stage.sandbox.played) == 30


async def test_retries_used_up_lead_along_the_chain_and_to_the_end(stage: Stage) -> None:
    """RUN-46 and RUN-28: four attempts of each agent, then failure with the last result."""
    async with stage.host(network()) as host:
        result = await (await host.submit(stage.order("a", "b"))).wait()
    assert [record.agent_id for record in result.attempts] == ["a"] * 4 + ["b"] * 4
    assert (result.ending, result.fallback_count, result.retry_count) == (Ending.EXHAUSTED, 1, 6)
    assert stage.delays == [5.0, 15.0, 45.0] * 2
    assert "connection reset" in str(result.error)


@pytest.mark.parametrize("scope", FatalScope)
async def test_a_key_that_is_refused_ends_the_run_or_only_the_agent(
    stage: Stage, scope: FatalScope
) -> None:
    """RUN-50 and C-06: `task` returns at once, `agent` lets the next one try."""
    policy = RetryPolicy(fatal_scope=scope)
    async with stage.host(refused(), ok()) as host:
        result = await (await host.submit(stage.order("a", "b", policy=policy))).wait()
    assert result.attempts[0].detail is Detail.AUTH
    if scope is FatalScope.TASK:
        assert (result.ending, result.total_attempts) == (Ending.FATAL, 1)
    else:
        assert [record.agent_id for record in result.attempts] == ["a", "b"]
        assert result.ending is Ending.SUCCEEDED


async def test_a_program_that_is_missing_is_not_tried_again(stage: Stage) -> None:
    """C-05: the next agent follows at once; without one the run ends with the reason."""
    missing = SpawnFailed("agent", "no such file")
    async with stage.host(missing, ok(), missing) as host:
        first = await (await host.submit(stage.order("a", "b"))).wait()
        second = await (await host.submit(stage.order())).wait()
    assert [record.agent_id for record in first.attempts] == ["a", "b"]
    assert (second.ending, second.total_attempts) == (Ending.EXHAUSTED, 1)
    assert "no such file" in str(second.error)
    assert stage.delays == []


async def test_a_run_ends_when_its_money_is_spent(stage: Stage) -> None:
    """The total cost is checked before each attempt; none begins beyond the budget."""
    async with stage.host(spends(0.6)) as host:
        result = await (await host.submit(stage.order(budget_usd=1.0))).wait()
    assert (result.total_attempts, result.ending) == (2, Ending.BUDGET)
    assert result.usage == Usage(input=20, output=2, cost_usd=1.2)
    assert "budget" in str(result.error)


@pytest.mark.parametrize(
    ("model", "attempts", "held"), [("gpt-5-mini", 2, True), ("of-our-own", 4, False)]
)
async def test_tokens_are_priced_where_an_agent_does_not_say(
    stage: Stage, model: str, attempts: int, *, held: bool
) -> None:
    """An unknown price is reported: the budget does not hold then."""
    session, usage = ('{"type": "session", "id": "s1"}', '{"type": "usage", "output": 300000}')
    agent = AgentInstance(agent_id="a", agent_cli="command", model=model)
    selection = AgentSelection(agents=(agent,))
    async with stage.host(says(session, usage, "!connection reset by peer", code=1)) as host:
        order = stage.order(selection=selection, budget_usd=1.0)
        result = await (await host.submit(order)).wait()
    assert result.total_attempts == attempts
    assert result.usage.cost_usd == (pytest.approx(1.2) if held else 0)
    line = "[supervisor] a is not held by the budget: the price of its model is unknown"
    assert (line in stage.log) is not held


async def test_a_person_may_begin_the_retry_at_once_or_give_it_up(
    stage: Stage, clock: MockClock
) -> None:
    """RUN-52 and RUN-66: retry now cuts the delay, cancel retry ends with the last result."""
    async with stage.host(network(), network(), ok()) as host:
        handle = await host.submit(stage.order())
        await asyncio.sleep(3.0)
        assert (await handle.ask(RunControl.RETRY_NOW)).accepted
        await asyncio.sleep(3.0)
        assert handle.state.status == "retrying (2/3)"
        assert clock.now < 7.0
        assert (await handle.ask(RunControl.CANCEL_RETRY)).accepted
        result = await handle.wait()
        assert not (await handle.ask(RunControl.RETRY_NOW)).accepted
    assert (result.ending, result.total_attempts) == (Ending.RETRY_CANCELLED, 2)
    assert "connection reset" in str(result.error)


async def test_a_forced_fallback_cuts_the_delay(stage: Stage) -> None:
    """RUN-66: the next agent begins now; the last of a chain has none."""
    async with stage.host(network(), silent()) as host:
        handle = await host.submit(stage.order("a", "b"))
        await asyncio.sleep(3.0)
        assert (await handle.ask(RunControl.FORCE_FALLBACK)).accepted
        await asyncio.sleep(1.0)  # the delay would have lasted two more
        assert [(fact.source, fact.target) for fact in stage.told(AgentSwitched)] == [("a", "b")]
        refusal = await handle.ask(RunControl.FORCE_FALLBACK)
        assert (refusal.accepted, refusal.text) == (False, "no agent comes after 'b'")


async def test_a_sibling_that_waits_sees_a_limit_at_once(stage: Stage) -> None:
    """C-15: an account that is limited meanwhile is not asked when the delay is over."""
    async with stage.host(network(), limited("; try again in 1 hour"), ok(), ok()) as host:
        waiting = await host.submit(stage.order("a", "b"))
        await asyncio.sleep(2.0)
        assert waiting.state.status == "retrying (1/3)"
        limits = await (await host.submit(stage.order("a", "b"))).wait()
        result = await waiting.wait()
    assert [record.agent_id for record in limits.attempts] == ["a", "b"]
    assert [record.agent_id for record in result.attempts] == ["a", "b"]


async def test_callbacks_hear_what_happens(stage: Stage) -> None:
    """RUN-55: state, log, retry, switch and the end, in the order in which they happen."""
    heard: list[object] = []

    def hear(*news: object) -> None:
        heard.append(news)

    listener = RunCallbacks(
        on_state=lambda state: heard.append(state["status"]),
        on_log=heard.append,
        on_retry=hear,
        on_agent_switch=hear,
        on_done=hear,
    )
    policy = RetryPolicy(max_retries=1)
    end = says('{"type": "result", "text": "done"}')
    async with stage.host(network(), network(), end, listeners=[listener]) as host:
        await (await host.submit(stage.order("a", "b", policy=policy))).wait()
    assert [one for one in heard if isinstance(one, tuple)] == [
        (1, "a", 5.0),
        ("a", "b"),
        (
            *(0, None, []),
            {
                "agent_used": "command",
                "agent_id": "b",
                "retry_count": 1,
                "fallback_count": 1,
                "total_attempts": 3,
            },
        ),
    ]
    assert "connection reset by peer" in heard
    assert "[supervisor] switching from a to b (fallback)" in heard
    assert "running" in heard
    assert "retrying (1/1)" in heard


async def test_callbacks_that_raise_do_no_harm(stage: Stage) -> None:
    """A listener cannot disturb a run; the exception handler of the loop gets the error."""
    told: list[str] = []

    def tell(_: object, context: dict[str, Any]) -> None:
        told.append(str(context["exception"]))

    def fail(*_: object) -> None:
        raise RuntimeError("theirs")

    asyncio.get_running_loop().set_exception_handler(tell)

    async with stage.host(ok(), listeners=[RunCallbacks(on_state=fail, on_done=fail)]) as host:
        result = await (await host.submit(stage.order())).wait()
    assert result.ending is Ending.SUCCEEDED
    assert {*told} == {"theirs"}


async def test_a_run_goes_on_in_a_session_of_an_earlier_one(stage: Stage) -> None:
    """The first attempt resumes it, if its agent can; the result names the last session."""
    talk = says('{"type": "session", "id": "s9"}', '{"type": "result", "text": "done"}')
    async with stage.host(talk) as host:
        first = await (await host.submit(stage.order())).wait()
        assert first.resumable == VendorSession(id="s9", agent_cli="command")
        second = await (await host.submit(stage.order(session=first.resumable))).wait()
        foreign = VendorSession(id="s9", agent_cli="claude")
        third = await (await host.submit(stage.order(session=foreign))).wait()
    resumed = [result.attempts[0].resumed for result in (first, second, third)]
    assert resumed == [None, "s9", None]
    assert (second.session, second.total_attempts) == ("s9", 1)
