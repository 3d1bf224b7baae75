"""A pause outlives its host: the next one goes on with it, until its own cure."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from otpy_agents.errors import AgentRefused, PreflightFailed
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AgentRow, State
from otpy_agents.store.sessions import FileSessions
from otpy_agents.testing import Ask, Hang, Script, UseTool
from tests.agents.world import World, agent, assignment, program, typed, work

ASKS = agent("a")
PROGRAM = work(assignment("a"))


async def kept(world: World) -> tuple[AgentRow, ...]:
    """Return what the ledger keeps of each agent."""
    async with Ledger(world.ledger.path) as ledger:
        return await ledger.agents.all()


async def test_a_program_that_an_operator_paused_is_not_started_by_the_next_host(
    world: World,
) -> None:
    """It rests before its next life, which says so; it begins when it is resumed."""
    world.sandbox.scripts["a"] = [program(seconds=60.0), program()]
    async with world.running(PROGRAM):
        await asyncio.sleep(5.0)
        world.pool.pause("a", "lunch")
        await asyncio.sleep(5.0)
    world.forget()
    async with world.running(PROGRAM) as root:
        await asyncio.sleep(100.0)
        assert world.lives == []
        assert world.pool.mortal("a").state == "waiting_for_wakeup"
        assert world.event("mortal.paused").detail["detail"] == "lunch"
        assert world.pool.resume("a") is None
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_an_agent_that_an_operator_paused_rests_under_the_next_host(world: World) -> None:
    """This holds though its host was ended before it came to the boundary of a turn."""
    world.sandbox.scripts["a"] = [Script(UseTool(lasts=500.0)), Script()]
    async with world.running(ASKS):
        await asyncio.sleep(5.0)
        world.pool.pause("a", "lunch")
        await asyncio.sleep(5.0)
    world.forget()
    async with world.running(ASKS) as root:
        await asyncio.sleep(100.0)
        assert world.sandbox.played == []
        assert world.pool.mortal("a").state == "waiting_for_wakeup"
        world.pool.resume("a")
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_a_question_stays_asked_and_is_not_paid_for_twice(world: World) -> None:
    """The next host tells it again, and begins nothing; the answer resumes the session."""
    world.project_settings["sessions"] = FileSessions(world.folder / "sessions")
    world.sandbox.scripts["a"] = [Script(Ask(question="Which port?"))]
    async with world.running(ASKS):
        await asyncio.sleep(10.0)
    (asked,) = world.sandbox.played
    world.forget()
    world.sandbox.scripts["a"] = [Script()]
    async with world.running(ASKS) as root:
        await asyncio.sleep(100.0)
        assert world.sandbox.played == []
        assert world.event("operator.asked").detail["question"] == "Which port?"
        a = world.pool.mortal("a")
        assert (a.state, a.paused and a.paused.by) == ("waiting_for_input", "question")
        with pytest.raises(AgentRefused, match="answer a TEXT"):
            a.resume()
        await typed(world, "answer", agent="a", text="8080")
        await root.wait()
    (answered,) = world.sandbox.played
    assert "8080" in answered.prompt
    assert answered.session == asked.own_session
    assert world.known["a"].state is State.DONE


async def test_an_answer_that_was_not_delivered_is_kept(world: World) -> None:
    """The host ends while the agent is paused for another cause; no question is asked twice."""
    world.sandbox.scripts["a"] = [Script(Ask(question="Which port?"))]
    async with world.running(ASKS):
        await asyncio.sleep(10.0)
        world.pool.pause("a", "lunch")
        await typed(world, "answer", agent="a", text="8080")
        await asyncio.sleep(1.0)
    world.forget()
    world.sandbox.scripts["a"] = [Script(Hang())]
    async with world.running(ASKS):
        await asyncio.sleep(10.0)
        world.pool.resume("a")
        await asyncio.sleep(10.0)
    (answered,) = world.sandbox.played
    assert "8080" in answered.prompt
    (row,) = await kept(world)
    assert (row.pauses, row.reply) == ((), "")


async def test_who_is_retried_rests_no_longer(world: World) -> None:
    """One that was reaped while it was paused begins at once when it is retried."""
    world.sandbox.scripts["a"] = [program(seconds=60.0), program()]
    async with world.running(PROGRAM) as root:
        await asyncio.sleep(5.0)
        world.pool.pause("a", "lunch")
        await asyncio.sleep(5.0)
        world.pool.reap("a", "enough")
        await root.wait()
        assert await world.ledger.retry("a")
    async with world.running(PROGRAM) as root:
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_a_refused_spawn_forgets_no_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is spawned once more, when nothing speaks against it, still waits for the answer."""
    asks = Script(Ask(question="Which port?"))
    world.sandbox.scripts = {"a": [Script(Hang()), Script(Hang())], "b": [asks]}
    monkeypatch.setenv("PORT", "1")
    async with world.running(ASKS):
        await asyncio.sleep(5.0)
        added = evolve(world.project.assignments[0], id="b", needs_env=("PORT",))
        await world.pool.spawn(added)
        await asyncio.sleep(10.0)
    world.forget()
    monkeypatch.delenv("PORT")
    async with world.running(ASKS):
        await asyncio.sleep(5.0)
        with pytest.raises(PreflightFailed):
            await world.pool.spawn(added)
        monkeypatch.setenv("PORT", "1")
        b = await world.pool.spawn(added)
        await asyncio.sleep(10.0)
        assert (b.state, b.paused and b.paused.by) == ("waiting_for_input", "question")
        assert [one.agent for one in world.sandbox.played] == ["a"]
