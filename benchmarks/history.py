"""What earlier runs found, one line of JSON for each, so that a regression shows."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from benchmarks.catalogue import OTPY, UNHEARD, WORKLOADS
from benchmarks.interpreters import ROOT
from benchmarks.table import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.interpreters import Setting
    from benchmarks.series import Series

Record: TypeAlias = dict[str, Any]

HISTORY: Final = Path(__file__).with_name("history.jsonl")
_EARLIER: Final = 5  # runs that the newest is compared with
_WORSE: Final = 1.15  # times the usual; below is noise


def commit() -> str:
    """Return the commit that is checked out, with `+` if files differ from it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """Return what the numbers were taken on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    return f"{platform.system()}, {os.cpu_count()} × {model}"


def record_of(
    series: Series, settings: Sequence[Setting], subjects: Iterable[str], runs: int
) -> Record:
    """Return what a run found, to be kept."""
    results: dict[str, Any] = {}
    for setting in settings:
        for workload in WORKLOADS.values():
            for metric in workload.metrics:
                name = f"{setting} | {workload.name} | {metric.key}"
                medians = {s: series.median(setting, workload.name, s, metric) for s in subjects}
                kept = {s: round(value, 4) for s, value in medians.items() if value is not None}
                if kept:
                    ratio = series.ratio(setting, workload.name, UNHEARD, metric)
                    results[name] = kept if ratio is None else kept | {"ratio": round(ratio, 4)}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "commit": commit(),
        "date": when,
        "machine": machine(),
        "runs": runs,
        "results": results,
    }


def append(record: Record) -> None:
    """Keep `record` as the newest."""
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read() -> list[Record]:
    """Return all that is kept, oldest first."""
    if not HISTORY.exists():
        return []
    return [json.loads(line) for line in HISTORY.read_text(encoding="utf-8").splitlines()]


def regressions(records: Sequence[Record]) -> list[str]:
    """Return what the newest of `records` does worse than those before it, on its machine.

    Compared are the ratios to the floor, which was measured in the same minutes; what has no
    ratio is compared by itself.
    """
    *before, newest = records
    before = [record for record in before if record["machine"] == newest["machine"]]
    found: list[str] = []
    for name, entry in newest["results"].items():
        now = _figure(entry)
        earlier = [_figure(r["results"][name]) for r in before if name in r["results"]]
        usual = [figure for figure in earlier[-_EARLIER:] if figure is not None]
        if now is not None and usual and now > median(usual) * _WORSE:
            found.append(f"{name}: {number(now)}, was {number(median(usual))}")
    return found


def _figure(entry: dict[str, float]) -> float | None:
    return entry.get("ratio", entry.get(UNHEARD, entry.get(OTPY)))
