"""The outcomes of mortals: done, restarted with a note, reaped with a reason, failed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from otpy.testing import MockClock
from otpy_agents.errors import SpawnFailed
from otpy_agents.store.records import State
from otpy_agents.testing import Script, Write
from tests.agents.world import World, assignment, dynamic, program, work

CRASHES = program(Write(text="no luck", after=0.5), code=1, seconds=0.5)


async def test_a_list_is_worked_off(world: World) -> None:
    """Each assignment is done once, as many at a time as the list says, in its order."""
    known = await world.run(work(*(assignment(name) for name in "abcde"), parallel=2))
    assert {record.state for record in known.values()} == {State.DONE}
    assert [worker.id for worker in world.lives] == list("abcde")
    assert [worker.began for worker in world.lives] == [0, 0, 1, 1, 2]
    assert world.names("w", "list.") == ["list.finished"]


async def test_a_mortal_that_crashes_too_often_is_reaped_and_its_siblings_work_on(
    world: World,
) -> None:
    """Four crashes within 300 s; the reason is kept; no other mortal is touched (acceptance 12)."""
    world.sandbox.scripts = {"a": [CRASHES], "b": [program(seconds=200)]}
    text = work(assignment("a", backoff=[2, 4, 8]), assignment("b"), assignment("c"))
    known = await world.run(text)
    assert world.began("a") == [0, 3, 8, 17]
    record = known["a"]
    assert (record.state, record.restarts, record.attempts) == (State.REAPED, 3, 4)
    why = "restarts used up (3): crashed: WorkerFailed: exit code 1: no luck"
    assert record.reason == why
    assert world.event("mortal.reaped").detail == {"reason": why}
    assert (record.last_line, record.exit_code, record.seconds) == ("no luck", 1, 4.0)
    assert len(world.of("b")) == len(world.of("c")) == 1
    assert known["b"].state is known["c"].state is State.DONE


async def test_crashes_that_are_far_apart_are_no_reason_to_reap(world: World) -> None:
    """Only those within the window count: a fourth crash after it is forgiven."""
    world.sandbox.scripts["a"] = [*([program(seconds=150, code=1)] * 5), program()]
    known = await world.run(work(assignment("a", backoff=[0])))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 5)


async def test_a_drone_gets_one_restart_at_once(world: World) -> None:
    """The second crash within 60 s is its last."""
    world.sandbox.scripts["a"] = [CRASHES]
    known = await world.run(work(assignment("a", role="drone")))
    assert world.began("a") == [0, 1]
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 1)


async def test_a_restarted_worker_is_told_why(world: World) -> None:
    """The note in its environment names the last end; the first worker gets none (TREE-36)."""
    world.sandbox.scripts["a"] = [CRASHES, program(code=3), program()]
    await world.run(work(assignment("a")))
    notes = [worker.env.get("OTPY_LAST_EXIT") for worker in world.of("a")]
    because = "you were restarted because crashed: WorkerFailed:"
    assert notes == [None, f"{because} exit code 1: no luck", f"{because} exit code 3"]
    counts = [(one.env["OTPY_INCARNATION"], one.env["OTPY_RESTARTS"]) for one in world.of("a")]
    assert counts == [("1", "0"), ("2", "1"), ("3", "2")]


async def test_a_worker_that_outlived_its_host_is_told_so(world: World) -> None:
    """The first worker under the next host knows that the last one was interrupted."""
    world.sandbox.scripts["a"] = [program(seconds=100), program()]
    async with world.running(work(assignment("a"), assignment("b"))):
        await asyncio.sleep(10)
    assert (world.known["a"].state, world.known["b"].state) == (State.WORKING, State.DONE)
    known = await world.run(work(assignment("a"), assignment("b")))
    assert known["a"].state is State.DONE
    assert world.times() == {"a": 2, "b": 1}
    note = world.of("a")[1].env["OTPY_LAST_EXIT"]
    assert note == "you were restarted because interrupted: its host ended"


async def test_what_cannot_be_started_is_not_started_and_not_counted(world: World) -> None:
    """The list of obstacles is the reason; no restart, no attempt; siblings work on."""
    bad = '[[assignment]]\nid = "a"\nargv = ["no-such-program"]\ncwd = "no-such-folder"\n'
    known = await world.run(work(bad, assignment("b")))
    record = known["a"]
    assert (record.state, record.restarts, record.attempts) == (State.FAILED, 0, 0)
    assert "wanted a folder that exists" in record.reason
    assert "'no-such-program'" in record.reason
    assert world.of("a") == []
    assert world.names("a") == ["mortal.failed"]
    assert known["b"].state is State.DONE


async def test_what_failed_to_start_is_tried_again_by_the_next_host(
    world: World, tmp_path: Path
) -> None:
    """A missing folder may be there tomorrow; its worker gets no note of a restart."""
    text = work(assignment("a", cwd="later"))
    assert (await world.run(text))["a"].state is State.FAILED
    (tmp_path / "later").mkdir()
    assert (await world.run(text))["a"].state is State.DONE
    assert "OTPY_LAST_EXIT" not in world.of("a")[0].env


async def test_an_obstacle_that_appears_later_is_no_restart_either(
    world: World, tmp_path: Path
) -> None:
    """A worker that removes its own folder and crashes fails with the list, at once (TREE-41)."""
    folder = tmp_path / "mine"
    folder.mkdir()
    world.sandbox.scripts["a"] = [CRASHES]
    async with world.running(work(assignment("a", cwd="mine"))) as root:
        await asyncio.sleep(0.5)
        folder.rmdir()
        await root.wait()
    record = world.known["a"]
    assert (record.state, record.restarts) == (State.FAILED, 0)
    assert "wanted a folder that exists" in record.reason
    assert len(world.of("a")) == 1


async def test_a_worker_the_system_refuses_fails(world: World) -> None:
    """The reason is kept; the next host tries again, and its worker had no life before."""

    def refused(_: int) -> Script:
        raise SpawnFailed("true", "no room")

    text = work(assignment("a"), assignment("b"))
    world.sandbox.scripts["a"] = refused
    known = await world.run(text)
    assert (known["a"].state, known["b"].state) == (State.FAILED, State.DONE)
    assert "no room" in known["a"].reason
    world.sandbox.scripts.clear()
    assert (await world.run(text))["a"].state is State.DONE
    assert "OTPY_LAST_EXIT" not in world.of("a")[0].env


async def test_a_deadline_ends_one_life(world: World) -> None:
    """It is counted from each start; the note says so."""
    world.sandbox.scripts["a"] = [program(seconds=99), program(seconds=9)]
    known = await world.run(work(assignment("a", deadline=10, backoff=[1])))
    assert world.began("a") == [0, 11]
    assert known["a"].state is State.DONE
    note = world.of("a")[1].env["OTPY_LAST_EXIT"]
    assert "DeadlinePassed: took longer than its deadline of 10 s" in note


async def test_the_pool_restarted_begins_its_mortals_again(world: World) -> None:
    """They are stopped with it and told why; finished work stays done."""
    world.sandbox.scripts = {"a": [program(seconds=20)], "b": [program(seconds=20)]}
    text = work(assignment("a"), assignment("b"), assignment("c"))
    async with world.running(text) as root:
        await asyncio.sleep(5)
        root.child("MortalPool").kill()
        await root.wait()
    assert {record.state for record in world.known.values()} == {State.DONE}
    assert world.times() == {"a": 2, "b": 2, "c": 1}
    assert [one.env.get("OTPY_LAST_EXIT") for one in world.of("a")] == [
        None,
        "you were restarted because killed",
    ]


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 3.0])
async def test_a_pool_that_restarts_while_mortals_wait_loses_none(
    world: World, moment: float
) -> None:
    """This includes those that are backing off at that moment, and those that had no room yet."""
    world.sandbox.scripts["a"] = [CRASHES, program()]
    text = work(assignment("a"), *(assignment(name) for name in "bcd"), parallel=2)
    async with world.running(text) as root:
        await asyncio.sleep(moment)
        root.child("MortalPool").kill()
        await root.wait()
    assert {record.state for record in world.known.values()} == {State.DONE}


async def test_stopping_takes_the_longest_grace_and_not_the_sum(
    world: World, clock: MockClock
) -> None:
    """All mortals are asked at once; a slow one does not hold the others up."""
    world.sandbox.scripts = {name: [program(seconds=99, deaf=True)] for name in "abc"}
    text = work(*(assignment(name, grace=4) for name in "abc"))
    async with world.running(text) as root:
        await asyncio.sleep(1)
        assert len(await dynamic(root).which_children()) == 3
    assert clock.now == 5
    assert world.alive() == []
    stopped = [one.path.split("/")[1] for one in world.reports if one.event == "child.stopped"]
    order = ["MonitorSupervisor", "MortalPool", "JakeSupervisor"]
    assert list(dict.fromkeys(stopped)) == order


async def test_programs_are_not_started_faster_than_the_limit(world: World) -> None:
    """No ten seconds have more than twenty restarts, even of programs that crash at once (G-17)."""
    names = [f"n{number}" for number in range(10)]
    world.sandbox.scripts = {name: [program(seconds=0.01, code=1)] for name in names}
    hasty = [assignment(name, restarts=20, backoff=[]) for name in names]
    await world.run(work(*hasty, parallel=10))
    began = sorted(at for name in names for at in world.began(name))
    assert len(began) == 210
    again = sorted(at for name in names for at in world.began(name)[1:])
    assert all(later - at >= 10 - 1e-6 for at, later in zip(again, again[20:], strict=False))
    assert {one.state for one in world.records} == {State.REAPED}


async def test_a_done_program_stays_done_though_its_exit_cannot_be_removed(world: World) -> None:
    """Where the folder of exits should be is a file; that is no failure of its work."""
    (world.folder / "w.exits").write_text("x")
    known = await world.run(work(assignment("a")))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert world.names("a")[-1] == "mortal.done"
    assert world.times() == {"a": 1}


async def test_a_program_that_is_done_already_is_told_as_done(world: World) -> None:
    """It was killed between writing that down and its own end, and is not begun again."""
    world.sandbox.scripts["a"] = [CRASHES]
    async with world.running(work(assignment("a", backoff=[60]))) as root:
        await asyncio.sleep(10)
        await world.ledger.finish("a", State.DONE)
        await root.wait()
    assert world.names("a")[-1] == "mortal.done"
    assert world.times() == {"a": 1}


async def test_a_mortal_that_waits_for_its_place_can_be_reaped(world: World) -> None:
    """It is over at once, and starts no worker."""
    names = [f"n{number}" for number in range(25)]
    world.sandbox.scripts = {
        name: [program(seconds=0.1, code=1), program(seconds=60)] for name in names
    }
    hasty = [assignment(name, backoff=[]) for name in names]
    async with world.running(work(*hasty, parallel=25)) as root:
        await asyncio.sleep(1)
        assert len(world.lives) == 25 + 20
        world.project.pool.reap("n20", "enough")
        await asyncio.sleep(1)
        await root.wait()
    assert world.known["n20"].reason == "enough"
    assert world.times()["n20"] == 1
    assert [one.state for one in world.records].count(State.DONE) == 24


async def test_first_starts_are_not_held_back(world: World) -> None:
    """As many as may work at the same time begin at once; no vendor has crashed yet."""
    names = [f"n{number}" for number in range(60)]
    world.sandbox.scripts = {name: [program(seconds=5)] for name in names}
    await world.run(work(*map(assignment, names), parallel=60))
    assert max(world.began(name)[0] for name in names) < 1
