"""Long random histories of a run, drawn evenly from seeds, under the same promises.

Hypothesis finds the smallest history that breaks a promise; these go far into a run, to its twelfth
failure and its last agent.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from attrs import evolve

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.cooldown import Cooldown
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import FatalScope, RetryPolicy
from otpy_agents.run.decide.protocol import AttemptGone, RunControl
from otpy_agents.run.decide.result import Cause, Ending
from otpy_agents.run.decide.state import RunState
from tests.agents.run.test_histories import ACCOUNTS, CLIS, LASTING, START, Histories

SEEDS = 120


def drawn(chance: Random) -> RunState:
    """Return a run to begin."""
    pick = chance.choice
    agents = [
        AgentInstance(agent_id=name, agent_cli=pick(CLIS), credential=pick(["", "team"]))
        for name in "ABCD"[: chance.randint(1, 4)]
    ]
    return RunState(
        chain=AgentChain(agents=tuple(agents)),
        policy=RetryPolicy(
            max_retries=pick([0, 1, 3, 3, 3]),
            backoff_base=pick([0, 2, 5, 5]),
            rate_limit_backoff_base=pick([0, 4, 60]),
            crash_restarts=pick([0, 1, 2]),
            max_attempts=pick([1, 4, 12, 30, 30, 30]),
            enable_fallback=chance.random() < 0.8,
            fatal_scope=pick(list(FatalScope)),
            max_wait=pick([None, None, 86400.0, 100.0]),
            resume=chance.random() < 0.5,
        ),
        liveness=Liveness.parse(pick(["none", "stall:60", "stall:7", "deadline:100"])),
        budget_usd=pick([None, None, 1.0, 4.0]),
        session=pick([None, "s0"]),
    )


def lived(seed: int) -> Histories:
    """Return the whole of one history."""
    chance = Random(seed)
    it = Histories()
    cooldowns = [
        Cooldown(chance.choice(ACCOUNTS), START + chance.choice([2, 30, 200]))
        for _ in range(chance.choice([0, 0, 1, 3]))
    ]
    it.a_run_is_made(drawn(chance), cooldowns, chance.random() < 0.1, patience=0)
    details = [*Detail, *LASTING * 6]
    for _ in range(chance.randint(5, 60)):
        _step(it, chance, details)
    it.teardown()
    return it


def _step(it: Histories, chance: Random, details: list[Detail]) -> None:
    match chance.randrange(24):
        case 0:
            it.it_is_heard(chance.randint(0, 2), chance.choice([0, 1, 10]))
        case 1:
            it.it_only_writes(chance.choice([0, 1, 10]))
        case 2:
            it.an_old_attempt_ends_again()
        case 3:
            it.a_timer_comes_at_any_time(chance.choice([0, 1, 20, 500]))
        case 4 | 5:
            it.a_sibling_is_limited(chance.choice(ACCOUNTS), chance.choice([-5, 3, 30, 300]))
        case 6:
            it.its_host_dies(chance.random() < 0.5, chance.choice([0, 2, 100]))
        case 7 | 8:
            it.somebody_helps(chance.choice([RunControl.RETRY_NOW, RunControl.FORCE_FALLBACK]))
        case 9 if chance.random() < 0.3:
            waits = it.world.machine.state.wait is not None
            it.somebody_asks(
                chance.choice([RunControl.CANCEL_RETRY] if waits else list(RunControl))
            )
        case 10 if it.flies and chance.random() < 0.2:
            it.it_succeeds(chance.choice([0, None]))
        case 11 | 12 | 13 | 14 if it.flies:
            it.it_starts()
        case 15 | 16 | 17:
            it.the_timer_is_due()
        case _:
            it.it_fails(chance.choice(details), _end(chance))


def _end(chance: Random) -> AttemptGone:
    waits = [None, None, 0, 3, 50, 400]
    end = AttemptGone(number=0, classification=Classification(retry_after=chance.choice(waits)))
    return evolve(
        end,
        exit_code=chance.choice([1, 0, None]),
        session=chance.choice([None, "s1", "s2"]),
        usage=chance.choice([None, Usage(), Usage(cost_usd=0.5)]),
    )


def test_far_into_a_run_the_promises_hold() -> None:
    """`Witness` holds, and the histories reach every cause and every ending of their own."""
    causes: Counter[Cause] = Counter()
    endings: Counter[Ending] = Counter()
    for seed in range(SEEDS):
        try:
            world = lived(seed).world
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        assert world.completed is not None
        result = world.completed.result
        endings[result.ending] += 1
        causes.update(record.cause for record in result.attempts)
    assert set(causes) == set(Cause)
    assert set(Ending) - {Ending.CANCELLED, Ending.KILLED, Ending.STOPPED} <= set(endings)
    assert causes[Cause.RETRY] > SEEDS


@pytest.mark.parametrize("seed", range(3))
def test_a_history_is_the_same_each_time(seed: int) -> None:
    """A seed that fails can be played again."""
    assert lived(seed).world.machine.state == lived(seed).world.machine.state
