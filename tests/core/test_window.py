"""The restart window: OTP's arithmetic, in whole seconds."""

from __future__ import annotations

from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy._core.spec import INFINITY
from otpy._core.window import RestartWindow


def allowed(intensity: int, period: float, times: list[float]) -> list[bool]:
    """Return what a window answers to restarts at `times`."""
    window = RestartWindow(intensity, period)
    return [window.add(time) for time in times]


@pytest.mark.parametrize("intensity", [1, 2, 3, 10])
def test_one_restart_more_than_the_intensity_is_refused(intensity: int) -> None:
    """N restarts are allowed inside the window, the next one is not (SUP-504)."""
    assert allowed(intensity, 5, [7.0] * (intensity + 1)) == [True] * intensity + [False]


def test_intensity_zero_allows_no_restart_ever() -> None:
    """This holds for the first restart, and for one long after (SUP-504)."""
    assert allowed(0, 1, [0.0, 1000.0, 2000.0]) == [False, False, False]


@pytest.mark.parametrize(
    ("tick", "gap", "survives"),
    [
        (0.02, 0.5, False),
        (0.02, 1.5, False),
        (0.02, 1.9, False),
        (0.02, 2.05, True),
        (0.9, 1.2, True),
    ],
)
def test_times_are_cut_to_whole_seconds(tick: float, gap: float, survives: bool) -> None:
    """SUP-505, AIO-21: the gaps are those observed on OTP with one restart a second."""
    for second in (0, 1, 41_000):
        assert allowed(1, 1, [second + tick, second + tick + gap]) == [True, survives]


def test_a_restart_exactly_one_period_ago_still_counts() -> None:
    """The boundary belongs to the window (SUP-503)."""
    assert allowed(1, 5, [0.0, 5.0]) == [True, False]
    assert allowed(1, 5, [0.999, 5.0]) == [True, False]
    assert allowed(1, 5, [0.0, 5.999]) == [True, False]
    assert allowed(1, 5, [0.999, 6.0]) == [True, True]


def test_the_window_slides() -> None:
    """With two per two seconds, 0, 1, 3, 4 survive, a fifth right after does not (SUP-506)."""
    assert allowed(2, 2, [0.0, 1.0, 3.0, 4.0, 4.0]) == [True, True, True, True, False]


def test_a_success_resets_nothing() -> None:
    """The window forgets restarts one by one as they grow old, not all at once (SUP-506)."""
    assert allowed(2, 5, [0.0, 4.0, 6.0, 8.0]) == [True, True, True, False]


def test_a_refused_restart_is_counted_too() -> None:
    """A caller that goes on after a refusal is refused until the window is clear again."""
    assert allowed(1, 2, [0.0, 2.0, 4.0, 7.0]) == [True, False, False, True]


def test_it_remembers_no_more_than_lies_in_it() -> None:
    """A restart older than the period is dropped, whatever the limit."""
    for limit in (3, 10**30):
        window = RestartWindow(limit, 1)
        assert len(window) == 0
        for second in range(0, 1000, 2):
            window.add(second)
        assert len(window) == 1


def test_it_keeps_one_number_for_each_second() -> None:
    """A high limit costs no memory for the restarts of the period."""
    window = RestartWindow(10**9, 5)
    for tick in range(10_000):
        assert window.add(tick / 100)
    assert len(window) == 5 * 100 + 100
    assert len(window._before) == 5


def test_without_a_limit_nothing_is_counted() -> None:
    """`INFINITY` allows every restart, and keeps none of another second."""
    window = RestartWindow(INFINITY, 3600)
    for second in range(1000):
        assert window.add(second)
    assert not window._before


def test_a_limit_that_is_set_later_begins_with_nothing() -> None:
    """Restarts counted under no limit do not count under a later one, nor the reverse."""
    window = RestartWindow(INFINITY, 60)
    for second in range(10):
        window.add(second)
    window.change(1, 60)
    assert [window.add(10), window.add(11)] == [True, False]
    window.change(INFINITY, 60)
    assert window.add(12)
    assert len(window) <= 1


Look = tuple[float, int, int]
"""Seconds since the look before, and the limit and the period that are set then, 0 for none."""


@given(
    st.integers(0, 5) | st.just(10**30),
    st.integers(1, 6),
    st.lists(
        st.tuples(
            st.floats(0, 4),
            st.integers(0, 20).map(lambda n: n if n < 6 else 0),
            st.integers(0, 20).map(lambda n: n if n < 9 else 0),
        ),
        max_size=60,
    ),
    st.floats(0, 1e9),
)
def test_it_decides_as_the_long_way_would(
    limit: int, period: int, looks: list[Look], start: float
) -> None:
    """It decides every restart like the rule of SUP-503 written out with a list."""
    window = RestartWindow(limit, period)
    kept: list[int] = []
    now = start
    for gap, new_limit, new_period in looks:
        if new_limit and new_period:
            limit, period = new_limit, new_period
            window.change(limit, period)
        now += gap
        kept = [second for second in kept if second >= floor(now) - period]
        kept.append(floor(now))
        assert window.add(now) is (len(kept) <= limit)
        assert len(window) == len(kept)
