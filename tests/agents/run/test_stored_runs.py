"""A run that outlives its host: its stored state, and how it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.errors import RunStateCorrupt, RunStateError, RunStateTooNew
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.machine import RunMachine
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.protocol import (
    AttemptGone,
    Completed,
    LaunchAttempt,
    Resumed,
    RunControl,
    SessionKnown,
    SetCooldown,
    StopAttempt,
    TellWait,
)
from otpy_agents.run.decide.result import Cause, Ending, StopCause
from otpy_agents.run.decide.state import VERSION, RunPhase, RunState
from tests.agents.run.driver import START, Driver, agents, run


def well_travelled() -> Driver:
    """Return a run in which every field of the state holds something."""
    it = run("a", "b", budget_usd=9.0, session="s0", policy=RetryPolicy(resume=True))
    end = AttemptGone(
        number=1,
        classification=Classification(detail=Detail.RATE_LIMIT, message="429", retry_after=300),
        exit_code=1,
        session="s1",
        usage=Usage(input=5, cost_usd=0.25),
        cumulative=True,
        artifacts=("log",),
    )
    it.start().send(end)
    it.fail(Detail.NETWORK)
    return it


def plain(it: Driver) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(it.machine.state.to_json())
    return stored


@pytest.mark.parametrize("running", [False, True])
def test_a_state_is_the_same_after_it_was_stored(running: bool) -> None:
    """Every field comes back, as the type it had."""
    it = well_travelled()
    if running:
        it.wait()
        it.start()
        it.ask(RunControl.CANCEL)
    state = it.machine.state
    assert RunState.from_json(state.to_json()) == state
    assert plain(it)["version"] == VERSION


def test_a_newer_version_is_refused_and_named() -> None:
    """An older program must not go on with a state that it only half understands."""
    stored = plain(run("a"))
    stored["version"] = VERSION + 1
    with pytest.raises(
        RunStateTooNew, match=f"got version {VERSION + 1}, wanted {VERSION} or older"
    ) as caught:
        RunState.from_json(json.dumps(stored))
    assert (caught.value.version, caught.value.newest) == (VERSION + 1, VERSION)
    assert isinstance(caught.value, RunStateError)


DAMAGE: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("version",), None, r"version: got None, wanted a whole number of at least 1"),
    (("version",), 0, r"version: got 0"),
    (("version",), True, r"version: got True"),
    (("later",), 1, r"state: got unknown \['later'\] and missing \[\]"),
    (("phase",), "nowhere", r"state.phase: got 'nowhere', wanted 'initialize' or"),
    (("position",), "0", r"state.position: got '0', wanted int"),
    (("position",), True, r"state.position: got True, wanted int"),
    (("attempts",), {}, r"state.attempts: got \{\}, wanted list"),
    (("attempts", 0, "began"), None, r"state.attempts\[0\].began: got None, wanted int or float"),
    (("readings", "s1", "input"), 0.5, r"state.readings.s1.input: got 0.5, wanted int"),
    (("policy", "max_retries"), -1, r"state.policy: got retry.max_retries: got -1"),
    (("chain", "agents"), [], r"state.chain: got chain.agents: got \[\], wanted at least one"),
]


@pytest.mark.parametrize(("path", "value", "message"), DAMAGE)
def test_damage_is_named_by_its_place(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    """A field that is unknown, missing or of another kind is refused, never skipped."""
    stored = plain(well_travelled())
    inner: Any = stored
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(RunStateCorrupt, match=f"^run state: {message}"):
        RunState.from_json(json.dumps(stored))


def test_a_missing_field_is_damage_too() -> None:
    """A default in its place would make it another run."""
    stored = plain(run("a"))
    del stored["attempts"]
    with pytest.raises(RunStateCorrupt, match=r"unknown \[\] and missing \['attempts'\]"):
        RunState.from_json(json.dumps(stored))


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_other_text_is_no_state(text: str) -> None:
    """The file was cut, or is something else."""
    with pytest.raises(RunStateCorrupt, match="wanted one JSON object"):
        RunState.from_json(text)


def test_an_attempt_whose_host_died_costs_no_retry() -> None:
    """Acceptance 5 for a process: it is made again at once, with the counters as they were."""
    it = run("a")
    it.fail(Detail.NETWORK)
    it.wait()
    it.start()
    it.resume(after=3600)
    assert (it.machine.state.retries, it.delays) == (1, [5])
    assert it.of(LaunchAttempt)[-1].cause is Cause.INTERRUPTED
    record = it.machine.state.attempts[-1]
    assert (record.stopped, record.message) == (StopCause.INTERRUPTED, "its host died")
    it.fail(Detail.NETWORK)
    assert it.wait() == 15


def test_an_attempt_that_was_being_started_may_have_been() -> None:
    """The host died between storing and starting: the number is used, so none exists twice."""
    it = run("a")
    it.resume()
    assert [one.number for one in it.of(LaunchAttempt)] == [1, 2]


def test_an_adopted_attempt_goes_on() -> None:
    """Acceptance 5 for a container: no second one starts, and its silence counts from 0."""
    it = run("a", liveness=Liveness.parse("stall:100")).start()
    it.resume(adopted=True, after=500)
    assert (it.launched, it.last, it.machine.due) == (["A"], (), it.now + 60)
    it.send(AttemptGone(number=1, classification=Classification(), exit_code=0))
    assert it.result.status == "done"


def test_a_deadline_goes_on_while_the_host_is_dead() -> None:
    """C-01: the time without a host counts, too."""
    it = run("a", liveness=Liveness.parse("deadline:100")).start()
    it.resume(adopted=True, after=500)
    assert it.wait() == 0
    assert it.stops == [False]


def test_an_adopted_attempt_runs_even_if_nobody_stored_its_start() -> None:
    """The container was started, and its host died before it learned of that."""
    it = run("a")
    it.resume(adopted=True)
    assert (it.machine.state.phase, it.machine.state.status) == (RunPhase.RUN, "running")


@pytest.mark.parametrize("control", [RunControl.CANCEL, RunControl.KILL])
def test_an_adopted_attempt_is_asked_again_to_end(control: RunControl) -> None:
    """The stop was stored, and perhaps never sent."""
    it = run("a").start()
    it.ask(control)
    assert it.resume(adopted=True) == (StopAttempt(1, control is RunControl.KILL),)


def test_a_stop_that_was_stored_holds_if_the_host_died() -> None:
    """RUN-60: the next host does not begin a cancelled run again."""
    it = run("a", "b").start()
    it.ask(RunControl.CANCEL)
    it.resume()
    assert (it.result.ending, it.launched) == (Ending.CANCELLED, ["A"])


def test_a_forced_fallback_holds_if_the_host_died() -> None:
    """RUN-66: the next host goes on with the next agent."""
    it = run("a", "b").start()
    it.ask(RunControl.FORCE_FALLBACK)
    it.resume()
    assert it.launched == ["A", "B"]


def test_a_backoff_goes_on_where_it_was() -> None:
    """The next host waits for the rest of it, and not at all if it is over."""
    it = run("a")
    it.fail(Detail.NETWORK)
    (shown,) = it.resume(after=3)
    assert isinstance(shown, TellWait)
    assert (shown.delay, shown.retry, it.wait()) == (2, 1, 2)
    it.fail(Detail.NETWORK)
    it.resume(after=60)
    assert (it.delays[-1], it.wait(), it.launched) == (0, 0, ["A"] * 3)


def test_a_clock_that_was_set_back_makes_no_delay_longer() -> None:
    """The wall clock of the next host may be behind."""
    it = run("a")
    it.fail(Detail.NETWORK)
    it.resume(after=-1000)
    assert it.wait() == 5


def test_a_cooldown_that_was_never_told_is_told_again() -> None:
    """The host died after it stored the run and before it stored the table."""
    it = well_travelled()
    (told,) = it.of(SetCooldown)
    it.machine = RunMachine(RunState.from_json(it.machine.state.to_json()))
    assert it.of(SetCooldown, it.send(Resumed())) == [told]
    assert it.of(SetCooldown, it.resume()) == []


def test_a_result_that_was_never_told_is_told_again() -> None:
    """The host died after it stored the end; a caller must still get the result."""
    it = run("a")
    it.succeed()
    assert it.resume() == (Completed(it.machine.state.result()),)


def test_a_run_that_was_stored_and_never_begun_begins() -> None:
    """A host that died before `Begin` leaves a run to begin."""
    it = Driver(RunState(chain=agents("a")))
    it.resume()
    assert it.launched == ["A"]
    assert it.now == START


def test_a_session_is_known_before_the_attempt_is_over() -> None:
    """C-21: after a crash of the host the next attempt goes on where the first one was."""
    for resume, wanted in ((True, "s1"), (False, None)):
        it = run("a", policy=RetryPolicy(resume=resume)).start()
        it.send(SessionKnown(1, "s1"))
        it.resume()
        assert it.of(LaunchAttempt)[-1].session == wanted


def test_a_run_that_is_not_over_has_no_result() -> None:
    """Asking for one is a mistake of the program."""
    with pytest.raises(RuntimeError, match="got a run that is not over"):
        run("a").machine.state.result()
