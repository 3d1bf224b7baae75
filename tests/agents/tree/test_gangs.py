"""Groups that ask a person, and programs among their members (TREE-31)."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Fail, Hang, Script
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.status import status_of
from tests.agents.world import FakeWorker, World, agent, assignment, program, work

GANG = '[[gang]]\nname = "g"\nfailures = 2\nwithin = 60\naction = "{}"\n'
FAILS = program(seconds=1.0, code=3)
LONG = program(seconds=500.0)


def programs(*names: str, backoff: float, **keys: object) -> str:
    """Return a list of programs that are one group."""
    members = [assignment(name, gang="g", backoff=[backoff], **keys) for name in names]
    return work(*members, gang=GANG.format("ask"))


async def test_programs_that_failed_rest_before_their_next_life(world: World) -> None:
    """All members of a group with `ask` rest, and the person is asked once."""
    world.sandbox.scripts = {"p1": [FAILS, program()], "p2": [FAILS, program()], "p3": [LONG]}
    async with world.running(programs("p1", "p2", "p3", backoff=5.0)) as root:
        await asyncio.sleep(100)
        assert world.times() == {"p1": 1, "p2": 1, "p3": 1}
        for name in ("p1", "p2", "p3"):
            mortal = world.project.pool.mortal(name)
            assert mortal.state == "waiting_for_input", name
            assert world.names(name).count("mortal.paused") == 1
        assert world.event("gang.failed").id == "g"
        assert world.names("g", "operator.") == ["operator.notified"]
        for name in ("p1", "p2", "p3"):
            assert world.project.pool.resume(name) is None
        assert world.project.pool.mortal("p1").state == "working"
        assert not world.of("p3")[0].paused
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    assert world.times() == {"p1": 2, "p2": 2, "p3": 1}


@pytest.mark.parametrize("when", ["at work", "between two lives"])
async def test_an_operators_pause_does_not_take_the_question_of_a_group_away(
    world: World, when: str
) -> None:
    """It rests for both, and a person is asked as long as the group asks."""
    world.sandbox.scripts = {"p1": [FAILS, program()], "p2": [FAILS, program()], "p3": [LONG]}
    name = "p3" if when == "at work" else "p1"
    async with world.running(programs("p1", "p2", "p3", backoff=5.0)):
        await asyncio.sleep(2.0)
        world.project.pool.pause(name, "lunch")
        await asyncio.sleep(20.0)
        assert world.project.pool.mortal(name).state == "waiting_for_input"
        assert world.states(name)[-1] == "waiting_for_input"
        assert world.project.pool.resume(name) is None
        assert world.project.pool.mortal(name).state == "working"


async def test_a_member_that_works_again_is_frozen_with_the_others(world: World) -> None:
    """The first to fail has begun its next life when the second fails."""
    world.sandbox.scripts = {
        "p1": [FAILS, LONG],
        "p2": [program(seconds=9.0, code=3), LONG],
        "p3": [LONG],
    }
    async with world.running(programs("p1", "p2", "p3", backoff=2.0)):
        await asyncio.sleep(100)
        assert world.times() == {"p1": 2, "p2": 1, "p3": 1}
        assert [one.paused for one in (world.of("p1")[1], world.of("p3")[0])] == [True, True]


async def test_a_program_that_rests_between_two_lives_can_be_reaped(world: World) -> None:
    """It has no process to be ended, and the list comes to its end all the same."""
    world.sandbox.scripts = {"p1": [FAILS], "p2": [FAILS]}
    async with world.running(programs("p1", "p2", backoff=1.0)) as root:
        await asyncio.sleep(50)
        for name in ("p1", "p2"):
            world.project.pool.reap(name, "enough")
        await root.wait()
    assert {(one.state, one.reason) for one in world.records} == {(State.REAPED, "enough")}
    assert world.times() == {"p1": 1, "p2": 1}


async def test_a_program_paused_between_two_lives_stays_so(world: World) -> None:
    """An operator may pause it, too, and a restart of its pool does not resume it."""
    world.sandbox.scripts = {"a": [FAILS, program()]}
    async with world.running(work(assignment("a", backoff=[10.0]))) as root:
        await asyncio.sleep(5)
        world.project.pool.pause("a", "lunch")
        await asyncio.sleep(50)
        assert len(world.lives) == 1
        assert world.project.pool.mortal("a").state == "waiting_for_wakeup"
        root.child("MortalPool").kill()
        await asyncio.sleep(50)
        assert len(world.lives) == 1
        world.project.pool.resume("a")
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_a_frozen_program_that_was_let_go_on_by_hand_is_not_paused_later(
    world: World,
) -> None:
    """`kill -CONT` is the decision of a person: the next life begins at once."""
    world.sandbox.scripts = {"a": [program(seconds=20.0, code=3), program()]}
    async with world.running(work(assignment("a", backoff=[1.0]))) as root:
        await asyncio.sleep(5)
        world.project.pool.pause("a", "lunch")
        await asyncio.sleep(5)
        world.lives[0].resume()  # as a worker finds out by itself
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_a_pause_that_comes_while_a_program_starts_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Database writes lie between the start of the process and the news of it."""
    world.sandbox.scripts = {"a": [program()]}
    begun = FakeWorker.__aenter__

    async def begin(worker: FakeWorker) -> FakeWorker:
        world.project.pool.pause("a", "lunch")
        return await begun(worker)

    monkeypatch.setattr(FakeWorker, "__aenter__", begin)
    async with world.running(work(assignment("a"))):
        await asyncio.sleep(0.5)
        assert world.lives[0].paused


async def test_status_tells_nobody_to_resume_who_has_come_out(world: World) -> None:
    """A member whose restarts are used up in the failure of its group is reaped, not paused."""
    world.sandbox.scripts = {
        "p1": [FAILS, LONG],
        "p2": [program(seconds=9.0, code=3)],
        "p3": [LONG],
    }
    text = programs("p1", "p2", "p3", backoff=1.0, within=100)
    text = text.replace('id = "p2"', 'id = "p2"\nrestarts = 0')
    async with world.running(text) as root:
        await asyncio.sleep(50)
        status = await status_of([world.project], root, Journal(), 0.0, 0.0)
        paused = {one["agent"]: one["paused"] and one["paused"]["by"] for one in status["agents"]}
        assert paused == {"p1": "gang:g", "p2": None, "p3": "gang:g"}


@pytest.mark.parametrize("detail", [Detail.MODEL_UNAVAILABLE, Detail.UNKNOWN])
async def test_a_failure_that_ends_an_agent_counts_for_its_group(
    world: World, detail: Detail
) -> None:
    """A terminal or unknown failure has no restart, and the others may be next."""
    world.sandbox.scripts = {
        "a": [Script(Fail(detail=detail, after=2.0))],
        "b": [Script(Fail(detail=detail, after=5.0))],
        "c": [Script(Hang())],
    }
    members = "".join(agent(name, gang="g") for name in "abc")
    async with world.running(members + GANG.format("ask")):
        await asyncio.sleep(50)
        assert world.event("gang.failed").detail["detail"] == (
            "a, b of the group 'g' failed within 60 s"
        )
        states = {name: str(world.pool.mortal(name).state) for name in "abc"}
        assert states == {"a": "reaped", "b": "reaped", "c": "waiting_for_input"}
        paused = {one.id for one in world.told if one.name == "mortal.paused"}
        assert paused == {"c"}


async def test_a_restart_of_the_group_leaves_out_whom_no_restart_can_mend(
    world: World,
) -> None:
    """The others are restarted, and know why."""
    world.sandbox.scripts = {
        "a": [Script(Fail(detail=Detail.MODEL_UNAVAILABLE, after=2.0))],
        "b": [Script(Fail(detail=Detail.MODEL_UNAVAILABLE, after=5.0))],
        "c": [Script(Hang()), Script()],
    }
    members = "".join(agent(name, gang="g", backoff=[1]) for name in "abc")
    known = await world.run(members + GANG.format("restart"))
    assert {name: str(known[name].state) for name in "abc"} == {
        "a": "reaped",
        "b": "reaped",
        "c": "done",
    }
    assert len(world.sandbox.of("a")) == len(world.sandbox.of("b")) == 1
    assert "of the group 'g' failed within 60 s" in world.sandbox.of("c")[1].prompt
