"""`retry`: an assignment that was given up begins again, with its session, counting from zero."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.errors import AgentRefused, CommandRefused
from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Fail, Hang, Say, Script, UseTool
from otpy_monitors import Kind
from tests.agents.world import World, agent, assignment, program, typed, work

HOPELESS = Fail(detail=Detail.UNKNOWN)
LASTS = agent("other")


def scripts(*of_a: Script) -> dict[str, list[Script]]:
    return {"a": list(of_a), "other": [Script(UseTool(), Hang())]}


async def test_an_agent_that_was_reaped_goes_on_in_its_session(world: World) -> None:
    """In a running tree it begins at once, with no failure counted, and its end is told again."""
    world.sandbox.scripts = scripts(Script(Say(text="so far"), HOPELESS), Script())
    async with world.running(agent("a") + LASTS):
        await world.until(lambda: world.pool.courses.outcome("a"))
        assert world.names("a")[-1] == "mortal.reaped"
        assert await typed(world, "retry", agent="a") == "begins again"
        await world.until(lambda: world.pool.courses.outcome("a"))
        assert world.names("a")[-1] == "mortal.done"
    first, second = world.sandbox.of("a")
    assert second.session == first.own_session
    assert world.known["a"].state is State.DONE
    assert world.names("a", "agent.retried") == ["agent.retried"]


async def test_one_that_an_earlier_host_has_reaped_begins_too(world: World) -> None:
    """Only the ledger knows it; its earlier failures no longer count."""
    world.sandbox.scripts = scripts(Script(HOPELESS), Script())
    async with world.running(agent("a") + LASTS):
        await world.until(lambda: world.pool.courses.outcome("a"))
    async with world.running(agent("a") + LASTS):
        await asyncio.sleep(5.0)
        assert len(world.sandbox.of("a")) == 1
        await typed(world, "retry", agent="a")
        await world.until(lambda: world.pool.courses.outcome("a"))
    assert world.known["a"].state is State.DONE


async def test_one_that_fails_again_is_reaped_again(world: World) -> None:
    """It may be retried once more."""
    world.sandbox.scripts = scripts(Script(HOPELESS), Script(HOPELESS), Script())
    async with world.running(agent("a") + LASTS):
        for _ in range(2):
            await world.until(lambda: world.pool.courses.outcome("a"))
            outcome = world.pool.mortal("a").outcome
            assert outcome is not None
            assert outcome.state is State.REAPED
            await typed(world, "retry", agent="a")
        await world.until(lambda: world.pool.courses.outcome("a"))
    assert world.known["a"].state is State.DONE


async def test_a_program_has_all_its_restarts_again(world: World) -> None:
    """Its window begins with the retry; its attempts stay counted."""
    world.sandbox.scripts = {
        "a": [program(code=1)] * 3 + [program()],
        "b": [program(seconds=500.0)],
    }
    async with world.running(work(assignment("a", restarts=1, backoff=[1]), assignment("b"))):
        await asyncio.sleep(50.0)
        assert world.times()["a"] == 2
        await world.project.retry("a")
        await asyncio.sleep(50.0)
        assert world.times()["a"] == 4
    assert world.known["a"].state is State.DONE
    assert world.known["a"].attempts == 4


async def test_who_was_not_given_up_is_not_retried(world: World) -> None:
    """The refusal says in which state it is, and nothing is begun twice."""
    world.sandbox.scripts = scripts(Script())
    async with world.running(agent("a") + LASTS):
        await world.until(lambda: world.pool.courses.outcome("a"))
        with pytest.raises(CommandRefused, match="it is done, and was not given up"):
            await typed(world, "retry", agent="a")
        with pytest.raises(CommandRefused, match="it is at work"):
            await typed(world, "retry", agent="other")
        with pytest.raises(CommandRefused, match="did you mean"):
            await typed(world, "retry", agent="othr")
        await asyncio.sleep(10.0)
        assert len(world.sandbox.of("a")) == 1


async def test_no_program_is_retried_whose_budget_is_spent(world: World) -> None:
    """It would be reaped at once; after a grant it begins again, and may spend the grant."""
    world.sandbox.scripts = {"a": [program(seconds=500.0)], "b": [program(seconds=500.0)]}
    async with world.running(work(assignment("a", wall_seconds=3), assignment("b"))):
        await asyncio.sleep(5.0)
        with pytest.raises(AgentRefused, match="budget of 'w/a' spent: 3 of 3 seconds"):
            await world.project.retry("a")
        world.project.grant("a", Kind.SECONDS, 2)
        await world.project.retry("a")
        await asyncio.sleep(5.0)
        assert [(one.began, one.ended) for one in world.lives if one.id == "a"] == [(0, 3), (5, 7)]
