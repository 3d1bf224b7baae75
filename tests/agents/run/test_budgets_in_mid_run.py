"""A run that exceeds its budget while its agent works, and an answer that came before a stop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.protocol import (
    AttemptGone,
    Charged,
    LaunchAttempt,
    RunControl,
    WriteLog,
)
from otpy_agents.run.decide.result import Ending, StopCause
from otpy_agents.run.host.order import RunOrder
from otpy_agents.testing import ExitWith, Hang, Write
from tests.agents.run.driver import Driver, run
from tests.agents.run.scripts import plays
from tests.agents.run.stage import Stage


def spent(cost: float) -> str:
    return json.dumps({"type": "usage", "input": 1500, "output": 25, "cost_usd": cost})


def tool(number: int) -> str:
    return json.dumps({"type": "tool", "id": str(number), "name": "Read", "input": {}})


def tool_end(number: int) -> str:
    return json.dumps({"type": "tool_end", "id": str(number), "ok": True})


ANSWER = json.dumps({"type": "result", "text": "all done"})


def working(**settings: Any) -> Driver:
    return run("a", "b", cooldowns=None, **settings).start()


def test_a_run_ends_as_soon_as_its_money_is_spent() -> None:
    """The attempt is ended while it works, and nothing follows it: no retry and no other agent."""
    it = working(budget_usd=2.0)
    it.send(Charged(number=1, usage=Usage(input=10, cost_usd=1.9)))
    assert not it.stops
    it.send(Charged(number=1, usage=Usage(input=20, cost_usd=2.1)))
    assert it.stops == [False]
    it.stopped()
    assert (it.result.ending, it.result.exit_code, it.result.user_stop) == (Ending.BUDGET, 1, None)
    assert it.result.error == "the budget is spent"
    assert it.log == ["[supervisor] attempt 1: $2.1 of $2 are spent, ending it"]
    assert it.launched == ["A"]


def test_what_the_attempts_before_spent_counts_too() -> None:
    """The budget is that of all attempts together."""
    it = working(budget_usd=2.0)
    it.fail(Detail.NETWORK, usage=Usage(input=1, cost_usd=1.5))
    it.wait()
    it.start()
    it.send(Charged(number=2, usage=Usage(input=1, cost_usd=0.6)))
    assert it.stops == [False]


def test_a_session_that_is_gone_on_with_is_not_charged_for_again() -> None:
    """The count of a whole session includes the usage that the earlier attempt has told."""
    it = working(budget_usd=2.0)
    usage = Usage(input=10, cost_usd=1.5)
    it.send(
        AttemptGone(
            number=1,
            classification=Classification(detail=Detail.NETWORK),
            exit_code=1,
            session="s",
            usage=usage,
            cumulative=True,
        )
    )
    it.wait()
    it.start()
    now = Usage(input=11, cost_usd=1.6)
    it.send(Charged(number=2, usage=now, session="s", cumulative=True))
    assert not it.stops
    assert it.of(LaunchAttempt)[-1].budget_usd == 0.5


def test_a_session_that_an_attempt_did_not_name_is_not_charged_for_again() -> None:
    """The machine knows the session that an attempt resumes, even if it hears only the usage."""
    it = working(budget_usd=2.0, policy=RetryPolicy(resume=True))
    before = Usage(input=10, cost_usd=1.5)
    end = AttemptGone(
        number=1,
        classification=Classification(detail=Detail.NETWORK),
        exit_code=1,
        session="s",
        usage=before,
        cumulative=True,
    )
    it.send(end)
    it.wait()
    it.start()
    now = Usage(input=11, cost_usd=1.6)
    it.send(Charged(number=2, usage=now, cumulative=True))
    assert not it.stops
    it.send(evolve(end, number=2, session=None, usage=now))
    record = it.machine.state.attempts[-1]
    assert (record.resumed, record.session, record.usage) == ("s", "s", now - before)
    assert it.machine.state.usage == now


def test_a_run_without_a_budget_may_spend() -> None:
    """Without a budget no attempt is ended for its cost."""
    it = working()
    it.send(Charged(number=1, usage=Usage(input=10, cost_usd=1e6)))
    assert not it.stops


@pytest.mark.parametrize("control", [RunControl.STOP, RunControl.CANCEL, RunControl.KILL])
def test_an_answer_wins_over_a_stop_that_came_later(control: RunControl) -> None:
    """The work is done, and it is not paid for twice, under any kind of stop."""
    it = working()
    it.ask(control)
    end = AttemptGone(number=1, classification=Classification(), exit_code=143, answered=True)
    it.send(end)
    assert (it.result.ending, it.result.status, it.result.exit_code) == (
        Ending.SUCCEEDED,
        "done",
        0,
    )
    assert it.result.attempts[0].stopped is None


def test_an_error_that_was_told_does_not_win_over_a_stop() -> None:
    """Only finished work counts: an attempt that was stopped has no failure."""
    it = working()
    it.ask(RunControl.STOP)
    verdict = Classification(detail=Detail.NETWORK, message="reset")
    it.send(AttemptGone(number=1, classification=verdict, exit_code=143, answered=True))
    assert (it.result.ending, it.launched) == (Ending.STOPPED, ["A"])


def test_a_run_that_was_stopped_is_listed_as_that() -> None:
    """It has not failed: its session can be resumed."""
    it = working()
    it.ask(RunControl.STOP)
    it.stopped()
    assert (it.machine.state.status, it.result.exit_code) == ("stopped", 143)


async def test_an_agent_that_does_not_stop_by_itself_is_ended_within_a_request(
    stage: Stage,
) -> None:
    """One request a second, without end: the one that passes the budget is the last."""
    requests = [
        line
        for number in range(1, 50)
        for line in (
            Write(text=tool(number)),
            Write(text=spent(number * 0.3), after=0.0),
            Write(text=tool_end(number), after=0.2),
        )
    ]
    async with stage.host(plays(*requests, Hang())) as host:
        result = await (await host.submit(stage.order(budget_usd=1.0))).wait()
    assert result.ending is Ending.BUDGET
    assert result.usage.cost_usd == pytest.approx(1.2)
    assert result.attempts[0].stopped is StopCause.BUDGET


async def test_the_price_of_the_answer_does_not_cut_the_answer(stage: Stage) -> None:
    """The line with the answer comes after the line with the cost."""
    answers = plays(Write(text=spent(3.0)), Write(text=ANSWER, after=0.3), ExitWith(after=0.1))
    async with stage.host(answers) as host:
        handle = await host.submit(stage.order(budget_usd=1.0))
        result = await handle.wait()
    assert (result.ending, handle.answer) == (Ending.SUCCEEDED, "all done")
    assert "[supervisor] done, for $3: the budget was $1" in stage.log


async def test_an_agent_without_tools_is_ended_a_moment_after_its_price(stage: Stage) -> None:
    """An agent that tells no tool and no end gets only the time that a last line takes."""
    async with stage.host(plays(Write(text=spent(3.0)), Hang())) as host:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await (await host.submit(stage.order(budget_usd=1.0))).wait()
        assert 1.4 < loop.time() - began < 2.0
    assert result.ending is Ending.BUDGET


async def test_who_has_answered_and_does_not_end_has_succeeded(stage: Stage) -> None:
    """A stall after the answer ends the process, and not the work."""
    async with stage.host(plays(Write(text=ANSWER), Hang())) as host:
        order = stage.order(liveness=Liveness.parse("stall:60"))
        result = await (await host.submit(order)).wait()
    assert (result.ending, len(result.attempts)) == (Ending.SUCCEEDED, 1)


async def test_a_stop_after_the_answer_leaves_the_run_done(stage: Stage) -> None:
    """The answer counts, although the process was ended with a signal."""
    async with stage.host(plays(Write(text=ANSWER), Hang())) as host:
        handle = await host.submit(stage.order())
        await asyncio.sleep(5)
        await handle.ask(RunControl.STOP)
        result = await handle.wait()
    assert (result.ending, result.exit_code, handle.answer) == (Ending.SUCCEEDED, 0, "all done")


def test_an_agent_of_unknown_price_is_named_before_the_first_request(tmp_path: Path) -> None:
    """Each has one line, with the setting to change; without a budget there is none (G-08)."""
    agents = (
        AgentInstance(agent_id="codex", agent_cli="codex"),
        AgentInstance(agent_id="claude", agent_cli="claude", model="ours"),
        AgentInstance(agent_id="gemini", agent_cli="gemini", model="ours"),
    )
    chain = AgentChain(agents=agents)
    order = RunOrder(prompt="x", cwd=tmp_path, budget_usd=1.0)
    it = Driver(order.first_state(chain)).begin()
    codex, gemini = it.log
    known = "set `model` to one whose price is known"
    why = "codex may not be held by the budget: it names no model"
    assert codex == f"[supervisor] {why}; {known}"
    why = "gemini is not held by the budget: the price of its model 'ours' is unknown"
    assert gemini == f"[supervisor] {why}; {known}"
    assert [type(one) for one in it.effects].index(WriteLog) < [
        type(one) for one in it.effects
    ].index(LaunchAttempt)
    free = Driver(evolve(order, budget_usd=None).first_state(chain)).begin()
    assert free.log == []
