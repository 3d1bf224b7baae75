"""Delays before a restart: exponential, a fixed sequence, none; jitter, cap and reset."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy import InvalidSpec
from otpy._core.backoff import Backoff
from otpy._core.child import Child, Status
from tests.core.world import child


def never() -> float:
    """Fail: no random number is expected."""
    raise AssertionError


def delays(backoff: Backoff, count: int) -> list[float]:
    """Return the first delays of a backoff without jitter."""
    return [backoff.delay(attempt, never) for attempt in range(count)]


def test_none_waits_not_at_all() -> None:
    """There is no delay at all, as in OTP (SUP-511)."""
    assert delays(Backoff.none(), 3) == [0, 0, 0]


def test_exponential_multiplies_up_to_its_cap() -> None:
    """The delay is 5 s, doubled each time, never above 300 s."""
    backoff = Backoff.exponential(5, max=300, jitter=0)
    assert delays(backoff, 8) == [5, 10, 20, 40, 80, 160, 300, 300]


def test_exponential_takes_any_factor() -> None:
    """A factor of 1 keeps the delay constant, one of 3 triples it."""
    assert delays(Backoff.exponential(2, factor=3, jitter=0), 4) == [2, 6, 18, 54]
    assert delays(Backoff.exponential(2, factor=1, jitter=0), 3) == [2, 2, 2]


def test_a_million_restarts_do_not_overflow() -> None:
    """The delay is the cap, not an error."""
    backoff = Backoff.exponential(1, max=60, jitter=0)
    assert backoff.delay(1_000_000, never) == 60


def test_a_sequence_repeats_its_last_delay() -> None:
    """The delays are 5, 15, 45, and then 45 for each later attempt."""
    assert delays(Backoff.sequence(5, 15, 45), 5) == [5, 15, 45, 45, 45]


def test_a_sequence_may_be_empty_or_hold_zeros() -> None:
    """Without delays, or with a delay of 0, the restart is immediate."""
    assert delays(Backoff.sequence(), 2) == [0, 0]
    assert delays(Backoff.sequence(0, 3), 3) == [0, 3, 3]


def test_jitter_goes_both_ways() -> None:
    """The lowest random number shortens the delay by the share, the highest extends it."""
    backoff = Backoff.exponential(10, jitter=0.1)
    numbers = iter([0.0, 0.5, 1.0])
    assert [round(backoff.delay(0, lambda: next(numbers)), 9) for _ in range(3)] == [9, 10, 11]


@given(
    base=st.floats(0, 100),
    factor=st.floats(1, 10),
    cap=st.floats(0, 1000),
    jitter=st.floats(0, 1),
    attempt=st.integers(0, 500),
    number=st.floats(0, 1, exclude_max=True),
)
def test_every_delay_lies_within_its_bounds(
    base: float, factor: float, cap: float, jitter: float, attempt: int, number: float
) -> None:
    """The delay is never negative, and exceeds the cap by the jitter at most."""
    backoff = Backoff.exponential(base, factor=factor, max=cap, jitter=jitter)
    delay = backoff.delay(attempt, lambda: number)
    assert 0 <= delay <= cap * (1 + jitter)


@given(base=st.floats(0.001, 100), factor=st.floats(1, 10))
def test_delays_never_shrink(base: float, factor: float) -> None:
    """Without jitter, each restart waits at least as long as the one before."""
    backoff = Backoff.exponential(base, factor=factor, jitter=0)
    assert all(a <= b for a, b in pairwise(delays(backoff, 30)))


# --- the child that counts its attempts -----------------------------------------------------------


def record(backoff: Backoff | None) -> Child:
    """Return the record of a child that has been running since second 0."""
    record = Child(child("x", backoff=backoff), "x")
    record.status = Status.RUNNING
    return record


def test_a_child_without_backoff_waits_not_at_all() -> None:
    """None means no delay, as in OTP."""
    assert record(None).next_delay(1, never) == 0


def test_attempts_add_up_for_ever_without_reset() -> None:
    """The delay keeps growing, even after a year without a failure."""
    x = record(Backoff.sequence(1, 2, 3))
    assert [x.next_delay(now, never) for now in (0, 1, 3e7)] == [1, 2, 3]


def test_a_quiet_life_starts_the_count_anew() -> None:
    """A life of exactly `reset_after` seconds is long enough, a shorter one is not."""
    x = record(Backoff.sequence(1, 2, 3, reset_after=10))
    assert x.next_delay(1, never) == 1
    assert x.next_delay(9.9, never) == 2
    assert x.next_delay(10, never) == 1
    assert x.next_delay(10.1 + 10, never) == 1


def test_a_start_that_fails_is_no_quiet_life() -> None:
    """This holds however late the failure comes: only a running child can have a quiet life."""
    x = record(Backoff.sequence(1, 2, 3, reset_after=10))
    assert x.next_delay(1, never) == 1
    x.status = Status.UNDEFINED
    assert x.next_delay(1000, never) == 2


# --- what can never work --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Backoff.exponential(-1), "delay is -1"),
        (lambda: Backoff.exponential(nan), "delay is nan"),
        (lambda: Backoff.sequence(1, -0.5, 2), "delay is -0.5"),
        (lambda: Backoff.sequence(1, nan), "delay is nan"),
        (lambda: Backoff.exponential(1, max=-1), "max is -1"),
        (lambda: Backoff.exponential(1, max=nan), "max is nan"),
        (lambda: Backoff.exponential(1, factor=0.5), "factor is 0.5"),
        (lambda: Backoff.exponential(1, factor=inf), "factor is inf"),
        (lambda: Backoff.exponential(1, factor=nan), "factor is nan"),
        (lambda: Backoff.exponential(1, jitter=-0.1), "jitter is -0.1"),
        (lambda: Backoff.exponential(1, jitter=1.1), "jitter is 1.1"),
        (lambda: Backoff.exponential(1, jitter=nan), "jitter is nan"),
        (lambda: Backoff.sequence(1, reset_after=0), "reset_after is 0"),
        (lambda: Backoff.sequence(1, reset_after=-1), "reset_after is -1"),
        (lambda: Backoff.sequence(1, reset_after=nan), "reset_after is nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make: Any, what: str) -> None:
    """The message names the value got, then the value wanted."""
    with pytest.raises(InvalidSpec, match=rf"^Backoff: {what}, wanted "):
        make()


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"base": "soon"}, "delay is 'soon'"),
        ({"max": None}, "max is None"),
        ({"factor": "2"}, "factor is '2'"),
        ({"jitter": None}, "jitter is None"),
        ({"reset_after": "1"}, "reset_after is '1'"),
    ],
)
def test_what_is_no_number_is_refused_as_well(fields: dict[str, Any], what: str) -> None:
    """An invalid value of any type is an `InvalidSpec`, raised where the user writes it."""
    with pytest.raises(InvalidSpec, match=rf"^Backoff: {what}, wanted "):
        Backoff.exponential(**{"base": 1, **fields})
