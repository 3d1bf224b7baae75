"""The reaction of a run to an attempt that is silent, or takes too long (C-01)."""

from __future__ import annotations

import pytest

from otpy_agents.attempt.failures import ErrorType
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.liveness import Liveness, LivenessKind
from otpy_agents.run.decide.protocol import OutputHeard, RunDue, TellQuiet
from otpy_agents.run.decide.result import StopCause
from otpy_agents.run.decide.state import RunPhase
from tests.agents.run.driver import Driver, run

HOUR = 3600.0


def watched(text: str) -> Driver:
    return run("a", "b", liveness=Liveness.parse(text)).start()


def quiet(it: Driver) -> list[float]:
    return [one.seconds for one in it.of(TellQuiet)]


PARSED = [
    ("none", Liveness()),
    (" stall:300 ", Liveness(LivenessKind.STALL, 300)),
    ("deadline:1800", Liveness(LivenessKind.DEADLINE, 1800)),
    ("heartbeat:0.5", Liveness(LivenessKind.HEARTBEAT, 0.5)),
]


@pytest.mark.parametrize(("text", "wanted"), PARSED)
def test_one_word_says_what_counts(text: str, wanted: Liveness) -> None:
    """C-01: one line turns a policy on, and is printed as it was written."""
    assert Liveness.parse(text) == wanted
    assert str(wanted) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", "stall", "stall:", "stall:0", "stall:-1", "stall:nan", "stall:inf", "x:1", "none:0"],
)
def test_other_words_are_refused(text: str) -> None:
    """The message names all valid forms."""
    with pytest.raises(InvalidRunSetting, match="wanted none, deadline:SECONDS, stall:SECONDS or"):
        Liveness.parse(text)


def test_an_hour_of_silence_is_shown_once_and_nothing_else() -> None:
    """Acceptance 7, RUN-54: with `none` no timer is even left after the one event."""
    it = watched("none")
    assert it.wait() == 60
    assert (quiet(it), it.machine.due) == ([60], None)
    it.send(RunDue(), HOUR)
    assert (quiet(it), it.stops, it.log) == ([60], [], [])


def test_a_stall_is_ended_and_retried() -> None:
    """Acceptance 7: with `stall:60` it is shown, ended, and retried after the backoff."""
    it = watched("stall:60")
    assert it.wait() == 60
    assert (quiet(it), it.stops) == ([60], [False])
    assert it.log == ["[supervisor] attempt 1 made no progress for 60 s, ending it"]
    assert it.machine.due is None
    it.stopped()
    assert it.log[-1] == "[supervisor] retry 1/3 with A in 5s"
    (record,) = it.machine.state.attempts
    assert (record.stopped, record.detail, record.failure) == (StopCause.STALL, None, "stall")
    assert (record.message, record.error_type) == ("made no progress for 60 s", ErrorType.RETRYABLE)


def test_the_exit_code_of_a_stalled_attempt_means_nothing() -> None:
    """C-01: the exit code of a CLI after a signal is not a verdict, and neither is 0."""
    it = watched("stall:60")
    it.wait()
    it.stopped(exit_code=0)
    assert it.machine.state.status == "retrying (1/3)"


def test_silence_uses_up_retries_like_any_failure() -> None:
    """RUN-46: three retries, then the next agent."""
    it = watched("stall:10")
    for _ in range(4):
        it.wait()
        it.stopped()
        if it.machine.due is not None:
            it.wait()
            it.start()
    assert it.launched == ["A"] * 4 + ["B"]


def test_each_silence_is_shown_once() -> None:
    """Progress in between makes it another silence."""
    it = watched("none")
    it.wait()
    it.say(after=30)
    assert it.wait() == 60
    assert quiet(it) == [60, 60]


def test_progress_keeps_a_stall_away() -> None:
    """G-05: each event of the adapter restarts the time."""
    it = watched("stall:100")
    for _ in range(5):
        it.say(after=50)
    assert it.wait() == 60
    assert (quiet(it), it.stops) == ([60], [])
    assert it.wait() == 40
    assert (quiet(it), it.stops) == ([60], [False])


def test_bytes_are_no_progress() -> None:
    """G-05: a spinner does not keep a stalled agent alive."""
    it = watched("stall:100")
    it.send(OutputHeard(1), 90)
    it.send(RunDue(), 10)
    assert it.stops == [False]


def test_any_output_is_a_heartbeat() -> None:
    """C-01: with `heartbeat` bytes count, and so does progress."""
    it = watched("heartbeat:30")
    it.send(OutputHeard(1), 25)
    it.send(RunDue(), 20)
    assert it.stops == []
    it.say(after=5)
    assert it.wait() == 30
    assert (quiet(it), it.stops) == ([30], [False])
    assert it.log[-1] == "[supervisor] attempt 1 wrote nothing for 30 s, ending it"


def test_a_deadline_counts_from_the_start_of_the_attempt() -> None:
    """C-01: progress does not extend it, and each attempt has its own."""
    it = watched("deadline:100")
    for _ in range(9):
        it.say(after=10)
    assert it.wait() == 10
    assert (quiet(it), it.stops) == ([], [False])
    assert it.log[-1] == "[supervisor] attempt 1 took longer than its deadline of 100 s, ending it"
    it.stopped()
    it.wait()
    it.start()
    assert it.machine.due == it.now + 60


def test_an_attempt_that_is_being_started_is_not_watched() -> None:
    """Pulling an image is no silence of the agent."""
    it = run("a", liveness=Liveness.parse("stall:1"))
    assert it.machine.due is None
    it.send(RunDue(), HOUR)
    assert it.last == ()


def test_a_timer_that_comes_too_early_does_no_harm() -> None:
    """The driver of a run may ask at any time."""
    it = watched("stall:60")
    it.send(RunDue(), 59)
    assert (it.last, it.wait()) == ((), 1)


def test_a_stalled_attempt_is_waited_for() -> None:
    """The attempt is asked to end once, and the run is not over before the attempt."""
    it = watched("stall:60")
    it.wait()
    it.send(RunDue(), HOUR)
    it.say()
    assert (it.stops, it.machine.state.phase) == ([False], RunPhase.DETECT_EXIT)
