"""Chaos among agents: attempts die all the time, and every assignment is accounted for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from otpy_agents.store.records import State
from otpy_agents.testing import Script, Succeed
from tests.agents.world import World, agent

NAMES = [f"n{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def _same_chances() -> None:
    """Kill the same ones in each run of the test."""
    random.seed(7)


async def test_attempts_die_and_every_agent_comes_to_its_end(world: World) -> None:
    """A killed attempt is a crash like any other: the run, then the agent, is started again."""
    for name in NAMES:
        world.sandbox.scripts[name] = [Script(Succeed(after=2.0))]
    text = "".join(agent(name, restarts=99, backoff=[0]) for name in NAMES)
    async with world.running(text, chaos=1.0) as root:
        await root.wait()
    assert {record.state for record in world.records} == {State.DONE}
    killed = [told for told in world.told if told.name == "chaos.killed"]
    dead = [one for one in world.sandbox.played if one.exit_code == 137]
    assert len(killed) == len(dead) > 3
    assert {told.id for told in killed} <= set(NAMES)
    assert all(told.detail["run"] for told in killed)
    assert len(world.sandbox.played) == len(NAMES) + len(dead)


@pytest.mark.real_time
async def test_an_attempt_that_is_a_process_is_killed_too(world: World, tmp_path: Path) -> None:
    """SIGKILL ends it; its next life succeeds."""
    marks = tmp_path / "lives"
    script = f"""echo x >> {marks}; test $(wc -l < {marks}) -ge 2 || sleep 99; echo done"""
    text = agent("a", restarts=9, backoff=[0]).replace('["agent"]', f'["sh", "-c", "{script}"]')
    async with world.running(text, chaos=5.0, sandbox=None) as root:
        await root.wait()
    assert world.known["a"].state is State.DONE
    assert any(told.name == "chaos.killed" for told in world.told)
    assert len(marks.read_text().splitlines()) > 1
