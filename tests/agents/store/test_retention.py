"""The runs that are kept after their end: a decision over values."""

from __future__ import annotations

import pytest
from attrs import evolve

from otpy_agents.store import RunRecord
from otpy_agents.store.retention import Retention, outgrown, seconds_of

DAY = 86400.0
NOW = 100 * DAY


def ended(run: str, days_ago: float | None, label: str = "") -> RunRecord:
    """Return a run that ended so long ago; None for one that has not."""
    finished = None if days_ago is None else NOW - days_ago * DAY
    return RunRecord(
        id=run,
        host=1,
        fence=1,
        version=1,
        status="done",
        agent="claude",
        prompt="",
        cwd="/",
        label=label,
        created=0.0,
        changed=0.0,
        finished=finished,
        exit_code=None if finished is None else 0,
    )


RUNS = [ended("old", 40), ended("new", 1), ended("older", 50), ended("open", None)]


def test_a_run_is_kept_for_thirty_days() -> None:
    """This is the default; the runs that ended first come first, and unfinished ones stay."""
    assert outgrown(RUNS, {}, Retention(), NOW) == ("older", "old")


def test_the_oldest_go_first_where_there_is_no_room() -> None:
    """They go until all others fit; an unfinished run counts, and stays."""
    sizes = {"old": 10, "new": 10, "older": 10, "open": 10}
    assert outgrown(RUNS, sizes, Retention(seconds=None, size=40), NOW) == ()
    assert outgrown(RUNS, sizes, Retention(seconds=None, size=25), NOW) == ("older", "old")
    assert outgrown(RUNS, sizes, Retention(seconds=None, size=0), NOW) == ("older", "old", "new")


def test_runs_of_work_lists_are_left_to_their_lists() -> None:
    """An assignment that is not done may still resume one."""
    listed = evolve(ended("listed", 90), label="list/a/1")
    assert outgrown([listed], {"listed": 10}, Retention(size=0), NOW) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Retention()),
        ("90d", Retention(seconds=90 * DAY, size=None)),
        ("1.5GB 12h", Retention(seconds=DAY / 2, size=1_500_000_000)),
        ("all", Retention(seconds=None, size=None)),
    ],
)
def test_what_is_kept_can_be_said(text: str, expected: Retention) -> None:
    """A variable may give an age, a size, both, or all."""
    assert Retention.of({"OTPY_KEEP_RUNS": text}) == expected


def test_an_age_needs_its_unit() -> None:
    """A bare 30 is ambiguous."""
    assert [seconds_of(text) for text in ("30d", "90m", "0s", "30", "-1d", "d")] == [
        30 * DAY,
        5400.0,
        0.0,
        None,
        None,
        None,
    ]
