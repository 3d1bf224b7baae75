"""Who counts towards `parallel`: who works, and nobody who rests."""

from __future__ import annotations

import asyncio

import pytest

from otpy import Process
from otpy_agents.run.host.gate import Gate
from otpy_agents.testing import Ask, Say, Script
from tests.agents.agent_world import AgentWorld, agent

LONG = Script(Say(text="x", after=500.0))
LONGER = Script(Say(text="x", after=510.0))
ASKS = Script(Ask(question="Which?"))


def at_work(world: AgentWorld) -> list[str]:
    """Return whose attempts run now."""
    return sorted(played.agent for played in world.sandbox.alive)


async def test_who_waits_for_a_person_keeps_no_place(agents: AgentWorld) -> None:
    """Two questions do not stop a list; the answered go on in turn, before what is new."""
    text = "[list]\nparallel = 2\n" + "".join(agent(name) for name in "abcde")
    agents.sandbox.scripts |= {name: [ASKS, LONG] for name in "ab"}
    agents.sandbox.scripts |= {name: [LONG] for name in "ce"}
    agents.sandbox.scripts["d"] = [LONGER]  # so that no two places are free at the same moment
    async with agents.running(text) as root:
        await asyncio.sleep(20)
        assert at_work(agents) == ["c", "d"]
        for name in "ba":
            agents.pool.answer(name, "this")
        await asyncio.sleep(20)
        assert at_work(agents) == ["c", "d"]
        assert agents.pool.mortal("a").state == "waiting_for_input"
        assert [told.id for told in agents.told if told.name == "mortal.queued"] == ["b", "a"]
        await asyncio.sleep(500)
        assert at_work(agents) == ["a", "b"]
        await root.wait()
    played = [played.agent for played in agents.sandbox.played]
    assert (sorted(played[:4]), played[4:]) == ([*"abcd"], ["b", "a", "e"])


async def test_who_is_paused_keeps_no_place(agents: AgentWorld) -> None:
    """The next is begun meanwhile, and whoever goes on waits for its end."""
    text = "[list]\nparallel = 1\n" + agent("a") + agent("b")
    agents.sandbox.scripts |= {name: [LONG] for name in "ab"}
    async with agents.running(text) as root:
        await asyncio.sleep(5)
        agents.pool.pause("a", "later")
        await asyncio.sleep(20)
        assert at_work(agents) == ["b"]
        agents.pool.resume("a")
        await asyncio.sleep(20)
        assert at_work(agents) == ["b"]
        await root.wait()
    assert {name: one.state.value for name, one in agents.known.items()} == {
        "a": "done",
        "b": "done",
    }


async def test_who_rests_when_its_pool_is_killed_keeps_nobody_from_a_place(
    agents: AgentWorld,
) -> None:
    """All are begun again, in the order of the list, and the same two rest again."""
    text = "[list]\nparallel = 1\n" + "".join(agent(name) for name in "abc")
    agents.sandbox.scripts |= {name: [ASKS, LONG] for name in "ab"}
    agents.sandbox.scripts["c"] = [LONG, LONG]
    async with agents.running(text) as root:
        await asyncio.sleep(20)
        assert at_work(agents) == ["c"]
        child = next(one for one in await root.which_children() if one.id == "MortalPool")
        assert isinstance(child.process, Process)
        child.process.kill()
        await asyncio.sleep(30)
        assert at_work(agents) == ["c"]
        for name in "ab":
            agents.pool.answer(name, "this")
        await root.wait()
    assert {one.state.value for one in agents.known.values()} == {"done"}


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_gate_is_open_to_who_comes_when_nobody_waits(waiting: int) -> None:
    """Room alone is not enough: who waits is first."""
    gate = Gate(1)
    assert gate.open
    gate.enter("a", list)
    for number in range(waiting):
        assert not gate.enter(f"waits-{number}", list)
    assert (gate.holds("a"), gate.open) == (True, False)
    gate.leave("a")
    assert gate.open is not bool(waiting)
