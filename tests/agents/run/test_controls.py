"""The controls that a person has over a run, in every state of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from otpy_agents.attempt.failures import Detail
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.protocol import ControlAsked, LaunchAttempt, RunControl
from otpy_agents.run.decide.result import Cause, Ending, StopCause
from otpy_agents.run.decide.state import RunPhase, RunState
from tests.agents.run.driver import START, Driver, agents, cooldown, run


def fresh() -> Driver:
    return Driver(RunState(chain=agents("a", "b")))


def starting() -> Driver:
    return run("a", "b")


def running() -> Driver:
    return run("a", "b").start()


def backing_off() -> Driver:
    it = run("a", "b")
    it.fail(Detail.NETWORK, "reset", exit_code=9)
    return it


def cooling() -> Driver:
    return run("a", "b", cooldowns=cooldown("a", START + 50).merged(cooldown("b", START + 90)))


def cancelling() -> Driver:
    it = running()
    it.ask(RunControl.CANCEL)
    return it


def killing() -> Driver:
    it = running()
    it.ask(RunControl.KILL)
    return it


def switching() -> Driver:
    it = running()
    it.ask(RunControl.FORCE_FALLBACK)
    return it


def stalling() -> Driver:
    it = run("a", "b", liveness=Liveness.parse("stall:60")).start()
    it.wait()
    return it


def last_agent() -> Driver:
    return run("a").start()


def last_attempt() -> Driver:
    return run("a", "b", policy=RetryPolicy(max_attempts=1)).start()


def over() -> Driver:
    it = run("a", "b")
    it.succeed()
    return it


STATES: list[Callable[[], Driver]] = [
    *(fresh, starting, running, backing_off, cooling, cancelling, killing, switching, stalling),
    *(last_agent, last_attempt, over),
]
OVER = "the run is over: succeeded"
NO_RETRY = "there is no retry to decide about: the run "
CANCELLING = "the run is being ended already: cancel"
KILLING = "the run is being ended already: kill"
ENDING = "the run is being ended: "
SWITCH = "the attempt is being ended for the next agent"
# For cancel, kill, stop, retry now, cancel retry, force fallback; what is refused, in parentheses.
ANSWERS: dict[Callable[[], Driver], tuple[str, ...]] = {
    fresh: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}has not begun)", f"({NO_RETRY}has not begun)", "(the run has not begun)"),
    ),
    starting: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}is starting)", f"({NO_RETRY}is starting)", SWITCH),
    ),
    running: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}is running)", f"({NO_RETRY}is running)", SWITCH),
    ),
    backing_off: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        "the next attempt begins now",
        "the run ends with its last result",
        "the next agent begins now",
    ),
    cooling: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        "the next attempt begins now",
        "the run ends with its last result",
        "the next agent begins now",
    ),
    cancelling: (
        *(f"({CANCELLING})", f"{ENDING}kill", f"({CANCELLING})"),
        *(f"({NO_RETRY}is stopping)", f"({NO_RETRY}is stopping)"),
        "(the attempt is being ended already: cancel)",
    ),
    killing: (
        *(f"({KILLING})", f"({KILLING})", f"({KILLING})"),
        *(f"({NO_RETRY}is stopping)", f"({NO_RETRY}is stopping)"),
        "(the attempt is being ended already: kill)",
    ),
    switching: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}is stopping)", f"({NO_RETRY}is stopping)"),
        "(the attempt is being ended already: fallback)",
    ),
    stalling: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}is stopping)", f"({NO_RETRY}is stopping)", SWITCH),
    ),
    last_agent: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        *(f"({NO_RETRY}is running)", f"({NO_RETRY}is running)", "(no agent comes after 'A')"),
    ),
    last_attempt: (
        *(f"{ENDING}cancel", f"{ENDING}kill", f"{ENDING}stop"),
        f"({NO_RETRY}is running)",
        f"({NO_RETRY}is running)",
        "(attempt 1 is the last one allowed)",
    ),
    over: (f"({OVER})",) * 6,
}


@pytest.mark.parametrize("control", RunControl)
@pytest.mark.parametrize("make", STATES)
def test_every_control_has_an_answer_in_every_state(
    make: Callable[[], Driver], control: RunControl
) -> None:
    """C-11: it is done or refused with a reason, and a refusal changes nothing."""
    it = make()
    before = it.machine.state
    answer = it.ask(control)
    text = answer.text if answer.accepted else f"({answer.text})"
    assert text == ANSWERS[make][list(RunControl).index(control)]
    if not answer.accepted:
        assert (it.machine.state, it.last) == (before, (answer,))


STOPS = [
    (RunControl.CANCEL, "user_cancel requested", Ending.CANCELLED, 130),
    (RunControl.KILL, "user_kill requested", Ending.KILLED, 137),
    (RunControl.STOP, "stop requested", Ending.STOPPED, 143),
]


@pytest.mark.parametrize(("control", "line", "ending", "code"), STOPS)
def test_a_stop_of_an_attempt_ends_the_run(
    control: RunControl, line: str, ending: Ending, code: int
) -> None:
    """RUN-60, RUN-61, RUN-63: no retry, no fallback, and the exit code is not interpreted."""
    it = running()
    it.ask(control)
    assert it.log == [line]
    assert it.stops == [control is RunControl.KILL]
    assert it.machine.state.phase is RunPhase.DETECT_EXIT
    it.stopped(exit_code=0)
    assert (it.result.ending, it.result.exit_code) == (ending, code)
    assert (it.result.user_stop, it.launched) == (StopCause(control), ["A"])
    assert it.result.error == str(ending)
    assert it.machine.state.attempts[0].detail is None


@pytest.mark.parametrize(("control", "line", "ending", "code"), STOPS)
def test_a_stop_during_a_wait_ends_the_run_at_once(
    control: RunControl, line: str, ending: Ending, code: int
) -> None:
    """Acceptance 4, RUN-62: the wait ends, with the line that says so."""
    it = run("a")
    for _ in range(3):
        it.fail(Detail.RATE_LIMIT, "429")
        if it.machine.state.retries < 2:
            it.wait()
    assert it.delays[-1] == 300
    it.ask(control)
    assert it.log[-2:] == [line, "retry skipped due to user stop"]
    assert (it.result.ending, it.result.exit_code, it.machine.due) == (ending, code, None)


def test_a_kill_overtakes_a_cancel() -> None:
    """RUN-61: a kill may follow a cancel; the result is that of the kill."""
    it = cancelling()
    it.ask(RunControl.KILL)
    assert it.stops == [False, True]
    it.stopped()
    assert (it.result.ending, it.result.user_stop) == (Ending.KILLED, StopCause.KILL)


def test_a_cancel_of_what_ends_already_changes_only_what_follows() -> None:
    """An attempt that is already asked to end is not asked again."""
    it = switching()
    it.ask(RunControl.CANCEL)
    assert it.stops == [False]
    it.stopped()
    assert (it.result.ending, it.launched) == (Ending.CANCELLED, ["A"])


def test_an_attempt_that_has_not_started_is_ended_too() -> None:
    """It may be pulling an image: the run stops it, and waits for its end."""
    it = starting()
    it.ask(RunControl.CANCEL)
    it.start()
    assert it.machine.state.phase is RunPhase.DETECT_EXIT
    it.stopped()
    assert it.result.ending is Ending.CANCELLED


def test_retry_now_cuts_the_backoff() -> None:
    """RUN-52: the next attempt begins at once, as the retry it would have been."""
    it = backing_off()
    it.ask(RunControl.RETRY_NOW)
    assert (it.launched, it.machine.state.retries, it.now) == (["A", "A"], 1, START)
    assert it.of(LaunchAttempt)[-1].cause is Cause.RETRY


def test_a_retry_that_is_cancelled_ends_with_the_last_result() -> None:
    """RUN-66: with the error and the exit code of the attempt before."""
    it = backing_off()
    it.ask(RunControl.CANCEL_RETRY)
    assert (it.result.ending, it.result.exit_code) == (Ending.RETRY_CANCELLED, 9)
    assert it.result.error == "the retry was cancelled: reset"
    assert (it.result.retry_count, it.result.user_stop) == (0, None)
    assert it.log[-1] == "retry skipped due to user stop"


def test_a_run_without_any_attempt_has_a_result_too() -> None:
    """RUN-59: it names the agent that would have been first, and is no success."""
    it = cooling()
    it.ask(RunControl.CANCEL_RETRY)
    assert (it.result.agent_id, it.result.exit_code, it.result.status) == ("A", 1, "failed")
    assert it.result.error == "the retry was cancelled"


def test_a_forced_fallback_does_not_wait() -> None:
    """RUN-66: between two attempts the next agent begins at once, limited or not."""
    it = cooling()
    it.ask(RunControl.FORCE_FALLBACK)
    assert (it.launched, it.now, it.machine.due) == (["B"], START, None)


def test_a_forced_fallback_ends_the_attempt_first() -> None:
    """RUN-66: never two at once; the retries of the new agent begin at 0."""
    it = switching()
    assert (it.launched, it.stops) == (["A"], [False])
    it.stopped()
    assert it.launched == ["A", "B"]
    assert it.machine.state.attempts[0].failure == "fallback"
    assert it.machine.state.retries == 0


def test_a_forced_fallback_prefers_an_agent_that_is_free() -> None:
    """The next one, unless it is limited and a later one is not."""
    it = run("a", "b", "c", cooldowns=cooldown("b", START + 90)).start()
    it.ask(RunControl.FORCE_FALLBACK)
    it.stopped()
    assert it.launched == ["A", "C"]


def test_a_person_may_force_what_the_policy_does_not_do_by_itself() -> None:
    """C-02: the operator declared the chain; `enable_fallback` only forbids going along unasked."""
    it = run("a", "b", policy=RetryPolicy(enable_fallback=False)).start()
    assert it.ask(RunControl.FORCE_FALLBACK).accepted
    it.stopped()
    assert it.launched == ["A", "B"]


def test_a_forced_fallback_takes_over_from_a_stall() -> None:
    """The latest request decides what follows the stop in progress."""
    it = stalling()
    it.ask(RunControl.FORCE_FALLBACK)
    assert it.stops == [False]
    it.stopped()
    assert (it.launched, it.delays) == (["A", "B"], [])


def test_a_run_that_never_began_can_be_given_up() -> None:
    """RUN-60: a queued run is cancelled without having started anything."""
    it = fresh()
    it.send(ControlAsked(RunControl.CANCEL))
    assert (it.result.ending, it.launched) == (Ending.CANCELLED, [])
    it.begin()
    assert it.launched == []
