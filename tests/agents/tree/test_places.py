"""Agents that work count towards `parallel`; agents that rest do not."""

from __future__ import annotations

import asyncio

import pytest

from otpy import Process
from otpy_agents.run.host.gate import RunGate
from otpy_agents.testing import Ask, Say, Script
from tests.agents.world import World, agent

LONG = Script(Say(text="x", after=500.0))
LONGER = Script(Say(text="x", after=510.0))
ASKS = Script(Ask(question="Which?"))


def at_work(world: World) -> list[str]:
    """Return the agents whose attempts run now."""
    return sorted(played.agent for played in world.sandbox.alive)


async def test_who_waits_for_a_person_keeps_no_place(world: World) -> None:
    """Two questions do not stop a list; agents with an answer go on in turn, before new ones."""
    text = "[list]\nparallel = 2\n" + "".join(agent(name) for name in "abcde")
    world.sandbox.scripts |= {name: [ASKS, LONG] for name in "ab"}
    world.sandbox.scripts |= {name: [LONG] for name in "ce"}
    world.sandbox.scripts["d"] = [LONGER]  # so that no two places are free at the same moment
    async with world.running(text) as root:
        await asyncio.sleep(20)
        assert at_work(world) == ["c", "d"]
        for name in "ba":
            world.pool.answer(name, "this")
        await asyncio.sleep(20)
        assert at_work(world) == ["c", "d"]
        assert world.pool.mortal("a").state == "waiting_for_input"
        assert [told.id for told in world.told if told.name == "mortal.queued"] == ["b", "a"]
        await asyncio.sleep(500)
        assert at_work(world) == ["a", "b"]
        await root.wait()
    played = [played.agent for played in world.sandbox.played]
    assert (sorted(played[:4]), played[4:]) == ([*"abcd"], ["b", "a", "e"])


async def test_who_is_paused_keeps_no_place(world: World) -> None:
    """The next agent begins, and the resumed one waits for its end."""
    text = "[list]\nparallel = 1\n" + agent("a") + agent("b")
    world.sandbox.scripts |= {name: [LONG] for name in "ab"}
    async with world.running(text) as root:
        await asyncio.sleep(5)
        world.pool.pause("a", "later")
        await asyncio.sleep(20)
        assert at_work(world) == ["b"]
        world.pool.resume("a")
        await asyncio.sleep(20)
        assert at_work(world) == ["b"]
        await root.wait()
    assert {name: one.state.value for name, one in world.known.items()} == {
        "a": "done",
        "b": "done",
    }


async def test_who_rests_when_its_pool_is_killed_keeps_nobody_from_a_place(
    world: World,
) -> None:
    """All are started again, in the order of the list, and the same two rest again."""
    text = "[list]\nparallel = 1\n" + "".join(agent(name) for name in "abc")
    world.sandbox.scripts |= {name: [ASKS, LONG] for name in "ab"}
    world.sandbox.scripts["c"] = [LONG, LONG]
    async with world.running(text) as root:
        await asyncio.sleep(20)
        assert at_work(world) == ["c"]
        child = next(one for one in await root.which_children() if one.id == "MortalPool")
        assert isinstance(child.process, Process)
        child.process.kill()
        await asyncio.sleep(30)
        assert at_work(world) == ["c"]
        for name in "ab":
            world.pool.answer(name, "this")
        await root.wait()
    assert {one.state.value for one in world.known.values()} == {"done"}


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_gate_is_open_to_who_comes_when_nobody_waits(waiting: int) -> None:
    """Room alone is not enough: a waiting agent goes first."""
    gate = RunGate(1)
    assert gate.open
    gate.enter("a", list)
    for number in range(waiting):
        assert not gate.enter(f"waits-{number}", list)
    assert (gate.holds("a"), gate.open) == (True, False)
    gate.leave("a")
    assert gate.open is not bool(waiting)
