"""Agents are told how to ask and where messages are, and no message is lost."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from otpy_agents.agent.order import order_of
from otpy_agents.agent.prompts import ASKING, GUIDE, question_in
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox import Mount
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Do, Fail, Hang, Say, Script, UseTool
from tests.agents.world import World, agent

MESSAGE = "Messages for you:\n- Leave the tests alone."


async def kill(world: World) -> None:
    process = world.pool.process("a")
    assert process is not None
    process.kill()
    await asyncio.sleep(0)


@pytest.mark.parametrize("context", ["fresh", "resume", "resume_with_note"])
async def test_every_prompt_says_how_to_ask_and_where_messages_are(
    world: World, context: str
) -> None:
    """No CLI knows either by itself, and a vendor may have lost the earlier prompt."""
    world.sandbox.scripts["a"] = [Script(Ask(question="Which?")), Script(Fail()), Script()]
    async with world.running(agent("a", context=context, backoff=[1])) as root:
        await world.until(lambda: world.names("a", "operator.asked"))
        world.pool.mortal("a").answer("Blue.")
        await root.wait()
    assert len(world.sandbox.played) == 3
    for played in world.sandbox.played:
        assert played.prompt.count(GUIDE) == 1
    assert ASKING in GUIDE
    assert "OTPY_NOTES" in GUIDE


def test_an_agent_that_repeats_what_it_was_told_has_not_asked() -> None:
    """The prompt holds the words for a question, but not in the form of a question."""
    assert question_in(GUIDE) is None


async def test_a_warning_waits_for_a_prompt_that_is_really_sent(world: World) -> None:
    """A life that takes up a run sends no prompt; the next prompt has the message."""
    world.sandbox.scripts["a"] = [Script(UseTool(lasts=30.0), Fail()), Script()]
    async with world.running(agent("a", backoff=[1])) as root:
        await asyncio.sleep(5)
        world.pool.mortal("a").warn("Leave the tests alone.")
        await kill(world)
        await root.wait()
    assert world.known["a"].state is State.DONE
    _, second = world.sandbox.played
    assert second.prompt.endswith(MESSAGE)
    assert second.prompt.startswith("You were restarted because")


@pytest.mark.parametrize("context", ["fresh", "resume", "resume_with_note"])
async def test_a_warning_survives_its_host(world: World, context: str) -> None:
    """The first prompt under the next host has it, in any context, and no later prompt."""
    text = agent("a", context=context, backoff=[1])
    world.sandbox.scripts["a"] = [Script(Hang()), Script(Fail()), Script()]
    async with world.running(text):
        await asyncio.sleep(5)
        world.pool.mortal("a").warn("Leave the tests alone.")
    await world.run(text)
    _, second, third = world.sandbox.played
    assert second.prompt.endswith(MESSAGE)
    assert "Leave the tests" not in third.prompt


async def test_a_warning_of_one_assignment_is_not_told_to_its_successor(
    world: World,
) -> None:
    """An assignment with the same name and another definition is another agent."""
    world.sandbox.scripts["a"] = [Script(Hang()), Script()]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        world.pool.mortal("a").warn("Leave the tests alone.")
    await world.run(agent("a", prompt="Do other work."))
    assert "Leave the tests" not in world.sandbox.played[1].prompt


async def test_an_answer_is_told_although_the_agent_is_killed_in_between(
    world: World,
) -> None:
    """The person need not answer twice."""
    world.sandbox.scripts["a"] = [Script(Ask(question="Which?")), Script()]
    async with world.running(agent("a", backoff=[1])) as root:
        await world.until(lambda: world.names("a", "operator.asked"))
        world.pool.mortal("a").answer("Blue.")
        await kill(world)
        await root.wait()
    assert "Blue." in world.sandbox.played[-1].prompt


def fifo(cwd: str) -> None:
    os.mkfifo(f"{cwd}/NOTES")


def link(cwd: str) -> None:
    Path(cwd, "NOTES").symlink_to(Path(cwd).parent / "elsewhere")


@pytest.mark.parametrize("trick", [fifo, link])
async def test_notes_are_written_only_into_a_file(world: World, trick: object) -> None:
    """No agent can make the host wait or write elsewhere; the next prompt has the message."""
    action = Do(action=trick)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    world.sandbox.scripts["a"] = [Script(action, Say(text="x", after=9.0), Fail()), Script()]
    async with world.running(agent("a", backoff=[1])) as root:
        await asyncio.sleep(5)
        with pytest.raises(OSError, match="NOTES"):
            world.pool.mortal("a").warn("Leave the tests alone.")
        await root.wait()
    assert world.sandbox.played[1].prompt.endswith(MESSAGE)
    assert not (world.project.desk.folders.root / "elsewhere").exists()


async def test_a_sandbox_shows_the_notes_also_to_who_works_elsewhere(world: World) -> None:
    """The work directory beside the ledger is mounted at the same place, writable."""
    own = Mount(world.folder)
    choice = SandboxChoice(name="scripted", mounts=(own,))
    async with world.running(agent("a"), sandbox=choice) as root:
        (one,) = world.project.assignments
        assert one.agent is not None
        folder = world.project.desk.folders.work("a")
        orders = [
            order_of(world.project.desk, one, one.agent, prompt="x", cwd=cwd, session=None)
            for cwd in (folder, world.folder)
        ]
        assert [order.sandbox.mounts for order in orders] == [
            (own,),
            (own, Mount(folder, writable=True)),
        ]
        await root.wait()
