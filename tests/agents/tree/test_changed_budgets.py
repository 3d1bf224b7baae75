"""Budgets over several hosts, with a list that a person has changed in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.errors import LedgerError
from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Script, Spend, UseTool
from otpy_monitors import Kind, load_ledger
from tests.agents.world import World, agent, typed

SPENDS = Script(Spend(input=300), UseTool(), Hang())


def said(world: World, id: str = "a") -> list[str]:
    """Return the notes about budgets, and forget them."""
    found = [
        f"{one.name.removeprefix('budget.')}: {one.detail['detail']}"
        for one in world.told
        if one.id == id and one.name in {"budget.changed", "budget.carried_over"}
    ]
    world.told.clear()
    return found


def limit(world: World, account: str = "w/a") -> float | None:
    return world.workplace.budgets.ledger.balance(account, Kind.TOKENS).allocated


async def test_a_lower_limit_of_the_list_holds(world: World) -> None:
    """Its agent rests at once if it has spent that before, and both facts are told."""
    world.sandbox.scripts["a"] = [SPENDS, Script()]
    async with world.running(agent("a", tokens=500)):
        await asyncio.sleep(10)
    assert said(world) == []
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_input"
        assert limit(world) == 200
    assert said(world) == [
        "changed: tokens: 200 from now on, 500 before",
        "carried_over: 300 of 200 tokens spent before",
    ]
    assert len(world.sandbox.played) == 1


async def test_a_limit_that_left_the_list_stops_nobody(world: World) -> None:
    """This includes the limit of all agents together."""
    world.sandbox.scripts["a"] = [SPENDS, Script()]
    async with world.running("[list]\ntokens = 250\n" + agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_input"
    said(world)
    known = await world.run(agent("a"))
    assert known["a"].state is State.DONE
    list_said = [one for one in world.told if one.id == "list" and one.name == "budget.changed"]
    assert [one.detail["detail"] for one in list_said] == [
        "tokens: no limit from now on, 250 before"
    ]
    assert said(world) == ["changed: tokens: no limit from now on, 200 before"]


async def test_a_limit_may_be_added_to_the_list(world: World) -> None:
    """The usage from before the limit counts."""
    world.sandbox.scripts["a"] = [SPENDS, Script()]
    async with world.running(agent("a")):
        await asyncio.sleep(10)
    assert said(world) == []
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_input"
    assert said(world) == [
        "changed: tokens: 200 from now on, no limit before",
        "carried_over: 300 of 200 tokens spent before",
    ]


async def test_a_grant_holds_until_the_list_says_something_else(world: World) -> None:
    """The same number leaves it alone; another number takes its place."""
    world.sandbox.scripts["a"] = [SPENDS, Script(Hang())]
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
        world.project.grant("a", Kind.TOKENS, 1000)
        await asyncio.sleep(1)
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(1)
        assert limit(world) == 1200
    assert said(world) == ["carried_over: 300 of 1200 tokens spent before"]
    async with world.running(agent("a", tokens=400)):
        await asyncio.sleep(1)
        assert limit(world) == 400
    assert said(world) == [
        "changed: tokens: 400 from now on, 1200 before, of which 1000 were granted",
        "carried_over: 300 of 400 tokens spent before",
    ]


async def test_what_follows_a_spent_budget_is_what_the_list_says_now(world: World) -> None:
    """After a change from `escalate` to `warn` no grant is needed."""
    world.sandbox.scripts["a"] = [SPENDS, Script()]
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(10)
    known = await world.run(agent("a", tokens=200, on_exceed="warn"))
    assert known["a"].state is State.DONE
    assert said(world) == ["carried_over: 300 of 200 tokens spent before"]


async def kept(world: World) -> tuple[float | None, float]:
    """Return the limit and the usage as a host would find them after `kill -9` at this moment."""
    ledger = await load_ledger(BudgetDocument(world.ledger.agents))
    balance = ledger.balance("w/a", Kind.TOKENS)
    return balance.allocated, balance.known


async def test_what_is_spent_is_on_disk_before_it_is_known_to_rest(world: World) -> None:
    """A host that is killed then, seconds after its start, does not lose the usage."""
    world.sandbox.scripts["a"] = [Script(Spend(input=300, after=1.0), UseTool(), Hang())]
    async with world.running(agent("a", tokens=200)):
        async with asyncio.timeout(4):
            rows = world.ledger.agents
            while [one.state for one in await rows.all()] != ["waiting_for_input"]:  # noqa: ASYNC110 - as a host that is begun then
                await asyncio.sleep(0.001)
        assert await kept(world) == (200, 300)


async def test_a_grant_is_on_disk_before_it_is_answered(world: World) -> None:
    """The operator can rely on the answer."""
    world.sandbox.scripts["a"] = [Script(Spend(input=300, after=1.0), UseTool(), Hang())]
    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(3)
        await typed(world, "grant", agent="a", tokens=1000)
        assert await kept(world) == (1200, 300)


async def test_a_grant_that_cannot_be_written_down_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds all the same, and is tried again."""
    world.sandbox.scripts["a"] = [SPENDS, Script(Hang())]

    async def full(_document: BudgetDocument, _plain: object) -> None:
        raise LedgerError(Path("w.sqlite"), "the disk is full")

    async with world.running(agent("a", tokens=200)):
        await asyncio.sleep(3)
        with monkeypatch.context() as broken:
            broken.setattr(BudgetDocument, "save", full)
            said = await typed(world, "grant", agent="a", tokens=1000)
        assert said == "1000 tokens more (900 left); not on disk yet: w.sqlite: the disk is full"
        await asyncio.sleep(20)
        assert await kept(world) == (1200, 300)
