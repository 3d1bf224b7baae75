"""Storms: agents that all come back at once (G-17), and groups that go wrong together (TREE-31)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.errors import InvalidGang, InvalidStartRate
from otpy_agents.worklist.gang import Gang, GangAction, GangWatch
from otpy_agents.worklist.start_rate import StartRate, StartSlots

shares = st.floats(0, 1)


@given(
    st.integers(1, 5),
    st.floats(0.1, 100),
    shares,
    st.lists(st.tuples(st.floats(0, 50), shares), max_size=60),
)
def test_starts_are_in_order_and_never_more_than_the_limit(
    starts: int, seconds: float, jitter: float, asked: list[tuple[float, float]]
) -> None:
    """Every span of `seconds` has at most `starts` starts, for any draw of chance."""
    slots = StartSlots(StartRate(starts=starts, seconds=seconds, jitter=jitter))
    now, given_at = 0.0, list[float]()
    for pause, chance in asked:
        now += pause
        slots, wait = slots.take(now, chance)
        assert wait >= 0
        given_at.append(now + wait)
    assert all(one <= two + 1e-9 for one, two in pairwise(given_at))
    for number, at in enumerate(given_at[starts:]):
        assert at - given_at[number] >= seconds - 1e-6


def test_a_burst_is_free_and_the_rest_waits() -> None:
    """Two at once, then two a second; each one that waits waits a moment of chance more."""
    slots = StartSlots(StartRate(starts=2, seconds=1.0, jitter=0.5))
    waits = list[float]()
    for _ in range(5):
        slots, wait = slots.take(0.0, 1.0)
        waits.append(wait)
    assert waits == [0.0, 0.0, 1.5, 1.5, 3.75]


def test_after_a_quiet_time_the_burst_is_free_again() -> None:
    """Unused starts are not saved up beyond the burst."""
    slots = StartSlots(StartRate(starts=1, seconds=2.0, jitter=0.0))
    slots, _ = slots.take(0.0, 0.0)
    slots, wait = slots.take(100.0, 0.0)
    assert wait == 0
    slots, wait = slots.take(100.0, 0.0)
    assert wait == 2


@pytest.mark.parametrize(
    "wrong", [{"starts": 0}, {"seconds": 0.0}, {"seconds": float("inf")}, {"jitter": 1.1}]
)
def test_a_limit_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    """The constructor checks each number."""
    with pytest.raises(InvalidStartRate, match=next(iter(wrong))):
        StartRate(**wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_one_member_that_fails_again_and_again_is_no_gang() -> None:
    """Its own restart window takes care of it."""
    watch = GangWatch(Gang(name="g", failures=2, within=10.0))
    for second in range(9):
        watch, together = watch.fail("a", second)
        assert together == ()


def test_several_members_within_the_window_are_one() -> None:
    """They are named, and the group is judged once for them."""
    watch = GangWatch(Gang(name="g", failures=3, within=10.0, action=GangAction.RESTART))
    for second, member in enumerate("ab"):
        watch, together = watch.fail(member, second)
        assert together == ()
    watch, together = watch.fail("c", 5)
    assert together == ("a", "b", "c")
    watch, together = watch.fail("a", 6)
    assert together == ()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 8)), max_size=40))
def test_who_is_named_failed_within_the_window(history: list[tuple[str, float]]) -> None:
    """No member is named for a failure that is too old, or that was named before."""
    gang = Gang(name="g", failures=2, within=10.0)
    watch, now = GangWatch(gang), 0.0
    last = dict[str, float]()
    for member, pause in history:
        now += pause
        last[member] = now
        watch, together = watch.fail(member, now)
        if together:
            assert member in together
            assert len(together) >= gang.failures
            assert all(now - last.pop(name) < gang.within for name in together)
        else:
            assert sum(now - at < gang.within for at in last.values()) < gang.failures


@pytest.mark.parametrize("wrong", [{"name": " "}, {"failures": 1}, {"within": 0.0}])
def test_a_group_that_cannot_go_wrong_is_refused(wrong: dict[str, object]) -> None:
    """The constructor checks each setting."""
    settings = {"name": "g", **wrong}
    with pytest.raises(InvalidGang, match=next(iter(wrong))):
        Gang(**settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
