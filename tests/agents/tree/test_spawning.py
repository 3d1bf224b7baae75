"""The pool from outside: spawning, names, preflight, handles, restarts that are not wanted."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from attrs import evolve

from otpy.errors import MaxChildren
from otpy.reports import ChildRestarting
from otpy_agents.errors import (
    AgentNotFound,
    AgentRefused,
    NameAlreadyExists,
    PreflightFailed,
)
from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Fail, Hang, Say, Script
from otpy_agents.worklist.assignment import Assignment
from otpy_agents.worklist.start_rate import StartRate
from tests.agents.agent_world import AgentWorld, agent

BUSY = Script(Say(text="x", after=500.0))


def named(world: AgentWorld, name: str) -> Assignment:
    """Return the first assignment of the list under another name."""
    return evolve(world.project.assignments[0], id=name)


async def test_whoever_spawns_gets_a_handle(agents: AgentWorld) -> None:
    """What is spawned need not be listed; its end is waited for, and it is written down."""
    agents.sandbox.scripts["a"] = [BUSY]
    async with agents.running(agent("a")) as root:
        await asyncio.sleep(5)
        mortal = await agents.pool.spawn(named(agents, "more"))
        assert (mortal.name, mortal.state, mortal.restarts) == ("more", "working", 0)
        ending = await mortal.wait()
        assert (ending.state, mortal.state) == (State.DONE, "done")
        assert mortal.outcome == ending
        assert [one.name for one in agents.pool.mortals()] == ["a", "more"]
        await root.wait()
    assert {name: one.state for name, one in agents.known.items()} == {
        "a": State.DONE,
        "more": State.DONE,
    }


async def test_names_are_unique(agents: AgentWorld) -> None:
    """Also that of one that has come out; nothing is started (TREE-21)."""
    agents.sandbox.scripts["a"] = [BUSY]
    async with agents.running(agent("a")):
        await asyncio.sleep(5)
        with pytest.raises(NameAlreadyExists, match="'a' for the second time"):
            await agents.pool.spawn(named(agents, "a"))
        await (await agents.pool.spawn(named(agents, "more"))).wait()
        with pytest.raises(NameAlreadyExists):
            await agents.pool.spawn(named(agents, "more"))
        both = await asyncio.gather(
            *(agents.pool.spawn(named(agents, "twin")) for _ in "ab"), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in both) == ["Mortal", "NameAlreadyExists"]
        await agents.pool.wait("twin")
    assert [one.agent for one in agents.sandbox.played] == ["a", "more", "twin"]


async def test_14_what_cannot_be_started_is_not_started_and_not_counted(
    agents: AgentWorld,
) -> None:
    """Whoever asked gets the whole list; the restart counter stays 0 (acceptance 14)."""
    agents.sandbox.scripts["a"] = [BUSY]
    async with agents.running(agent("a") + agent("bad", cwd="nowhere")) as root:
        await asyncio.sleep(5)
        bad = evolve(named(agents, "more"), cwd=agents.folder / "nowhere")
        with pytest.raises(PreflightFailed) as caught:
            await agents.pool.spawn(bad)
        assert len(caught.value.problems) == 1
        assert "wanted a folder that exists" in caught.value.problems[0]
        with pytest.raises(AgentNotFound):
            agents.pool.mortal("never")
        await root.wait()
    assert (agents.known["bad"].state, agents.known["bad"].restarts) == (State.FAILED, 0)
    assert agents.known["bad"].attempts == 0
    assert [one for one in agents.reports if isinstance(one, ChildRestarting)] == []
    assert {one.agent for one in agents.sandbox.played} == {"a"}


async def test_there_is_room_for_so_many(agents: AgentWorld) -> None:
    """The pool is bounded; whoever asks is told at once (TREE-19)."""
    agents.sandbox.scripts["a"] = [BUSY]
    async with agents.running("[list]\nparallel = 1\n" + agent("a")):
        await asyncio.sleep(5)
        with pytest.raises(MaxChildren):
            await agents.pool.spawn(named(agents, "more"))


async def test_what_cannot_be_done_is_refused_with_a_reason(agents: AgentWorld) -> None:
    """Nobody is paused twice, resumed without a pause, or asked for anything after its end."""
    agents.sandbox.scripts["a"] = [Script(Ask(question="?")), BUSY]
    async with agents.running(agent("a") + agent("b")):
        await asyncio.sleep(5)
        a, b = agents.pool.mortal("a"), agents.pool.mortal("b")
        with pytest.raises(AgentRefused, match="it is done already"):
            b.warn("x")
        with pytest.raises(AgentRefused, match="it is done already"):
            b.pause("x")
        with pytest.raises(AgentRefused, match="it is done already"):
            b.resume()
        a.answer("yes")
        await asyncio.sleep(5)
        with pytest.raises(AgentRefused, match="it is not paused"):
            a.resume()
        with pytest.raises(AgentRefused, match="it has not asked"):
            a.answer("again")
        a.pause("x")
        with pytest.raises(AgentRefused, match="paused already"):
            a.pause("y")


async def test_a_reaped_mortal_stops_its_run_and_keeps_the_reason(agents: AgentWorld) -> None:
    """Working, resting, or waiting for its restart: it is over (TREE-49)."""
    agents.sandbox.scripts = {
        "works": [Script(Hang())],
        "rests": [Script(Ask(question="?"))],
        "waits": [Script(Fail())],
    }
    text = agent("works") + agent("rests") + agent("waits", backoff=[99])
    async with agents.running(text) as root:
        await asyncio.sleep(10)
        for mortal in agents.pool.mortals():
            mortal.reap("enough")
        await root.wait()
    assert {(one.state, one.reason) for one in agents.records} == {(State.REAPED, "enough")}
    assert not agents.sandbox.alive
    assert {agents.states(name)[-1] for name in ("works", "rests", "waits")} == {"reaped"}


async def test_a_run_that_nobody_will_take_up_is_stopped(agents: AgentWorld) -> None:
    """A mortal that is killed with its last restart leaves no run at work."""
    agents.sandbox.scripts = {"a": [BUSY], "b": [BUSY]}
    async with agents.running(agent("a", restarts=0) + agent("b")) as root:
        await asyncio.sleep(5)
        process = agents.pool.process("a")
        assert process is not None
        process.kill()
        await asyncio.sleep(5)
        assert [one.agent for one in agents.sandbox.alive] == ["b"]
        await root.wait()
    assert agents.known["a"].state is State.REAPED


async def test_what_is_no_longer_open_is_not_restarted(agents: AgentWorld) -> None:
    """Somebody else has finished it while it waited for its restart (G-18)."""
    agents.sandbox.scripts["a"] = [Script(Fail())]
    async with agents.running(agent("a", backoff=[60])) as root:
        await asyncio.sleep(10)
        await agents.ledger.finish("a", State.DONE)
        await root.wait()
    assert len(agents.sandbox.played) == 1
    assert agents.known["a"].state is State.DONE


async def test_restarts_of_many_are_spread(agents: AgentWorld) -> None:
    """All fail at once; they do not all come back at once (G-17)."""
    names = [f"n{number}" for number in range(10)]
    for name in names:
        agents.sandbox.scripts[name] = [Script(Fail(after=10.0)), Script()]
    rate = StartRate(starts=10, seconds=10.0, jitter=0.0)
    text = "[list]\nparallel = 10\n" + "".join(agent(name, backoff=[0]) for name in names)
    await agents.run(text, rate=rate, chance=lambda: 0.0)
    assert {one.state for one in agents.records} == {State.DONE}
    began = sorted(one.began for one in agents.sandbox.played)
    for number, at in enumerate(began[10:]):
        assert at - began[number] >= 9.9
    assert all(one <= two for one, two in pairwise(began))


async def test_a_drone_is_a_mortal_with_less_patience(agents: AgentWorld) -> None:
    """One restart in 60 s, without delay, then it is reaped (TREE-18)."""
    agents.sandbox.scripts["d"] = [Script(Fail())]
    known = await agents.run(agent("d", role="drone"))
    assert (known["d"].state, known["d"].restarts) == (State.REAPED, 1)
    first, second = agents.sandbox.played
    assert second.began - (first.ended or 0) < 1


async def test_a_drone_is_not_restarted_after_a_persistent_failure(agents: AgentWorld) -> None:
    """It is reaped at once, and a person is told why (C-14)."""
    agents.sandbox.scripts["d"] = [Script(Fail(detail=Detail.CONTEXT_OVERFLOW))]
    known = await agents.run(agent("d", role="drone"))
    assert (known["d"].state, known["d"].restarts) == (State.REAPED, 0)
    assert known["d"].reason.startswith("persistent failure: context_overflow")
    assert agents.names("d", "operator.") == ["operator.notified"]
