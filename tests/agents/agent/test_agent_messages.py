"""What agents are told about asking and about messages, and that no message is lost."""

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
from tests.agents.agent_world import AgentWorld, agent

MESSAGE = "Messages for you:\n- Leave the tests alone."


async def kill(agents: AgentWorld) -> None:
    process = agents.pool.process("a")
    assert process is not None
    process.kill()
    await asyncio.sleep(0)


@pytest.mark.parametrize("context", ["fresh", "resume", "resume_with_note"])
async def test_every_prompt_says_how_to_ask_and_where_messages_are(
    agents: AgentWorld, context: str
) -> None:
    """No CLI knows of either by itself, and a vendor may have lost what it was told before."""
    agents.sandbox.scripts["a"] = [Script(Ask(question="Which?")), Script(Fail()), Script()]
    async with agents.running(agent("a", context=context, backoff=[1])) as root:
        await agents.until(lambda: agents.names("a", "operator.asked"))
        agents.pool.mortal("a").answer("Blue.")
        await root.wait()
    assert len(agents.sandbox.played) == 3
    for played in agents.sandbox.played:
        assert played.prompt.count(GUIDE) == 1
    assert ASKING in GUIDE
    assert "OTPY_NOTES" in GUIDE


def test_an_agent_that_repeats_what_it_was_told_has_not_asked() -> None:
    """The words by which one asks stand in the prompt, but not as one would ask."""
    assert question_in(GUIDE) is None


async def test_a_warning_waits_for_a_prompt_that_is_really_sent(agents: AgentWorld) -> None:
    """A life that takes up a run sends none; the message is in the next one that is."""
    agents.sandbox.scripts["a"] = [Script(UseTool(lasts=30.0), Fail()), Script()]
    async with agents.running(agent("a", backoff=[1])) as root:
        await asyncio.sleep(5)
        agents.pool.mortal("a").warn("Leave the tests alone.")
        await kill(agents)
        await root.wait()
    assert agents.known["a"].state is State.DONE
    _, second = agents.sandbox.played
    assert second.prompt.endswith(MESSAGE)
    assert second.prompt.startswith("You were restarted because")


@pytest.mark.parametrize("context", ["fresh", "resume", "resume_with_note"])
async def test_a_warning_survives_its_host(agents: AgentWorld, context: str) -> None:
    """It is in the first prompt under the next one, whatever else that says, and only there."""
    text = agent("a", context=context, backoff=[1])
    agents.sandbox.scripts["a"] = [Script(Hang()), Script(Fail()), Script()]
    async with agents.running(text):
        await asyncio.sleep(5)
        agents.pool.mortal("a").warn("Leave the tests alone.")
    await agents.run(text)
    _, second, third = agents.sandbox.played
    assert second.prompt.endswith(MESSAGE)
    assert "Leave the tests" not in third.prompt


async def test_a_warning_of_one_assignment_is_not_told_to_its_successor(
    agents: AgentWorld,
) -> None:
    """What has the same name and another definition is another agent."""
    agents.sandbox.scripts["a"] = [Script(Hang()), Script()]
    async with agents.running(agent("a")):
        await asyncio.sleep(5)
        agents.pool.mortal("a").warn("Leave the tests alone.")
    await agents.run(agent("a", prompt="Do other work."))
    assert "Leave the tests" not in agents.sandbox.played[1].prompt


async def test_an_answer_is_told_although_the_agent_is_killed_in_between(
    agents: AgentWorld,
) -> None:
    """A person does not answer twice."""
    agents.sandbox.scripts["a"] = [Script(Ask(question="Which?")), Script()]
    async with agents.running(agent("a", backoff=[1])) as root:
        await agents.until(lambda: agents.names("a", "operator.asked"))
        agents.pool.mortal("a").answer("Blue.")
        await kill(agents)
        await root.wait()
    assert "Blue." in agents.sandbox.played[-1].prompt


def fifo(cwd: str) -> None:
    os.mkfifo(f"{cwd}/NOTES")


def link(cwd: str) -> None:
    Path(cwd, "NOTES").symlink_to(Path(cwd).parent / "elsewhere")


@pytest.mark.parametrize("trick", [fifo, link])
async def test_notes_are_written_only_into_a_file(agents: AgentWorld, trick: object) -> None:
    """No agent gets the host to wait, or to write elsewhere; the next prompt has the message."""
    action = Do(action=trick)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    agents.sandbox.scripts["a"] = [Script(action, Say(text="x", after=9.0), Fail()), Script()]
    async with agents.running(agent("a", backoff=[1])) as root:
        await asyncio.sleep(5)
        with pytest.raises(OSError, match="NOTES"):
            agents.pool.mortal("a").warn("Leave the tests alone.")
        await root.wait()
    assert agents.sandbox.played[1].prompt.endswith(MESSAGE)
    assert not (agents.project.desk.folders.root / "elsewhere").exists()


async def test_a_sandbox_shows_the_notes_also_to_who_works_elsewhere(agents: AgentWorld) -> None:
    """The work directory beside the ledger is seen at the same place, and may be written."""
    own = Mount(agents.folder)
    choice = SandboxChoice(name="scripted", mounts=(own,))
    async with agents.running(agent("a"), sandbox=choice) as root:
        (one,) = agents.project.assignments
        assert one.agent is not None
        folder = agents.project.desk.folders.work("a")
        orders = [
            order_of(agents.project.desk, one, one.agent, prompt="x", cwd=cwd, session=None)
            for cwd in (folder, agents.folder)
        ]
        assert [order.sandbox.mounts for order in orders] == [
            (own,),
            (own, Mount(folder, writable=True)),
        ]
        await root.wait()
