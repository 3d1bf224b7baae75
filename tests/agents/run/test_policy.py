"""The table of actions after a failure, and its numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from otpy_agents.attempt.failures import ERROR_TYPES, Detail, ErrorType
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.policy import FailureAction, FailureRule, FatalScope, RetryPolicy
from otpy_agents.run.decide.result import StopCause
from tests.agents.run.driver import run


def test_the_defaults_are_those_of_the_table() -> None:
    """RUN-21, RUN-46 to RUN-49 and C-04, as numbers."""
    policy = RetryPolicy()
    assert (policy.max_retries, policy.max_attempts, policy.crash_restarts) == (3, 30, 1)
    assert policy.backoff.delays == (5, 15, 45)
    assert policy.rate_limit_backoff.delays == (60, 120, 300)
    assert (policy.enable_fallback, policy.fatal_scope) == (True, FatalScope.AGENT)
    assert (policy.max_wait, policy.account_rest) == (86400, 0)


def test_the_bases_scale_the_tables() -> None:
    """C-35: ten times the base, ten times each delay."""
    policy = RetryPolicy(backoff_base=50, rate_limit_backoff_base=600)
    assert policy.backoff.delays == (50, 150, 450)
    assert policy.rate_limit_backoff.delays == (600, 1200, 3000)


def test_delays_of_runs_that_fail_together_differ() -> None:
    """C-34: they differ by at most the share that is asked for."""
    delays: set[float] = set()
    for number in range(20):
        it = run("a", policy=RetryPolicy(jitter=0.2))
        it.now += number / 1000
        it.fail(Detail.NETWORK)
        delays |= {*it.delays}
    assert len(delays) > 15
    assert all(4 <= delay <= 6 for delay in delays)


FIRST = {
    ErrorType.RETRYABLE: FailureAction.RETRY,
    ErrorType.RATE_LIMIT: FailureAction.COOL_DOWN,
    ErrorType.AGENT_FAILURE: FailureAction.NEXT_AGENT,
    ErrorType.FATAL: FailureAction.END,
    ErrorType.CONTAINER_CRASH: FailureAction.CRASH_RESTART,
}
APART = {Detail.SESSION_INVALID, Detail.CONTEXT_OVERFLOW, Detail.UNKNOWN}


@pytest.mark.parametrize("detail", sorted({*Detail} - APART))
def test_the_class_decides(detail: Detail) -> None:
    """RUN-37 and C-03: but for three, every detail of one class is treated alike."""
    assert RetryPolicy(fatal_scope=FatalScope.TASK).rule(detail).first is FIRST[ERROR_TYPES[detail]]


def test_the_three_that_differ() -> None:
    """G-12, a prompt that is too long, and a failure without an explanation."""
    rule = RetryPolicy().rule
    assert rule(Detail.SESSION_INVALID) == FailureRule(
        FailureAction.FRESH_SESSION, 1, FailureAction.RETRY
    )
    assert rule(Detail.CONTEXT_OVERFLOW) == FailureRule(
        FailureAction.FRESH_SESSION, 1, FailureAction.END
    )
    assert rule(Detail.UNKNOWN) == FailureRule(FailureAction.RETRY, 1, FailureAction.NEXT_AGENT)


@pytest.mark.parametrize("detail", Detail)
def test_a_narrow_fatal_scope_lets_another_agent_try(detail: Detail) -> None:
    """C-06: login, money and model belong to one agent; a bad prompt is bad for all."""
    task, agent = RetryPolicy(fatal_scope=FatalScope.TASK), RetryPolicy()
    mine = {Detail.AUTH, Detail.BILLING, Detail.MODEL_UNAVAILABLE}
    wanted = FailureAction.NEXT_AGENT if detail in mine else task.rule(detail).first
    assert agent.rule(detail).first is wanted


def test_the_table_shows_every_failure_and_every_number() -> None:
    """C-03: an operator can print the policy that is in force."""
    policy = RetryPolicy(max_retries=2, backoff_base=0.5, jitter=0.1)
    text = policy.table()
    first = {line.split()[0] for line in text.split("\n\n")[0].splitlines()[1:]}
    assert first == {*Detail, StopCause.DEADLINE, StopCause.STALL, StopCause.HEARTBEAT}
    assert "network            retryable        retry          2 per agent  next_agent" in text
    assert "unknown            retryable        retry          1 per agent  next_agent" in text
    assert "delays before them: 0.5, 1.5, 4.5 s, varied by 10%" in text
    assert "a fatal failure ends: the agent" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


BAD: list[tuple[str, object]] = [
    ("max_retries", -1),
    ("max_retries", 1.5),
    ("max_retries", True),
    ("crash_restarts", -1),
    ("max_attempts", 0),
    ("backoff_base", -1),
    ("backoff_base", math.nan),
    ("backoff_base", math.inf),
    ("rate_limit_backoff_base", "60"),
    ("max_wait", -1),
    ("account_rest", None),
    ("jitter", 1.5),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_number_that_cannot_work_is_refused(name: str, value: Any) -> None:
    """The constructor refuses it, and names the setting, the value got and the value wanted."""
    with pytest.raises(InvalidRunSetting, match=f"retry.{name}: got {value!r}, wanted"):
        RetryPolicy(**{name: value})
