"""The table: one row for each metric, in markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.catalogue import FLOOR, OTPY, OWN, PEERS, UNHEARD

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
    others = [name for name in subjects if name not in OWN]
    others = [n for n in others if any(k[0] == setting and k[2] == n for k in series.readings)]
    peers = [name for name in others if name in PEERS and PEERS[name].restarts]
    heads = ["measured", "unit", FLOOR, OTPY, "otpy / floor", "goal", "met", f"`{UNHEARD}`"]
    lines = [
        _line([*heads, *(["ahead of peers"] if peers else []), *others]),
        _line(
            [
                "---",
                "---",
                *["---:"] * 4,
                "---",
                "---:",
                *["---"] * bool(peers),
                *["---:"] * len(others),
            ]
        ),
    ]
    for workload in workloads:
        for metric in workload.metrics:
            cells = list(_cells(series, workload, metric, setting))
            if cells[1] == cells[2] == NOTHING:
                continue  # left out, or interrupted
            if peers:
                cells.append(_ahead(series, setting, workload, peers, metric))
            cells += (_other(series, setting, workload, name, metric) for name in others)
            lines.append(_line([metric.title, *cells]))
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
    yield _other(series, setting, workload, UNHEARD, metric)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _goal(metric: Metric) -> str:
    goals: list[str] = []
    if metric.goal is not None:
        goals.append(f"{metric.goal:g} ×")
    if metric.most is not None:
        goals.append(f"{metric.most:,g} {_UNITS.get(metric.unit, metric.unit)}".rstrip())
    return f"≤ {', '.join(goals)}" if goals else ""


def _met(metric: Metric, ours: float | None, ratio: float | None) -> str:
    pairs = [(ratio, metric.goal), (ours, metric.most)]
    got = [got <= wanted for got, wanted in pairs if got is not None and wanted is not None]
    return "" if not got else "yes" if all(got) else "no"


def _ahead(
    series: Series, setting: Setting, workload: Workload, peers: Sequence[str], metric: Metric
) -> str:
    """Return whether otpy takes less than each peer; if not, which of them take less."""
    ours = series.median(setting, workload.name, OTPY, metric)
    theirs = {name: series.median(setting, workload.name, name, metric) for name in peers}
    taken = {name: value for name, value in theirs.items() if value is not None}
    if ours is None or not taken or not metric.compared:
        return ""
    better = [name for name, value in taken.items() if value < ours]
    return f"no: {', '.join(better)}" if better else "yes"


def _other(series: Series, setting: Setting, workload: Workload, name: str, metric: Metric) -> str:
    value = series.median(setting, workload.name, name, metric)
    ratio = series.ratio(setting, workload.name, name, metric)
    if value is None:
        return NOTHING
    return f"{number(value, metric.unit)} ({number(ratio)} ×)"
