"""A stall of an agent is silence, but not the silence of a working tool."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from otpy_agents.agent.order import order_of
from otpy_agents.run import Detail
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.store.records import State
from otpy_agents.testing import Crash, Fail, Hang, Say, Script, UseTool, Write
from otpy_agents.testing.script import line_of
from tests.agents.world import QUICK, World, agent


def stalls(world: World) -> list[tuple[str, float]]:
    return [(one.name, one.at) for one in world.told if one.name.startswith("monitor.stall")]


async def test_a_call_of_a_tool_that_takes_minutes_is_no_stall(world: World) -> None:
    """No declaration is needed for that: the agent waits for its tool (TREE-30)."""
    world.sandbox.scripts["a"] = [Script(UseTool(name="Bash", lasts=590.0))]
    known = await world.run(agent("a", stall=2))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert stalls(world) == []


@pytest.mark.parametrize(
    ("whole", "own", "tool", "limit"),
    [
        ("", "", "Bash", 600.0),
        ("", "{ Bash = 60 }", "Bash", 60.0),
        ("", "{ Bash = 60 }", "Read", 600.0),
        ("", '{ "*" = 40, Bash = 60 }', "Read", 40.0),
        ("{ Bash = 90 }", "", "Bash", 90.0),
        ('{ Bash = 90, "*" = 50 }', "{ Bash = 60 }", "Bash", 60.0),
        ('{ Bash = 90, "*" = 50 }', "{ Bash = 60 }", "Read", 50.0),
    ],
)
async def test_a_call_excuses_silence_for_as_long_as_its_tool_may_take(
    world: World, whole: str, own: str, tool: str, limit: float
) -> None:
    """The agent's limit for a tool precedes the list's; `*` stands for all others (TREE-30)."""
    world.sandbox.scripts["a"] = [Script(UseTool(name=tool, lasts=9999.0)), Script()]
    text = agent("a", stall=10, backoff=[1]) + (f"long_tools = {own}\n" if own else "")
    known = await world.run(f"{text}[list]\n" + (f"long_tools = {whole}\n" if whole else ""))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    first, _ = world.sandbox.played
    assert (first.ended or 0) - first.began == pytest.approx(1 + limit, abs=0.5)


async def test_a_stall_warns_first_without_being_told_to(world: World) -> None:
    """A warning comes after four fifths of the time; a person may check before the life ends."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Hang()), Script()]
    await world.run(agent("a", stall=30, backoff=[1]))
    (warned, stalled) = stalls(world)
    assert (warned[0], stalled[0]) == ("monitor.stall_warning", "monitor.stalled")
    assert stalled[1] - warned[1] == pytest.approx(6, abs=0.5)


async def test_a_call_ends_with_its_attempt(world: World) -> None:
    """An open call of an earlier attempt does not excuse the silence of the next one."""
    begun = Write(text=line_of(type="tool", id="c", name="Bash"))
    world.sandbox.scripts["a"] = [Script(begun, Crash()), Script(Say(text="x"), Hang()), Script()]
    policy = evolve(QUICK, max_retries=1, backoff_base=1.0)
    known = await world.run(agent("a", stall=10, backoff=[1]), policy=policy)
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    second = world.sandbox.played[1]
    assert (second.ended or 0) - second.began == pytest.approx(11, abs=0.5)


async def test_its_runs_end_no_attempt_for_silence(world: World) -> None:
    """The health monitor alone judges stalls: it knows tools and waits (C-01)."""
    async with world.running(agent("a", stall=2)) as root:
        (one,) = world.project.assignments
        assert one.agent is not None
        order = order_of(
            world.project.desk, one, one.agent, prompt="x", cwd=world.folder, session=None
        )
        assert order.liveness == Liveness()
        await root.wait()


@pytest.mark.parametrize(
    "script",
    [
        Script(UseTool(name="Bash", lasts=100.0)),
        Script(Fail(detail=Detail.RATE_LIMIT)),
    ],
    ids=["tool", "limit"],
)
async def test_a_new_life_knows_what_the_run_it_takes_up_waits_for(
    world: World, script: Script
) -> None:
    """Its mortal was killed in the middle of a tool or a limit, and the agent has not noticed."""
    world.sandbox.scripts["a"] = [script, Script()]
    async with world.running(agent("a", stall=10, backoff=[1])) as root:
        await asyncio.sleep(5)
        process = world.pool.process("a")
        assert process is not None
        process.kill()
        await root.wait()
    assert (world.known["a"].state, world.known["a"].restarts) == (State.DONE, 1)
    assert stalls(world) == []
