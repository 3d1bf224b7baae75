from __future__ import annotations

from typing import Any

from benchmarks.catalogue import FLOOR, OTPY, OWN, UNHEARD
from benchmarks.history import regressions
from benchmarks.interpreters import Setting
from benchmarks.series import Series
from benchmarks.table import table
from benchmarks.workload import Metric, Workload
from benchmarks.workloads.start import measure_start

SETTING = Setting("3.11")
WORKLOAD = Workload(
    "start",
    measure_start,
    size=1,
    short=1,
    tiny=1,
    metrics=(
        Metric("start", "start", goal=2.0),
        Metric("left", "left", "bytes", most=0.0),
        Metric("held", "held", "bytes", goal=1.5, most=1000.0),
    ),
)


def _row(series: Series, title: str, *others: str) -> list[str]:
    lines = table(series, [WORKLOAD], SETTING, [*OWN, *others]).splitlines()
    return [cell for line in lines if f"| {title} |" in line for cell in line.split(" | ")[2:]]


def test_a_ratio_is_taken_run_by_run() -> None:
    """A slow machine slows both subjects of a run, and leaves their ratio unchanged."""
    series = Series()
    floors, ours = (1.0, 10.0, 1.0), (3.0, 30.0, 3.0)
    series.readings[SETTING, "start", FLOOR] = [{"start.cpu": us} for us in floors]
    series.readings[SETTING, "start", OTPY] = [{"start.cpu": us} for us in ours]
    assert _row(series, "start") == ["1.00", "3.00", "3.00", "≤ 2 ×", "no", "– |"]


def test_what_it_takes_where_nobody_hears_stands_beside_the_default() -> None:
    """The goal applies to the default, which users have."""
    series = Series()
    for who, us in ((FLOOR, 1.0), (OTPY, 3.0), (UNHEARD, 1.5)):
        series.readings[SETTING, "start", who] = [{"start.cpu": us}]
    assert _row(series, "start")[-2:] == ["no", "1.50 (1.50 ×) |"]


def test_a_goal_may_be_a_number_of_its_own() -> None:
    """A goal that is not a ratio is compared with the number itself, and needs no floor."""
    series = Series()
    series.readings[SETTING, "start", OTPY] = [{"left": 0.0}]
    assert _row(series, "left") == ["–", "0", "–", "≤ 0 bytes", "yes", "– |"]


def test_both_goals_of_a_number_must_be_met() -> None:
    """A good ratio does not make up for a number that is too large."""
    series = Series()
    series.readings[SETTING, "start", FLOOR] = [{"held": 1000.0}]
    series.readings[SETTING, "start", OTPY] = [{"held": 1100.0}]
    assert _row(series, "held") == ["1,000", "1,100", "1.10", "≤ 1.5 ×, 1,000 bytes", "no", "– |"]


def test_who_is_faster_is_named() -> None:
    """A project is ahead of its peers if it takes less than each that restarts anything."""
    series = Series()
    for who, us in ((FLOOR, 1.0), (OTPY, 3.0), ("mode", 2.0), ("triotp", 9.0), ("aiotools", 1.0)):
        series.readings[SETTING, "start", who] = [{"start.cpu": us}]
    peers = ("mode", "triotp", "aiotools")
    assert _row(series, "start", *peers)[-4] == "no: mode"
    series.readings[SETTING, "start", OTPY] = [{"start.cpu": 1.9}]
    assert _row(series, "start", *peers)[-4] == "yes"


def _record(ratio: float, machine: str = "mine") -> dict[str, Any]:
    return {"machine": machine, "results": {"call": {"otpy": 1.0, "ratio": ratio}}}


def test_a_regression_shows() -> None:
    """A number that is clearly higher than usual is named, with both values."""
    assert regressions([_record(1.0), _record(1.1), _record(1.5)]) == ["call: 1.50, was 1.05"]


def test_noise_and_other_machines_are_no_regressions() -> None:
    """A few percent are noise, and measurements of another machine do not count."""
    assert regressions([_record(1.0), _record(1.1)]) == []
    assert regressions([_record(0.1, machine="faster"), _record(1.0)]) == []
