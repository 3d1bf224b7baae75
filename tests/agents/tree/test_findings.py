"""The consequences of findings: the pool decides, and the ledger has the reason."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from otpy_agents.agent.course import Course
from otpy_agents.store.records import Outcome, State
from otpy_agents.testing import Write
from tests.agents.world import World, assignment, dynamic, path_of, program, work

CHATTERS = program(*[Write(text="x" * 99, after=0.5)] * 17, seconds=0.5)
SILENT = program(seconds=99)


def forbid(world: World, action: str) -> None:
    """Write a rule file with one rule, which every worker breaks."""
    rule = f"{{name: r, kind: command, block: ['true'], action: {action}}}"
    world.rule_file.write_text(f"rules: [{rule}]\n", encoding="utf-8")


async def test_a_program_that_a_rule_pauses_keeps_no_place(world: World) -> None:
    """It rests as if a person had paused it (TREE-19); resumed by hand it works beside others."""
    forbid(world, "pause")
    world.sandbox.scripts = {"a": [program(seconds=50)], "b": [program(seconds=50)]}
    async with world.running(work(assignment("a"), assignment("b"), parallel=1)) as root:
        await asyncio.sleep(30)
        assert world.times() == {"a": 1, "b": 1}
        assert world.names("a")[-1] == "mortal.paused"
        world.lives[0].resume()  # as a worker finds out by itself
        world.lives[1].resume()
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}


async def test_a_stalled_worker_is_restarted_and_in_the_end_reaped(world: World) -> None:
    """Each life may be silent for 10 s; the note and the last reason name the stall."""
    world.sandbox.scripts["a"] = [SILENT]
    known = await world.run(work(assignment("a", stall=10, restarts=1, backoff=[1])))
    assert world.began("a") == [0, 11]
    record = known["a"]
    assert (record.state, record.restarts) == (State.REAPED, 1)
    assert record.reason.startswith("restarts used up (1): crashed: WorkerStalled: stalled: no")
    assert "WorkerStalled" in world.of("a")[1].env["OTPY_LAST_EXIT"]
    assert world.names("a", "monitor.") == ["monitor.stalled"] * 2


async def test_a_worker_that_speaks_does_not_stall(world: World) -> None:
    """Nine seconds of work with a word every half second, and a limit of two."""
    world.sandbox.scripts["a"] = [CHATTERS]
    known = await world.run(work(assignment("a", stall=2)))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)


async def test_a_worker_over_budget_is_warned_of_and_then_reaped(world: World) -> None:
    """It is not started again, and its sibling works on."""
    world.sandbox.scripts = {"a": [CHATTERS], "b": [program(seconds=20)]}
    known = await world.run(work(assignment("a", output_bytes=1000), assignment("b")))
    record = known["a"]
    assert (record.state, record.restarts) == (State.REAPED, 0)
    assert record.reason == "budget of 'w/a' spent: 1000 of 1000 output_bytes"
    assert world.names("a", "monitor.") == ["monitor.budget_warning", "monitor.budget_spent"]
    assert len(world.of("a")) == 1
    assert known["b"].state is State.DONE


async def test_a_budget_counts_over_all_lives(world: World) -> None:
    """A crash gives nothing back: the third life exceeds the budget."""
    world.sandbox.scripts["a"] = [*([program(seconds=4, code=1)] * 4), program()]
    known = await world.run(work(assignment("a", wall_seconds=10, backoff=[100])))
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 2)
    assert known["a"].reason == "budget of 'w/a' spent: 10 of 10 seconds"
    assert known["a"].seconds == 10


async def test_a_budget_counts_over_hosts_too(world: World) -> None:
    """The usage of the last host counts."""
    world.sandbox.scripts["a"] = [SILENT]
    text = work(assignment("a", wall_seconds=10))
    async with world.running(text):
        await asyncio.sleep(8)
    known = await world.run(text)
    assert known["a"].state is State.REAPED
    assert known["a"].seconds == 10


async def test_the_budget_of_the_list_ends_it(world: World) -> None:
    """All are reaped: running, waiting for a restart, and not begun."""
    world.sandbox.scripts = {"runs": [SILENT], "waits": [program(code=1)]}
    text = work(
        assignment("runs"),
        assignment("waits", backoff=[50]),
        assignment("never"),
        parallel=2,
        wall_seconds=10,
    )
    known = await world.run(text)
    reasons = {record.reason for record in known.values()}
    assert {record.state for record in known.values()} == {State.REAPED}
    (reason,) = reasons
    assert reason == "budget of 'w' spent: 10 of 10 seconds"
    assert world.times() == {"runs": 1, "waits": 1}
    for name in known:
        assert world.names(name)[-1] == "mortal.reaped"


async def test_a_mortal_that_is_reaped_while_it_waits_is_not_started_again(world: World) -> None:
    """Its restart is cancelled, and the reason is the one it was reaped for."""
    world.sandbox.scripts["a"] = [program(code=1)]
    async with world.running(work(assignment("a", backoff=[50]))) as root:
        await asyncio.sleep(10)
        world.project.pool.reap("a", "enough")
        await root.wait()
    assert (world.known["a"].state, world.known["a"].reason) == (State.REAPED, "enough")
    assert world.times() == {"a": 1}
    assert world.lives[0].ended == 1


async def test_it_is_not_started_again_while_jake_is_away_either(world: World) -> None:
    """Without Jake its restart comes due: the new life ends at once, and begins no worker."""
    world.sandbox.scripts["a"] = [program(code=1), SILENT]
    async with world.running(work(assignment("a", backoff=[3]))) as root:
        await asyncio.sleep(2)
        path_of(root, "JakeSupervisor", "Jake").kill()
        await asyncio.sleep(0.1)
        world.project.pool.reap("a", "enough")
        await root.wait()
    assert (world.known["a"].state, world.known["a"].reason) == (State.REAPED, "enough")
    assert [(one.began, one.ended) for one in world.lives] == [(0, 1)]


async def test_a_mortal_that_is_reaped_while_it_starts_is_reaped(world: World) -> None:
    """The reason is the reap, not the failed start."""
    world.sandbox.scripts["b"] = [SILENT]
    async with world.running(work(assignment("b"), assignment("a"))) as root:
        for _ in range(99):
            if any(child.id == "a" for child in await dynamic(root).which_children()):
                break
            await asyncio.sleep(0)
        for name in "ab":
            world.project.pool.reap(name, "enough")
        await root.wait()
    assert {(one.state, one.reason) for one in world.records} == {(State.REAPED, "enough")}


async def test_a_crash_does_not_hide_why_a_mortal_was_reaped(world: World) -> None:
    """It crashes at the very moment and uses up its restarts: the first reason stands."""
    world.sandbox.scripts["a"] = [program(code=1)]
    async with world.running(work(assignment("a", restarts=0))) as root:
        await asyncio.sleep(1)
        ending = Outcome(State.REAPED, "enough")
        world.project.pool.courses.change("a", partial(Course.give_up, outcome=ending))
        await root.wait()
    assert world.known["a"].reason == ending.reason


async def test_violation_log(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`log` writes to the log, which is not on standard output, and touches nothing."""
    forbid(world, "log")
    known = await world.run(work(assignment("a")))
    written = capsys.readouterr()
    assert "violation of 'r': a command holds 'true'" in written.err
    assert written.out == ""
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)


async def test_violation_notify(world: World) -> None:
    """`notify` tells the operator."""
    forbid(world, "notify")
    known = await world.run(work(assignment("a")))
    assert world.names("a", "operator.") == ["operator.notified"]
    assert known["a"].state is State.DONE


async def test_violation_warn(world: World) -> None:
    """`warn` puts a line where the worker was told to look for messages."""
    forbid(world, "warn")
    await world.run(work(assignment("a")))
    notes = world.of("a")[0].env["OTPY_NOTES"]
    with open(notes, encoding="utf-8") as file:  # noqa: ASYNC230, PTH123 - nothing else runs
        assert file.read() == "violation of 'r': a command holds 'true'\n"
    assert "mortal.warned" in world.names("a")


async def test_a_worker_cannot_break_a_monitor_by_its_notes(world: World) -> None:
    """A warning that cannot be delivered is told; the monitors and the tree go on."""
    forbid(world, "warn")
    (world.folder / "w.work" / "a" / "NOTES").mkdir(parents=True)
    known = await world.run(work(assignment("a")))
    assert "mortal.warning_failed" in world.names("a")
    assert [one for one in world.reports if one.event == "child.exited" and one.id != "a"] == []
    assert known["a"].state is State.DONE


async def test_violation_pause(world: World) -> None:
    """`pause` freezes the worker and says how to let it go on; frozen is not stalled."""
    forbid(world, "pause")
    world.sandbox.scripts["a"] = [SILENT]
    text = work(assignment("a", stall=2))
    async with world.running(text):
        await asyncio.sleep(10)
        assert [one.paused for one in world.lives] == [True]
    assert world.event("mortal.paused").detail["resume"] == "kill -CONT -- -100001"
    assert world.names("a", "monitor.") == ["monitor.violated"]


async def test_violation_reap(world: World) -> None:
    """`reap` ends the worker, and the ledger says which rule it broke (TREE-49, acceptance 17)."""
    forbid(world, "reap")
    world.sandbox.scripts["a"] = [SILENT]
    known = await world.run(work(assignment("a")))
    assert known["a"].state is State.REAPED
    assert known["a"].reason == "violation of 'r': a command holds 'true'"
    assert known["a"].seconds < 1


@pytest.mark.parametrize("monitor", ["HealthMonitor", "BudgetMonitor", "ViolationMonitor"])
async def test_a_killed_monitor_is_not_noticed_by_workers(world: World, monitor: str) -> None:
    """It comes back and still does its job; the workers are the same (acceptance 18)."""
    world.sandbox.scripts = {"a": [SILENT], "b": [program(seconds=20)]}
    limits = {"stall": 10} if monitor == "HealthMonitor" else {"wall_seconds": 10}
    text = work(assignment("a", restarts=0, **limits), assignment("b"))
    async with world.running(text) as root:
        for _ in range(2):
            await asyncio.sleep(2.9)
            path_of(root, "MonitorSupervisor", monitor).kill()
        await root.wait()
    assert (world.known["a"].state, world.known["b"].state) == (State.REAPED, State.DONE)
    assert world.times() == {"a": 1, "b": 1}


async def test_chaos_kills_and_every_assignment_is_accounted_for(world: World) -> None:
    """Workers die all the time; each is restarted until it is done."""
    random.seed(7)  # the last of them, alone among killers, must not use up its restarts
    names = [f"n{number}" for number in range(6)]
    text = work(*(assignment(name, restarts=99, backoff=[0]) for name in names))
    async with world.running(text, chaos=1.5) as root:
        await root.wait()
    assert {record.state for record in world.records} == {State.DONE}
    killed = [told for told in world.told if told.name == "chaos.killed"]
    assert len(world.lives) == len(names) + sum(
        one.status is not None and one.status.signal == "SIGKILL" for one in world.lives
    )
    assert len(killed) >= len(world.lives) - len(names) > 0
