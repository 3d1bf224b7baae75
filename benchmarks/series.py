"""Many measurements, each in a process of its own, subjects in turn."""

from __future__ import annotations

import json
import os
import subprocess
from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import field, frozen

from benchmarks import erlang
from benchmarks.catalogue import ERLANG, FLOOR, OTPY
from benchmarks.interpreters import ROOT, Setting, python_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.meter import Reading
    from benchmarks.workload import Metric, Workload

_PATIENCE: Final = 900.0  # seconds for one process


def _keys(metric: Metric) -> tuple[str, str, str]:
    return f"{metric.key}.cpu", f"{metric.key}.wall", metric.key


Key: TypeAlias = tuple[Setting, str, str]
"""Setting, workload, subject."""


@final
@frozen
class Series:
    """What was measured.

    Attributes:
        readings: What each process found, oldest first.
        refusals: What a subject cannot do, and why.
        failures: What a process that ended badly wrote, or that it took too long.
    """

    readings: dict[Key, list[Reading]] = field(factory=dict[Key, "list[Reading]"])
    refusals: dict[Key, str] = field(factory=dict[Key, str])
    failures: dict[Key, str] = field(factory=dict[Key, str])

    def values(self, setting: Setting, workload: str, subject: str, metric: Metric) -> list[float]:
        """Return all values of a metric; CPU time where there is one, it is the calmer one."""
        for key in _keys(metric):
            if values := self._all(setting, workload, subject, key):
                return values
        return []

    def _all(self, setting: Setting, workload: str, subject: str, key: str) -> list[float]:
        found = self.readings.get((setting, workload, subject), ())
        return [reading[key] for reading in found if key in reading]

    def median(self, setting: Setting, workload: str, subject: str, metric: Metric) -> float | None:
        """Return the median of a metric; None if it was not measured."""
        values = self.values(setting, workload, subject, metric)
        return median(values) if values else None

    def ratio(self, setting: Setting, workload: str, subject: str, metric: Metric) -> float | None:
        """Return the median of subject to floor, run by run; None without a floor."""
        for key in _keys(metric):
            mine = self._all(setting, workload, subject, key)
            floors = self._all(setting, workload, FLOOR, key)
            ratios = [a / b for a, b in zip(mine, floors, strict=False) if b > 0]
            if ratios:
                return median(ratios)
        return None


def run(
    workloads: Iterable[Workload],
    subjects: Sequence[str],
    settings: Sequence[Setting],
    *,
    runs: int,
    short: bool,
    progress: Callable[[str], None],
) -> Series:
    """Measure everything `runs` times, subjects in turn.

    What stands first changes from run to run, so that whatever slows the machine down meanwhile
    hits all of them. Where a process fails, its subject is left out of that workload from then on.
    """
    series = Series()
    for workload in workloads:
        size = workload.short if short else workload.size
        for turn in range(min(runs, workload.runs or runs) if size else 0):
            order = subjects if turn % 2 == 0 else subjects[::-1]
            for setting in settings:
                for subject in order:
                    key = (setting, workload.name, subject)
                    if not _belongs(subject, setting, settings):
                        continue
                    if key in series.refusals or key in series.failures:
                        continue
                    progress(f"{workload.name}: {subject}, {setting}, run {turn + 1}")
                    try:
                        _note(series, key, _measured(key, size))
                    except subprocess.SubprocessError as error:
                        series.failures[key] = str(error)
    return series


def _belongs(subject: str, setting: Setting, settings: Sequence[Setting]) -> bool:
    """Whether `subject` is measured here: those that are not otpy's are measured once."""
    return setting == settings[0] or subject in {FLOOR, OTPY}


def _note(series: Series, key: Key, found: dict[str, float | str]) -> None:
    why = found.get("unsupported")
    if why is not None:
        series.refusals[key] = str(why)
    else:
        reading = {name: float(value) for name, value in found.items()}
        series.readings.setdefault(key, []).append(reading)


def _measured(key: Key, size: int) -> dict[str, float | str]:
    setting, workload, subject = key
    if subject == ERLANG:
        command: list[object] = erlang.command(workload, size)
    else:
        python = python_for(setting, subject)
        command = [python, "-m", "benchmarks.measure", workload, subject, size, setting.loop]
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
    )
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr or done.stdout)
    found: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return found
