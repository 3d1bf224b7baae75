"""A run whose two clocks disagree, or whose host comes late."""

from __future__ import annotations

import asyncio

import pytest

from otpy.testing import MockClock
from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.clock import ClockReading, Moved
from otpy_agents.run import Ending, Liveness, RetryPolicy
from otpy_agents.run.decide.protocol import (
    AttemptGone,
    ClockMoved,
    MoveCooldown,
    RunDue,
    TellClock,
    Unheard,
)
from otpy_agents.run.host import facts
from otpy_agents.run.host.facts import WaitBegan, WaitOver
from otpy_agents.testing import ExitWith, Write
from tests.agents.run.driver import Driver, run
from tests.agents.run.scripts import limited, network, ok, plays, silent
from tests.agents.run.stage import Stage

HOUR = 3600.0


def read(wall: float, steady: float, slept: float | None = 0.0) -> ClockReading:
    return ClockReading(wall, steady, slept)


def test_clocks_that_go_alike_are_not_worth_a_word() -> None:
    """The small corrections of a time server are not reported, either."""
    assert not read(1100, 200).since(read(1000, 100))
    assert not read(1100.9, 200).since(read(1000, 100))


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_clock_that_was_set_is_told_from_a_machine_that_slept(by: float) -> None:
    """Both make the wall clock jump; only during sleep did time pass."""
    assert read(1010 + by, 110).since(read(1000, 100)) == Moved(by=by)
    slept = read(1010 + HOUR + by, 110, HOUR).since(read(1000, 100))
    assert slept == Moved(by=by, slept=HOUR)


def test_without_a_clock_that_counts_sleep_no_wait_gets_longer() -> None:
    """A wall clock that is ahead counts as sleep; one that is behind counts as set."""
    assert read(1010 + HOUR, 110, None).since(read(1000, 100, None)) == Moved(slept=HOUR)
    assert read(1010 - HOUR, 110, None).since(read(1000, 100, None)) == Moved(by=-HOUR)


def move(it: Driver, by: float, slept: float = 0.0) -> None:
    """Let the clock be set, and the machine sleep, between two events."""
    it.now += by + slept
    it.send(ClockMoved(by, slept))


@pytest.mark.parametrize("by", [HOUR, -HOUR])
@pytest.mark.parametrize("liveness", ["stall:200", "heartbeat:200", "deadline:200"])
def test_no_limit_of_an_attempt_follows_the_wall_clock(liveness: str, by: float) -> None:
    """Of 200 s, 150 are left, after any change of the clock."""
    it = run("a", liveness=Liveness.parse(liveness)).start()
    it.send(RunDue(), 50)
    move(it, by)
    it.send(RunDue(), 149)
    assert it.stops == []
    it.send(RunDue(), 1)
    assert it.stops == [False]


@pytest.mark.parametrize("liveness", ["stall:200", "heartbeat:200", "deadline:200"])
def test_an_agent_is_not_blamed_for_the_sleep_of_its_machine(liveness: str) -> None:
    """The agent slept as well."""
    it = run("a", liveness=Liveness.parse(liveness)).start()
    it.send(RunDue(), 50)
    move(it, 0, HOUR)
    it.send(RunDue(), 149)
    assert it.stops == []
    it.send(RunDue(), 1)
    assert it.stops == [False]
    assert "[supervisor] the machine slept for 3600s" in it.log


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_delay_lasts_as_long_as_it_was_announced(by: float) -> None:
    """It is neither longer nor shorter, and the stored moment is one of the clock as it is now."""
    it = run("a").start()
    it.fail(Detail.NETWORK)
    it.send(RunDue(), 2)
    move(it, by)
    wait = it.machine.state.wait
    assert wait is not None
    assert (wait.until - it.now, it.machine.due) == (3, wait.until)
    it.send(RunDue(), 2.9)
    assert it.launched == ["A"]
    it.send(RunDue(), 0.1)
    assert it.launched == ["A", "A"]


def test_a_delay_goes_on_while_the_machine_sleeps() -> None:
    """After an hour of sleep the run waits no longer."""
    it = run("a").start()
    it.fail(Detail.NETWORK)
    move(it, 0, HOUR)
    it.send(RunDue())
    assert it.launched == ["A", "A"]


def test_what_attempts_took_stays_what_it_was() -> None:
    """The effort of a run is told as the span from its first attempt."""
    it = run("a").start()
    it.now += 4
    it.fail(Detail.NETWORK)
    move(it, HOUR)
    (record,) = it.machine.state.attempts
    assert (record.ended - record.began, it.now - record.ended) == (4, 0)


@pytest.mark.parametrize(
    ("by", "slept", "words"),
    [
        (HOUR, 0, "the clock was set forward by 3600s"),
        (-1.5, 0, "the clock was set back by 1.5s"),
        (2, 60, "the machine slept for 60s, and the clock was set forward by 2s"),
    ],
)
def test_a_jump_is_one_line(by: float, slept: float, words: str) -> None:
    """It says what happened, and by how much."""
    it = run("a").start()
    move(it, by, slept)
    assert it.log == [f"[supervisor] {words}"]


def test_what_nobody_could_hear_is_no_silence() -> None:
    """There were 40 s of silence before the host was stopped, and 60 are left afterwards."""
    it = run("a", liveness=Liveness.parse("stall:100")).start()
    since = it.now + 40
    it.now += 240
    it.send(Unheard(since, 200))
    assert it.log == ["[supervisor] this host stood still for 200s"]
    it.send(RunDue(), 59)
    assert it.stops == []
    it.send(RunDue(), 1)
    assert it.stops == [False]


def test_a_deadline_goes_on_while_nobody_listens() -> None:
    """The agent worked in the meantime."""
    it = run("a", liveness=Liveness.parse("deadline:100")).start()
    it.send(Unheard(it.now, 99), 99)
    it.send(RunDue(), 1)
    assert it.stops == [False]


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_rest_that_was_given_in_seconds_is_a_delay(by: float) -> None:
    """`Retry-After: 90` are 90 s, for this run and in the table of all."""
    it = run("a").start()
    it.fail(Detail.RATE_LIMIT, retry_after=90)
    it.send(RunDue(), 10)
    move(it, by)
    wait = it.machine.state.wait
    assert wait is not None
    assert wait.until - it.now == 80
    (moved,) = it.of(MoveCooldown)
    assert (moved.after.until - it.now, moved.after.until - moved.before.until) == (80, by)
    (told,) = it.of(TellClock)
    assert told.until == wait.until
    it.send(RunDue(), 79)
    assert it.launched == ["A"]
    it.send(RunDue(), 1)
    assert it.launched == ["A", "A"]


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_moment_that_a_vendor_named_is_one_of_the_wall_clock(by: float) -> None:
    """3 pm is a moment of the wall clock."""
    it = run("a").start()
    verdict = Classification(detail=Detail.QUOTA, retry_after=2 * HOUR, named=True)
    it.send(AttemptGone(number=1, classification=verdict, exit_code=1))
    moment = it.machine.due
    move(it, by)
    assert it.machine.due == moment
    assert it.of(MoveCooldown) == []


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_silence_within_its_limit_survives_a_clock_that_is_set(
    stage: Stage, clock: MockClock, by: float
) -> None:
    """Of 200 s the agent needs 150; the clock is set in the middle, and one line tells it."""
    async with stage.host(plays(Write(text="done", after=150.0), ExitWith())) as host:
        handle = await host.submit(stage.order(liveness=Liveness.parse("stall:200")))
        await asyncio.sleep(90.0)
        clock.jump(by)
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert clock.now < 160
    way = "forward" if by > 0 else "back"
    assert stage.log == [f"[supervisor] the clock was set {way} by 3600s"]
    assert [round(fact.by) for fact in stage.told(facts.ClockSet)] == [by]


@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_silence_beyond_its_limit_is_ended_in_time_all_the_same(
    stage: Stage, clock: MockClock, by: float
) -> None:
    """A clock that is set back gives no stalled agent an hour more."""
    async with stage.host(silent()) as host:
        order = stage.order(liveness=Liveness.parse("stall:200"), policy=RetryPolicy(max_retries=0))
        handle = await host.submit(order)
        await asyncio.sleep(90.0)
        clock.jump(by)
        await handle.wait()
    assert 200 - 1e-6 <= clock.now < 215  # floats of wall clocks are that coarse


@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_backoff_is_waited_out_by_the_clock_that_nobody_sets(
    stage: Stage, clock: MockClock, by: float
) -> None:
    """The delay is told once, and lasts 5 s, between two attempts of 1 s."""
    async with stage.host(network(), ok()) as host:
        handle = await host.submit(stage.order())
        await asyncio.sleep(2.0)
        assert handle.state.wait is not None
        clock.jump(by)
        await handle.wait()
    assert 7 - 1e-6 <= clock.now < 7.1
    assert len(stage.told(WaitBegan)) == len(stage.told(WaitOver)) == 1


@pytest.mark.parametrize("set_after", [30.0, 85.0])
@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_rest_is_told_to_all_hosts_by_the_clock_as_it_goes_now(
    stage: Stage, clock: MockClock, by: float, set_after: float
) -> None:
    """The run goes on after 90 s, and a later one finds the account free."""
    async with stage.host(limited(", try again in 90 seconds"), ok(), ok()) as host:
        handle = await host.submit(stage.order())
        clock_is_set = asyncio.get_running_loop().call_later(set_after, clock.jump, by)
        await handle.wait()
        assert clock_is_set.when() < clock.now
        assert 90 <= clock.now < 95
        await (await host.submit(stage.order())).wait()
    assert clock.now < 97
    assert len(stage.told(WaitBegan)) == 1
