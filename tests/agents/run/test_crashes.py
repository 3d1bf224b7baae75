"""Crashes of our own code, and cancellations, do a run no harm that counts."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from otpy.testing import Fault, FaultPlan, faults
from otpy_agents.errors import RunBroken
from otpy_agents.run import Detail, Ending, RetryPolicy, StopCause
from otpy_agents.run.host.facts import RunEnded, RunLeft
from otpy_agents.run.host.host import RunHandle
from otpy_agents.store import RunStore
from otpy_agents.testing import ExitWith, Script, Write
from tests.agents.run.scripts import ok, plays, writes
from tests.agents.run.stage import Stage
from tests.examples import some

TASK = "RunHost/runs/*/task"
ATTEMPT = "RunHost/runs/*/attempts/attempt-1"
WORD = '{"type": "session", "id": "s1"}'


def talk(code: int = 0) -> Script:
    """Return an attempt that takes a while, and fails of the network or succeeds."""
    last = '{"type": "result", "text": "done"}' if code == 0 else "!connection reset by peer"
    return plays(*writes(WORD, last, each=1.0), ExitWith(code=code))


def strike(kind: str, path: str, number: int, times: int = 1) -> Fault:
    """Return a crash or a kill at the `number`-th await, in the first `times` lives."""
    if kind == "crash":
        return faults.crash(path, RuntimeError("ours"), nth=number, times=times)
    return faults.cancel(path, nth=number, times=times)


async def made(stage: Stage, fault: Fault) -> tuple[RunHandle, bool]:
    """Make a run that is hit by a fault; return it, and whether it was hit."""
    plan = FaultPlan([fault])
    with plan.active() as injected:
        stage.scripts.clear()
        async with stage.host(talk(1), talk()) as host:
            handle = await host.submit(stage.order())
            await asyncio.wait({asyncio.ensure_future(handle.wait())})
    return handle, not injected.missed


async def check_books(stage: Stage, handle: RunHandle) -> None:
    """Check that nothing runs, nothing ran twice at a time, and the store has all of it."""
    assert stage.sandbox.alive == ()
    assert stage.most == 1
    async with RunStore(stage.path, as_host=False) as store:
        stored = await store.run(handle.id)
    assert stored.record.finished is not None
    assert [one.number for one in stored.attempts] == [
        record.number for record in handle.state.attempts
    ]
    assert all(one.ended is not None for one in stored.attempts)


@pytest.mark.parametrize("kind", some(["crash", "cancel"]))
async def test_a_task_that_dies_is_followed_by_one_that_goes_on(stage: Stage, kind: str) -> None:
    """After a crash or kill at any await no attempt runs twice at a time, and nothing is lost."""
    number = 0
    for number in count(1):
        handle, hit = await made(stage, strike(kind, TASK, number))
        result = await handle.wait()
        assert result.ending is Ending.SUCCEEDED
        assert result.retry_count == 1
        stops = {record.stopped for record in result.attempts}
        assert stops <= {None, StopCause.INTERRUPTED}
        assert len(stage.told(RunEnded)) == number
        await check_books(stage, handle)
        if not hit:
            break
    assert number > 20


@pytest.mark.parametrize("kind", some(["cancel", "crash"]))
async def test_two_lives_of_a_task_that_die_are_followed_by_a_third(
    stage: Stage, kind: str
) -> None:
    """The next life may die too, while it takes the run up."""
    for number in range(1, 20):
        handle, _ = await made(stage, strike(kind, TASK, number, times=3))
        assert (await handle.wait()).ending is Ending.SUCCEEDED
        await check_books(stage, handle)


@pytest.mark.parametrize(("kind", "meaning"), [("crash", Detail.UNKNOWN), ("cancel", Detail.CRASH)])
async def test_an_attempt_that_dies_is_a_crash_if_it_was_killed_and_else_our_own_error(
    stage: Stage, kind: str, meaning: Detail
) -> None:
    """The policy retries after the end of the attempt's child, which leaves nothing behind.

    A kill explains the end; a crash of our own code is a failure without an explanation.
    """
    number = 0
    for number in count(1):
        handle, hit = await made(stage, strike(kind, ATTEMPT, number))
        result = await handle.wait()
        assert result.ending is Ending.SUCCEEDED
        detail = result.attempts[0].detail
        assert detail is Detail.NETWORK or (hit and detail is meaning)
        await check_books(stage, handle)
        if not hit:
            break
    assert number > 3


async def test_a_task_that_always_dies_leaves_a_run_that_can_be_resumed(stage: Stage) -> None:
    """Its supervisor gives up, its attempt is ended; another host goes on with it."""
    with FaultPlan([faults.crash(TASK, RuntimeError("ours"), nth=9, times=None)]).active():
        async with stage.host(talk(1)) as host:
            handle = await host.submit(stage.order())
            with pytest.raises(RunBroken, match="runs resume"):
                await handle.wait()
            assert stage.sandbox.alive == ()
            assert host.handles == {}
    assert len(stage.told(RunLeft)) == 1
    async with stage.host(ok()) as host:
        (again,) = await host.recover()
        assert again.id == handle.id
        assert (await again.wait()).ending is Ending.SUCCEEDED


async def test_a_run_that_ends_hopelessly_does_not_disturb_others(stage: Stage) -> None:
    """One run's task that dies again and again costs no other run a restart."""
    with FaultPlan().active(growing=True) as injected:
        # Words wake a run's task now and then, at whatever await the fault hit it.
        words = writes(*(f"word {number}" for number in range(30)), each=1.0)
        done = Write(text="done", after=30.0)
        async with stage.host(plays(*words, done, ExitWith())) as host:
            first, second = [await host.submit(stage.order()) for _ in range(2)]
            path = f"RunHost/runs/{first.id}/task"
            injected.add(faults.crash(path, RuntimeError("ours"), nth=2, times=6))
            with pytest.raises(RunBroken, match="RuntimeError: ours"):
                await first.wait()
            assert host.handles.keys() == {second.id}
            assert (await second.wait()).ending is Ending.SUCCEEDED


@pytest.mark.parametrize("at", [0.0, 0.5, 1.5, 2.5, 5.0])
@pytest.mark.parametrize("turns", some(range(0, 30, 3)))
async def test_a_cancelled_host_leaves_nothing(stage: Stage, at: float, turns: int) -> None:
    """After a cancellation at any turn, and another one during the stop, nothing is alive."""

    async def host_program() -> None:
        fails = plays(*writes("!connection reset", each=2.0), ExitWith(code=1), deaf=True)
        async with stage.host(fails) as host:
            await host.submit(stage.order(policy=RetryPolicy(backoff_base=1.0)))
            await asyncio.Event().wait()

    program = asyncio.ensure_future(host_program())
    await asyncio.sleep(at)
    for _ in range(turns):
        await asyncio.sleep(0)
    program.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    program.cancel()
    await asyncio.wait({program})
    assert program.cancelled()
    assert stage.sandbox.alive == ()
