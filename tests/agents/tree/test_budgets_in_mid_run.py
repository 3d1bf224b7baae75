"""Agents that pass their budget while they work, and those whose answer came before the stop."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.errors import DeadlinePassed
from otpy_agents.store import RunStore
from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Script, Spend, Step, Succeed, UseTool, Write
from otpy_agents.testing.script import line_of
from otpy_monitors import Kind
from tests.agents.agent_world import AgentWorld, agent

REQUEST = 1525


def loop_of_tools(requests: int = 50, *, each: float = 1.0) -> Script:
    """Return an agent that asks and asks, and never stops by itself."""
    steps: list[Step] = []
    for number in range(1, requests + 1):
        steps += [
            UseTool(lasts=0.1, after=each),
            Spend(input=1500 * number, output=25 * number),
        ]
    return Script(*steps, Hang())


def tokens(agents: AgentWorld, account: str = "w/a") -> float | None:
    return agents.workplace.budgets.ledger.balance(account, Kind.TOKENS).spent


async def test_15_one_run_that_passes_its_budget_is_stopped_within_a_request(
    agents: AgentWorld,
) -> None:
    """Acceptance 15 with a single run: it rests, and a grant goes on with its session."""
    agents.sandbox.scripts["a"] = [loop_of_tools(), Script()]
    async with agents.running(agent("a", tokens=4000)) as root:
        await asyncio.sleep(30)
        assert agents.pool.mortal("a").state == "waiting_for_input"
        assert not agents.sandbox.alive
        assert tokens(agents) == 3 * REQUEST
        agents.project.grant("a", Kind.TOKENS, 10_000)
        await root.wait()
    one, two = agents.sandbox.of("a")
    assert two.session == one.own_session
    assert agents.known["a"].state is State.DONE


async def test_a_list_over_its_budget_stops_each_agent_within_a_request(agents: AgentWorld) -> None:
    """Three agents share it: none of them asks more than once beyond it."""
    agents.sandbox.scripts = {name: [loop_of_tools()] for name in "abc"}
    text = "[list]\nparallel = 3\ntokens = 14000\n" + "".join(agent(name) for name in "abc")
    async with agents.running(text):
        await asyncio.sleep(60)
        assert not agents.sandbox.alive
        spent = tokens(agents, "w")
    assert spent is not None
    assert 14_000 <= spent <= 14_000 + 3 * REQUEST


async def test_an_agent_that_begins_the_next_call_at_once_is_stopped_too(
    agents: AgentWorld,
) -> None:
    """The boundary between two calls is no more than a moment, and counts."""
    agents.sandbox.scripts["a"] = [loop_of_tools(each=0.0)]
    async with agents.running(agent("a", tokens=4000)):
        await asyncio.sleep(30)
        assert not agents.sandbox.alive
        spent = tokens(agents)
    assert spent is not None
    assert spent < 10 * REQUEST  # it asks ten times a second while its run is being stored


async def test_what_is_spent_is_seen_as_it_is_spent(agents: AgentWorld) -> None:
    """The ledger, of which `status` tells, moves with each request and not at the end of a run."""
    agents.sandbox.scripts["a"] = [loop_of_tools(each=0.9)]
    async with agents.running(agent("a", tokens=1_000_000)):
        seen: list[float | None] = []
        await asyncio.sleep(0.5)
        for _ in range(3):
            await asyncio.sleep(2)
            seen.append(tokens(agents))
    assert seen == [REQUEST * 2, REQUEST * 4, REQUEST * 6]


async def test_what_stopped_lives_have_spent_adds_up(agents: AgentWorld) -> None:
    """Lives that each end for a stall spend from one budget, and stop when it is spent."""
    life = Script(UseTool(lasts=0.1), Spend(input=1500, output=25), Hang())
    agents.sandbox.scripts["a"] = [life]
    async with agents.running(agent("a", tokens=4000, stall=30, restarts=9, backoff=[1])):
        await agents.until(lambda: "mortal.paused" in agents.names("a"))
        assert tokens(agents) == 3 * REQUEST
    assert len(agents.sandbox.played) == 3


async def test_the_model_of_the_list_prices_what_an_agent_spends(agents: AgentWorld) -> None:
    """A limit in dollars holds an agent that tells tokens alone, in mid-run."""
    script = Script(UseTool(lasts=0.1), Spend(output=300_000), Hang())
    agents.sandbox.scripts["a"] = [script]
    async with agents.running(agent("a", cost_usd=0.5, model="gpt-5-mini")):
        await asyncio.sleep(30)
        assert agents.pool.mortal("a").state == "waiting_for_input"
        balance = agents.workplace.budgets.ledger.balance("w/a", Kind.COST_USD)
    assert balance.spent == pytest.approx(0.6)


async def test_an_answer_that_is_over_the_budget_is_taken(agents: AgentWorld) -> None:
    """What it cost is known with the answer: the work is done, once, and nobody is asked."""
    agents.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    known = await agents.run(agent("a", tokens=100))
    assert known["a"].state is State.DONE
    assert len(agents.sandbox.played) == 1
    assert "mortal.paused" not in agents.names("a")
    assert "operator.notified" not in [told.name for told in agents.told]
    assert "monitor.budget_spent" in agents.names("a", "monitor.")


async def test_an_answer_is_not_restarted_for_a_fresh_budget(agents: AgentWorld) -> None:
    """`restart(fresh=2)` makes nobody do again what is done."""
    agents.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    known = await agents.run(agent("a", tokens=100, on_exceed="restart(fresh=2)"))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert len(agents.sandbox.played) == 1


LINGERS = Script(
    Spend(input=500, after=1.0), Write(text=line_of(type="result", text="done"), after=0.2), Hang()
)


async def stored(agents: AgentWorld) -> list[str]:
    async with RunStore(agents.folder / "state" / "runs.sqlite3") as store:
        return [record.status for record in await store.runs()]


async def test_an_agent_that_answered_and_does_not_end_is_done_all_the_same(
    agents: AgentWorld,
) -> None:
    """The stop for its budget comes after the answer: it ends the process, and not the work."""
    agents.sandbox.scripts["a"] = [LINGERS]
    known = await agents.run(agent("a", tokens=100, grace=2))
    assert known["a"].state is State.DONE
    assert [one.exit_code for one in agents.sandbox.played] == [143]
    assert await stored(agents) == ["done"]


async def test_a_pause_after_the_answer_does_not_undo_it(agents: AgentWorld) -> None:
    """A person who pauses it then finds it done."""
    agents.sandbox.scripts["a"] = [LINGERS]
    async with agents.running(agent("a")) as root:
        await asyncio.sleep(5)
        agents.pool.mortal("a").pause("night")
        await root.wait()
    assert agents.known["a"].state is State.DONE
    assert len(agents.sandbox.played) == 1


async def test_a_deadline_after_the_answer_does_not_undo_it(agents: AgentWorld) -> None:
    """It had answered in time, and only did not end."""
    agents.sandbox.scripts["a"] = [LINGERS]
    known = await agents.run(agent("a", deadline=30))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert DeadlinePassed.__name__ not in str(agents.told)


async def test_a_life_that_is_ended_after_the_answer_leaves_it_to_the_next(
    agents: AgentWorld,
) -> None:
    """A stall after the answer costs a life, and no second run."""
    agents.sandbox.scripts["a"] = [LINGERS]
    known = await agents.run(agent("a", stall=30, backoff=[1]))
    assert known["a"].state is State.DONE
    assert len(agents.sandbox.played) == 1


async def test_an_answer_that_fails_its_check_rests_for_its_budget(
    agents: AgentWorld,
) -> None:
    """It was over its budget before: only a grant begins another run."""
    agents.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    text = agent("a", tokens=100, backoff=[1], verify=["false"])
    async with agents.running(text):
        await agents.until(lambda: "mortal.paused" in agents.names("a"))
        assert len(agents.sandbox.played) == 1


async def test_a_paused_run_is_stored_as_stopped(agents: AgentWorld) -> None:
    """It rests, and has not failed."""
    agents.sandbox.scripts["a"] = [loop_of_tools(), Script()]
    async with agents.running(agent("a")):
        await asyncio.sleep(5)
        agents.pool.mortal("a").pause("night")
        await agents.until(lambda: not agents.sandbox.alive)
        await asyncio.sleep(1)
    assert await stored(agents) == ["stopped"]
