"""What an attempt spent whose host has died, and what a host that goes on tells of it."""

from __future__ import annotations

import pytest

from otpy_agents.run import Usage
from otpy_agents.run.failures import Classification
from otpy_agents.run.protocol import AttemptEnded, Resumed, SessionKnown
from otpy_agents.run.result import StopCause
from tests.agents.run.driver import run

ONE = Usage(input=1500, cached=300, output=25)


@pytest.mark.parametrize(("cumulative", "second"), [(False, ONE + ONE), (True, ONE)])
def test_what_a_lost_attempt_spent_counts_once(cumulative: bool, second: Usage) -> None:
    """It is the attempt's record and the run's total; a count of the session goes on (G-07)."""
    it = run("a").start()
    it.send(SessionKnown(1, "s"))

    def end(number: int, usage: Usage) -> AttemptEnded:
        return AttemptEnded(
            number=number,
            classification=Classification(),
            session="s",
            usage=usage,
            cumulative=cumulative,
        )

    it.send(Resumed(lost=end(1, ONE)))
    (record,) = it.machine.state.attempts
    assert (record.usage, record.stopped, record.session) == (ONE, StopCause.INTERRUPTED, "s")
    it.send(Resumed(lost=end(2, ONE + ONE)))
    assert it.machine.state.attempts[1].usage == second
    assert it.machine.state.usage == ONE + second
