"""Budgets of agents: counted once, shared with those above, paused at a boundary, granted."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.store.records import State
from otpy_agents.testing import Fail, Hang, Say, Script, Spend, Succeed, UseTool
from otpy_monitors import Kind
from otpy_monitors.budget.errors import LimitTooWide
from tests.agents.world import World, agent

WORKS = Script(Spend(input=90, output=20, after=1.0), UseTool(lasts=5.0), Hang())


async def test_15_a_spent_budget_pauses_until_a_person_grants_more(world: World) -> None:
    """An operator raises it, and the work goes on in the same session (acceptance 15).

    A budget of the parent includes its children, and they pause at the boundary of a turn.
    """
    world.sandbox.scripts = {
        "a": [Script(Spend(input=90, output=20), UseTool(lasts=20.0), Hang()), Script()],
        "b": [Script(Spend(input=100, after=3.0), UseTool(lasts=20.0), Hang()), Script()],
    }
    text = "[list]\ntokens = 200\n" + agent("a", tokens=150, restarts=0) + agent("b", restarts=0)
    async with world.running(text) as root:
        await asyncio.sleep(100)
        a, b = world.pool.mortal("a"), world.pool.mortal("b")
        assert (a.state, b.state) == ("waiting_for_input", "waiting_for_input")
        assert b.paused is not None
        assert b.paused.by == "budget"
        assert not world.sandbox.alive
        ends = {one.agent: round(one.ended or 0, 2) for one in world.sandbox.played}
        # No call of a tool was cut, and no last line. Time flows while a thread is at work.
        assert ends == pytest.approx({"a": 21, "b": 3.5}, abs=0.2)
        with pytest.raises(LimitTooWide):
            world.project.grant("a", Kind.TOKENS, 1000)
        world.project.grant("", Kind.TOKENS, 1000)
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    for name in "ab":
        one, two = world.sandbox.of(name)
        assert two.session == one.own_session
        assert world.known[name].restarts == 0
    assert "operator.notified" in [told.name for told in world.told]
    assert world.event("budget.granted").detail == {"kind": "tokens", "amount": 1000}


async def test_16_a_session_that_is_resumed_counts_each_token_once(world: World) -> None:
    """Three lives in one session: what the account spent is their sum (acceptance 16)."""
    lives = [Script(Spend(input=10, output=5), Fail()) for _ in range(3)]
    world.sandbox.scripts["a"] = [*lives, Script(Spend(input=10, output=5), Succeed())]
    async with world.running(agent("a", backoff=[1])) as root:
        await root.wait()
        balance = world.workplace.budgets.ledger.balance("w/a", Kind.TOKENS)
    assert balance.spent == 60
    assert world.workplace.budgets.ledger.balance("w", Kind.TOKENS).spent == 60


async def test_a_budget_survives_its_host(world: World) -> None:
    """The next host knows what is spent, and waits at once (acceptance 15)."""
    world.sandbox.scripts["a"] = [WORKS, Script()]
    text = agent("a", tokens=100)
    async with world.running(text):
        await asyncio.sleep(30)
        assert world.pool.mortal("a").state == "waiting_for_input"
    async with world.running(text) as root:
        await asyncio.sleep(30)
        assert world.pool.mortal("a").state == "waiting_for_input"
        assert len(world.sandbox.played) == 1
        world.project.grant("a", Kind.TOKENS, 100)
        await root.wait()
    first, second = world.sandbox.played
    assert world.known["a"].state is State.DONE
    assert second.session is None or second.session == first.own_session


async def test_a_budget_may_be_renewed_by_restarting(world: World) -> None:
    """`restart(fresh=1)`: one fresh budget, then it pauses like any other (C-12)."""
    world.sandbox.scripts["a"] = [WORKS]
    text = agent("a", tokens=100, on_exceed="restart(fresh=1)", backoff=[1])
    async with world.running(text):
        await asyncio.sleep(60)
        mortal = world.pool.mortal("a")
        assert (mortal.restarts, mortal.state) == (1, "waiting_for_input")
    assert len(world.sandbox.played) == 2
    assert "BudgetRenewed" in world.sandbox.played[1].prompt


async def test_a_budget_may_only_warn(world: World) -> None:
    """It is told, and the agent goes on (C-12)."""
    world.sandbox.scripts["a"] = [Script(Spend(input=500), Say(text="x", after=9.0))]
    known = await world.run(agent("a", tokens=100, on_exceed="warn"))
    assert known["a"].state is State.DONE
    assert "monitor.budget_spent" in world.names("a", "monitor.")
    assert len(world.sandbox.played) == 1


async def test_time_that_an_agent_waits_is_not_charged(world: World) -> None:
    """Only working time counts; a pause costs nothing."""
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=5.0), Hang()), Script()]
    async with world.running(agent("a", wall_seconds=50)) as root:
        await asyncio.sleep(10)
        world.pool.mortal("a").pause("night")
        await asyncio.sleep(1000)
        world.pool.mortal("a").resume()
        await root.wait()
        world.workplace.budgets.bookkeeper.settle()
        balance = world.workplace.budgets.ledger.balance("w/a", Kind.SECONDS)
    assert world.known["a"].state is State.DONE
    assert balance.spent is not None
    assert 10 <= balance.spent < 15
