"""Agents that rest for several reasons at once: each reason is ended by its own cure."""

from __future__ import annotations

import asyncio

import pytest

from otpy import Process
from otpy_agents.agent.pause import Cure
from otpy_agents.errors import CommandRefused
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Hang, Script, Spend, UseTool
from otpy_monitors import Kind
from tests.agents.world import World, agent, typed


async def test_a_budget_that_ends_during_a_pause_still_needs_a_grant(world: World) -> None:
    """`resume` ends only the operator's pause, and names the next command to type (C-12)."""
    world.sandbox.scripts = {
        "a": [Script(UseTool(lasts=20.0), Hang()), Script()],
        "b": [Script(Spend(input=500, after=10.0))],
    }
    text = "[list]\ntokens = 200\n" + agent("a", restarts=0) + agent("b")
    async with world.running(text) as root:
        await asyncio.sleep(5)
        assert await typed(world, "pause", agent="a") == "will rest at the next boundary of a turn"
        await asyncio.sleep(60)
        a = world.pool.mortal("a")
        assert (a.state, a.paused and a.paused.by) == ("waiting_for_wakeup", "operator")
        said = str(await typed(world, "resume", agent="a"))
        assert "stays paused" in said
        assert "budget of 'w' spent" in said
        assert "`otpy-agents budget grant w --tokens N`" in said
        await asyncio.sleep(60)
        assert (a.state, a.paused and a.paused.by) == ("waiting_for_input", "budget")
        assert len(world.sandbox.of("a")) == 1
        with pytest.raises(CommandRefused, match="grant it more: `otpy-agents budget grant w "):
            await typed(world, "resume", agent="a")
        assert world.names("a")[-1] == "mortal.paused"
        await typed(world, "grant", agent="w", tokens=1000)
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    assert len(world.sandbox.of("a")) == 2


async def test_a_resumed_agent_looks_at_its_budget_once_more(world: World) -> None:
    """The check needs no report: the monitor was dead when others spent the shared budget."""
    world.sandbox.scripts = {
        "a": [Script(UseTool(), Hang()), Script()],
        "b": [Script(Spend(input=500, after=20.0), Hang())],
    }
    text = "[list]\ntokens = 200\n" + agent("a") + agent("b")
    async with world.running(text):
        await asyncio.sleep(5)
        await typed(world, "pause", agent="a")
        await asyncio.sleep(60)
        a = world.pool.posts["a"]
        a.go_on(Cure.GRANT)  # as if the end of the budget had never been told
        a.go_on()
        await asyncio.sleep(60)
        assert a.pause is not None
        assert (a.agent.state, a.pause.by) == ("waiting_for_input", "budget")
        assert len(world.sandbox.of("a")) == 1


async def test_who_is_resumed_while_its_pool_is_dead_works_when_it_is_begun_again(
    world: World,
) -> None:
    """The agent is not held back: its state becomes `working`, and at the end `done`."""
    world.sandbox.scripts["a"] = [Script(UseTool(), Hang()), Script(UseTool(lasts=50.0))]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        await typed(world, "pause", agent="a")
        await asyncio.sleep(20)
        assert world.pool.mortal("a").state == "waiting_for_wakeup"
        child = next(one for one in await root.which_children() if one.id == "MortalPool")
        assert isinstance(child.process, Process)
        child.process.kill()
        world.pool.posts["a"].go_on()
        await asyncio.sleep(20)
        assert world.pool.mortal("a").state == "working"
        await root.wait()
    assert world.known["a"].state is State.DONE
    assert world.states("a")[-1] == "done"


async def test_a_question_needs_an_answer_and_nothing_else_will_do(world: World) -> None:
    """`resume` does not replace the answer, not even together with an operator's pause."""
    world.sandbox.scripts["a"] = [Script(Ask(question="Which port?")), Script()]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(10)
        with pytest.raises(CommandRefused, match="`otpy-agents answer a TEXT`"):
            await typed(world, "resume", agent="a")
        await typed(world, "pause", agent="a")
        assert "`otpy-agents answer a TEXT`" in str(await typed(world, "resume", agent="a"))
        await typed(world, "pause", agent="a")
        said = str(await typed(world, "answer", agent="a", text="8080"))
        assert "`otpy-agents resume a`" in said
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_wakeup"
        assert await typed(world, "resume", agent="a") == "goes on"
        await root.wait()
    assert "8080" in world.sandbox.played[1].prompt


async def test_a_grant_leaves_the_pause_of_an_operator(world: World) -> None:
    """A grant of budget does not decide when work goes on."""
    world.sandbox.scripts["a"] = [Script(Spend(input=500), UseTool(), Hang()), Script()]
    async with world.running(agent("a", tokens=200)) as root:
        await asyncio.sleep(10)
        world.pool.pause("a", "lunch")
        world.project.grant("a", Kind.TOKENS, 1000)
        await asyncio.sleep(10)
        a = world.pool.mortal("a")
        assert (a.state, len(world.sandbox.played)) == ("waiting_for_wakeup", 1)
        a.resume()
        await root.wait()
    assert world.known["a"].state is State.DONE
