"""The pool from outside: spawning, names, preflight, handles, restarts that are not wanted."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest
from attrs import evolve

from otpy.errors import InvalidSpec, MaxChildren, NotRunning
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
from tests.agents.world import World, agent, assignment

BUSY = Script(Say(text="x", after=500.0))


def named(world: World, name: str) -> Assignment:
    """Return the first assignment of the list under another name."""
    return evolve(world.project.assignments[0], id=name)


async def test_whoever_spawns_gets_a_handle(world: World) -> None:
    """A spawned mortal need not be listed; its end is waited for, and recorded."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        mortal = await world.pool.spawn(named(world, "more"))
        assert (mortal.name, mortal.state, mortal.restarts) == ("more", "working", 0)
        ending = await mortal.wait()
        assert (ending.state, mortal.state) == (State.DONE, "done")
        assert mortal.outcome == ending
        assert [one.name for one in world.pool.mortals()] == ["a", "more"]
        await root.wait()
    assert {name: one.state for name, one in world.known.items()} == {
        "a": State.DONE,
        "more": State.DONE,
    }


async def test_names_are_unique(world: World) -> None:
    """The name of a mortal that has come out counts, too; nothing is started (TREE-21)."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        with pytest.raises(NameAlreadyExists, match="'a' for the second time"):
            await world.pool.spawn(named(world, "a"))
        await (await world.pool.spawn(named(world, "more"))).wait()
        with pytest.raises(NameAlreadyExists):
            await world.pool.spawn(named(world, "more"))
        both = await asyncio.gather(
            *(world.pool.spawn(named(world, "twin")) for _ in "ab"), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in both) == ["Mortal", "NameAlreadyExists"]
        await world.pool.wait("twin")
    assert [one.agent for one in world.sandbox.played] == ["a", "more", "twin"]


async def test_what_an_earlier_host_has_finished_is_not_spawned_again(world: World) -> None:
    """Done or reaped, its work is not done twice; what was cut, or changed, is begun."""
    world.sandbox.scripts = {"a": [Script(Say(text="x", after=5000.0))], "cut": [BUSY]}
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        await (await world.pool.spawn(named(world, "done"))).wait()
        reaped = await world.pool.spawn(named(world, "reaped"))
        reaped.reap("enough")
        await reaped.wait()
        await world.pool.spawn(named(world, "cut"))
        await asyncio.sleep(5)
    world.forget()
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        for name in ("done", "reaped"):
            with pytest.raises(NameAlreadyExists):
                await world.pool.spawn(named(world, name))
        assert [one.id for one in await world.ledger.summary()] == ["a"]
        assert (await (await world.pool.spawn(named(world, "cut"))).wait()).state is State.DONE
        again = evolve(named(world, "done"), digest="another")
        assert (await (await world.pool.spawn(again)).wait()).state is State.DONE
    assert [one.agent for one in world.sandbox.played] == ["a", "cut", "done"]


async def test_14_what_cannot_be_started_is_not_started_and_not_counted(
    world: World,
) -> None:
    """The caller gets all problems; the restart counter stays 0 (acceptance 14)."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a") + agent("bad", cwd="nowhere")) as root:
        await asyncio.sleep(5)
        bad = evolve(named(world, "more"), cwd=world.folder / "nowhere")
        with pytest.raises(PreflightFailed) as caught:
            await world.pool.spawn(bad)
        assert len(caught.value.problems) == 1
        assert "wanted a folder that exists" in caught.value.problems[0]
        with pytest.raises(AgentNotFound):
            world.pool.mortal("never")
        await root.wait()
    assert (world.known["bad"].state, world.known["bad"].restarts) == (State.FAILED, 0)
    assert world.known["bad"].attempts == 0
    assert [one for one in world.reports if isinstance(one, ChildRestarting)] == []
    assert {one.agent for one in world.sandbox.played} == {"a"}


async def test_a_refused_spawn_leaves_nothing_on_the_list(world: World) -> None:
    """No mortal, no row and no name is left, and what is mended can be spawned by that name."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        folder = world.folder / "later"
        more = evolve(named(world, "more"), cwd=folder)
        with pytest.raises(PreflightFailed):
            await world.pool.spawn(more)
        with pytest.raises(InvalidSpec):
            await world.pool.spawn(evolve(more, grace=-99.0))
        await asyncio.sleep(5)
        assert [one.name for one in world.pool.mortals()] == ["a"]
        assert [one.id for one in world.project.assignments] == ["a"]
        assert [one.id for one in await world.ledger.summary()] == ["a"]
        folder.mkdir()
        assert (await (await world.pool.spawn(more)).wait()).state is State.DONE
        await root.wait()
    assert world.names("more") == ["mortal.done"]


async def test_a_refused_spawn_keeps_no_tree_from_its_end(world: World) -> None:
    """Jake has nothing to begin that could not be begun."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        with pytest.raises(InvalidSpec):
            await world.pool.spawn(evolve(named(world, "more"), restarts=-1))
        await root.wait()
    assert world.known.keys() == {"a"}


async def test_there_is_room_for_so_many(world: World) -> None:
    """The pool is bounded; the caller is told at once (TREE-19)."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running("[list]\nparallel = 1\n" + agent("a")):
        await asyncio.sleep(5)
        with pytest.raises(MaxChildren):
            await world.pool.spawn(named(world, "more"))


async def test_whoever_waits_is_told_that_the_tree_has_ended(world: World) -> None:
    """What was cut has not come out, and will not as long as the handle lives."""
    world.sandbox.scripts = {"a": [BUSY], "more": [Script(Hang())]}
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        mortal = await world.pool.spawn(named(world, "more"))
        waiting = asyncio.create_task(mortal.wait())
        await asyncio.sleep(5)
        await root.stop()
        with pytest.raises(NotRunning):
            await waiting
        with pytest.raises(NotRunning):
            await mortal.wait()
        with pytest.raises(NotRunning):
            await world.pool.spawn(named(world, "late"))


async def test_what_is_spawned_into_a_tree_that_ends_is_done_or_refused(world: World) -> None:
    """However soon after the end of the last assignment it comes, it is not accepted and cut."""
    for turns in count():
        async with world.running(assignment(f"a{turns}")) as root:
            await asyncio.sleep(0.5)
            await world.pool.wait(f"a{turns}")
            for _ in range(turns):
                await asyncio.sleep(0)
            try:
                mortal = await world.pool.spawn(named(world, f"n{turns}"))
            except NotRunning:
                assert turns > 1
                break
            assert (await mortal.wait()).state is State.DONE
            await root.wait()


async def test_what_cannot_be_done_is_refused_with_a_reason(world: World) -> None:
    """No mortal is paused twice, resumed without a pause, or commanded after its end."""
    world.sandbox.scripts["a"] = [Script(Ask(question="?")), BUSY]
    async with world.running(agent("a") + agent("b")):
        await asyncio.sleep(5)
        a, b = world.pool.mortal("a"), world.pool.mortal("b")
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


async def test_a_reaped_mortal_stops_its_run_and_keeps_the_reason(world: World) -> None:
    """It may work, rest, or wait for its restart: it is over (TREE-49)."""
    world.sandbox.scripts = {
        "works": [Script(Hang())],
        "rests": [Script(Ask(question="?"))],
        "waits": [Script(Fail())],
    }
    text = agent("works") + agent("rests") + agent("waits", backoff=[99])
    async with world.running(text) as root:
        await asyncio.sleep(10)
        for mortal in world.pool.mortals():
            mortal.reap("enough")
        await root.wait()
    assert {(one.state, one.reason) for one in world.records} == {(State.REAPED, "enough")}
    assert not world.sandbox.alive
    assert {world.states(name)[-1] for name in ("works", "rests", "waits")} == {"reaped"}


async def test_a_run_that_nobody_will_take_up_is_stopped(world: World) -> None:
    """A mortal that is killed with its last restart leaves no run at work."""
    world.sandbox.scripts = {"a": [BUSY], "b": [BUSY]}
    async with world.running(agent("a", restarts=0) + agent("b")) as root:
        await asyncio.sleep(5)
        process = world.pool.process("a")
        assert process is not None
        process.kill()
        await asyncio.sleep(5)
        assert [one.agent for one in world.sandbox.alive] == ["b"]
        await root.wait()
    assert world.known["a"].state is State.REAPED


async def test_what_is_no_longer_open_is_not_restarted(world: World) -> None:
    """It was finished from outside while it waited for its restart (G-18)."""
    world.sandbox.scripts["a"] = [Script(Fail())]
    async with world.running(agent("a", backoff=[60])) as root:
        await asyncio.sleep(10)
        await world.ledger.finish("a", State.DONE)
        await root.wait()
    assert len(world.sandbox.played) == 1
    assert world.known["a"].state is State.DONE


async def test_restarts_of_many_are_spread(world: World) -> None:
    """All fail at once; they do not all come back at once (G-17)."""
    names = [f"n{number}" for number in range(10)]
    for name in names:
        world.sandbox.scripts[name] = [Script(Fail(after=10.0)), Script()]
    rate = StartRate(starts=10, seconds=10.0, jitter=0.0)
    text = "[list]\nparallel = 10\n" + "".join(agent(name, backoff=[0]) for name in names)
    await world.run(text, rate=rate, chance=lambda: 0.0)
    assert {one.state for one in world.records} == {State.DONE}
    began = sorted(one.began for one in world.sandbox.played)
    for number, at in enumerate(began[10:]):
        assert at - began[number] >= 9.9
    assert all(one <= two for one, two in pairwise(began))


async def test_a_drone_is_a_mortal_with_less_patience(world: World) -> None:
    """One restart in 60 s, without delay, then it is reaped (TREE-18)."""
    world.sandbox.scripts["d"] = [Script(Fail())]
    known = await world.run(agent("d", role="drone"))
    assert (known["d"].state, known["d"].restarts) == (State.REAPED, 1)
    first, second = world.sandbox.played
    assert second.began - (first.ended or 0) < 1


async def test_a_drone_is_not_restarted_after_a_persistent_failure(world: World) -> None:
    """It is reaped at once, and a person is told why (C-14)."""
    world.sandbox.scripts["d"] = [Script(Fail(detail=Detail.CONTEXT_OVERFLOW))]
    known = await world.run(agent("d", role="drone"))
    assert (known["d"].state, known["d"].restarts) == (State.REAPED, 0)
    assert known["d"].reason.startswith("persistent failure: context_overflow")
    assert world.names("d", "operator.") == ["operator.notified"]
