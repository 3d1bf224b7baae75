"""The usage of an attempt whose host has died, as the next host tells it."""

from __future__ import annotations

import pytest

from otpy_agents.attempt.failures import Classification
from otpy_agents.errors import UnknownRun
from otpy_agents.run import RetryPolicy, Usage
from otpy_agents.run.decide.protocol import AttemptGone, Resumed, RunControl, SessionKnown
from otpy_agents.run.decide.result import Ending, StopCause
from otpy_agents.run.host.facts import SpentFound
from otpy_agents.testing import ExitWith, Write
from tests.agents.run.driver import run
from tests.agents.run.scripts import plays
from tests.agents.run.stage import Stage

ONE = Usage(input=1500, cached=300, output=25)


@pytest.mark.parametrize(("cumulative", "second"), [(False, ONE + ONE), (True, ONE)])
def test_what_a_lost_attempt_spent_counts_once(cumulative: bool, second: Usage) -> None:
    """It is the attempt's record and the run's total; a count of the session goes on (G-07)."""
    it = run("a").start()
    it.send(SessionKnown(1, "s"))

    def end(number: int, usage: Usage) -> AttemptGone:
        return AttemptGone(
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


@pytest.mark.parametrize(("code", "ending"), [(0, Ending.SUCCEEDED), (1, Ending.EXHAUSTED)])
async def test_a_run_that_is_over_is_told_again(stage: Stage, code: int, ending: Ending) -> None:
    """A caller that missed the end gets the usage, the result and the answer."""
    spent = '{"type": "usage", "input": 1500, "cached": 300, "output": 25}'
    answer = '{"type": "result", "text": "all good"}' if code == 0 else "no"
    told = (Write(text=spent, after=0.0), Write(text=answer, after=0.1))
    works = plays(Write(text="x", after=0.0), ExitWith(after=60.0))
    async with stage.host(plays(*told, ExitWith(code=code)), works) as host:
        first = await host.submit(stage.order(policy=RetryPolicy(max_retries=0)))
        before = await first.wait()
        going = await host.submit(stage.order())
        assert await host.ended(going.id) is None
    stage.facts.clear()
    async with stage.host() as host:
        again = await host.ended(first.id)
        assert again is not None
        assert (await again.wait(), again.answer) == (before, first.answer)
        assert not (await again.ask(RunControl.STOP)).accepted
        with pytest.raises(UnknownRun):
            await host.ended("none")
    assert before.ending is ending
    assert [fact.usage for fact in stage.told(SpentFound)] == [ONE]
    assert stage.events() == ["run.began", SpentFound.event, "run.ended"]
