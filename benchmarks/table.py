"""The table: one row for each metric, in markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.catalogue import FLOOR, OTPY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.interpreters import Setting
    from benchmarks.series import Series
    from benchmarks.workload import Metric, Workload

NOTHING: Final = "–"
_UNITS: Final = {"us": "µs", "times": ""}


def number(value: float | None, unit: str = "") -> str:
    """Return `value` with three digits that count."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2
    if unit == "bytes":
        digits = 0
    return f"{value:,.{digits}f}"


def table(
    series: Series, workloads: Iterable[Workload], setting: Setting, subjects: Sequence[str]
) -> str:
    """Return all metrics of one setting as a markdown table."""
    others = [name for name in subjects if name not in {FLOOR, OTPY}]
    others = [n for n in others if any(k[0] == setting and k[2] == n for k in series.readings)]
    heads = ["measured", "unit", FLOOR, OTPY, "otpy / floor", "goal", "met", *others]
    lines = [_line(heads), _line(["---", "---", *["---:"] * 4, "---", *["---:"] * len(others)])]
    for workload in workloads:
        for metric in workload.metrics:
            cells = list(_cells(series, workload, metric, setting))
            if cells[1] == cells[2] == NOTHING:
                continue  # left out, or interrupted
            peers = (_peer(series, setting, workload, name, metric) for name in others)
            lines.append(_line([metric.title, *cells, *peers]))
    return "\n".join(lines)


def _cells(series: Series, workload: Workload, metric: Metric, setting: Setting) -> Iterator[str]:
    floor, ours = (series.median(setting, workload.name, s, metric) for s in (FLOOR, OTPY))
    ratio = series.ratio(setting, workload.name, OTPY, metric)
    yield _UNITS.get(metric.unit, metric.unit)
    yield number(floor, metric.unit)
    yield number(ours, metric.unit)
    yield number(ratio)
    yield _goal(metric)
    yield _met(metric, ours, ratio)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _goal(metric: Metric) -> str:
    if metric.goal is not None:
        return f"≤ {metric.goal:g} ×"
    if metric.most is not None:
        return f"≤ {metric.most:g} {_UNITS.get(metric.unit, metric.unit)}".rstrip()
    return ""


def _met(metric: Metric, ours: float | None, ratio: float | None) -> str:
    got, wanted = (ratio, metric.goal) if metric.goal is not None else (ours, metric.most)
    if got is None or wanted is None:
        return ""
    return "yes" if got <= wanted else "no"


def _peer(series: Series, setting: Setting, workload: Workload, name: str, metric: Metric) -> str:
    value = series.median(setting, workload.name, name, metric)
    ratio = series.ratio(setting, workload.name, name, metric)
    if value is None:
        return NOTHING
    return f"{number(value, metric.unit)} ({number(ratio)} ×)"
