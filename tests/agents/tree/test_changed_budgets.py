"""Budgets over several hosts, with a list that a person has changed in between."""

from __future__ import annotations

import asyncio

from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Script, Spend, UseTool
from otpy_monitors import Kind
from tests.agents.tree.agent_world import AgentWorld, agent

SPENDS = Script(Spend(input=300), UseTool(), Hang())


def said(agents: AgentWorld, id: str = "a") -> list[str]:
    """Return what was said of budgets, and forget it."""
    found = [
        f"{one.name.removeprefix('budget.')}: {one.detail['detail']}"
        for one in agents.told
        if one.id == id and one.name in {"budget.changed", "budget.carried_over"}
    ]
    agents.told.clear()
    return found


def limit(agents: AgentWorld, account: str = "w/a") -> float | None:
    return agents.workplace.budgets.ledger.balance(account, Kind.TOKENS).allocated


async def test_a_lower_limit_of_the_list_holds(agents: AgentWorld) -> None:
    """Its agent rests at once if it has spent that before, and both are said."""
    agents.sandbox.scripts["a"] = [SPENDS, Script()]
    async with agents.running(agent("a", tokens=500)):
        await asyncio.sleep(10)
    assert said(agents) == []
    async with agents.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert agents.pool.mortal("a").state == "waiting_for_input"
        assert limit(agents) == 200
    assert said(agents) == [
        "changed: tokens: 200 from now on, 500 before",
        "carried_over: 300 of 200 tokens spent before",
    ]
    assert len(agents.sandbox.played) == 1


async def test_a_limit_that_left_the_list_stops_nobody(agents: AgentWorld) -> None:
    """Also one of all agents together."""
    agents.sandbox.scripts["a"] = [SPENDS, Script()]
    async with agents.running("[list]\ntokens = 250\n" + agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert agents.pool.mortal("a").state == "waiting_for_input"
    said(agents)
    known = await agents.run(agent("a"))
    assert known["a"].state is State.DONE
    list_said = [one for one in agents.told if one.id == "list" and one.name == "budget.changed"]
    assert [one.detail["detail"] for one in list_said] == [
        "tokens: no limit from now on, 250 before"
    ]
    assert said(agents) == ["changed: tokens: no limit from now on, 200 before"]


async def test_a_limit_may_be_added_to_the_list(agents: AgentWorld) -> None:
    """What was spent without one counts."""
    agents.sandbox.scripts["a"] = [SPENDS, Script()]
    async with agents.running(agent("a")):
        await asyncio.sleep(10)
    assert said(agents) == []
    async with agents.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert agents.pool.mortal("a").state == "waiting_for_input"
    assert said(agents) == [
        "changed: tokens: 200 from now on, no limit before",
        "carried_over: 300 of 200 tokens spent before",
    ]


async def test_a_grant_holds_until_the_list_says_something_else(agents: AgentWorld) -> None:
    """The same number leaves it alone, another takes its place."""
    agents.sandbox.scripts["a"] = [SPENDS, Script(Hang())]
    async with agents.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        agents.project.grant("a", Kind.TOKENS, 1000)
        await asyncio.sleep(1)
    async with agents.running(agent("a", tokens=200)):
        await asyncio.sleep(1)
        assert limit(agents) == 1200
    assert said(agents) == ["carried_over: 300 of 1200 tokens spent before"]
    async with agents.running(agent("a", tokens=400)):
        await asyncio.sleep(1)
        assert limit(agents) == 400
    assert said(agents) == [
        "changed: tokens: 400 from now on, 1200 before, of which 1000 were granted",
        "carried_over: 300 of 400 tokens spent before",
    ]


async def test_what_follows_a_spent_budget_is_what_the_list_says_now(agents: AgentWorld) -> None:
    """From `escalate` to `warn`: nobody has to grant anything any more."""
    agents.sandbox.scripts["a"] = [SPENDS, Script()]
    async with agents.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
    known = await agents.run(agent("a", tokens=200, on_exceed="warn"))
    assert known["a"].state is State.DONE
    assert said(agents) == ["carried_over: 300 of 200 tokens spent before"]
