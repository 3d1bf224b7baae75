"""Many measurements, each in a process of its own, subjects in turn."""

from __future__ import annotations

import json
import os
import subprocess
from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import field, frozen

from benchmarks import erlang
from benchmarks.catalogue import ERLANG, FLOOR, OWN, PEERS
from benchmarks.interpreters import ROOT, Setting, python_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.meter import Reading
    from benchmarks.workload import Metric, Workload

_PATIENCE: Final = 300.0  # seconds for one process
_PATIENCE_WITH_OTHERS: Final = 60.0
_RUNS_OF_OTHERS: Final = 3


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
        failures: What a process that ended badly wrote, or that it took too long; only of the
            floor and otpy. Where others fail, they are said to be unable.
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
        for turn in range(runs):
            order = subjects if turn % 2 == 0 else subjects[::-1]
            for setting in settings if workload.everywhere else settings[:1]:
                for subject in order:
                    key = (setting, workload.name, subject)
                    size = size_of(workload, subject, short=short)
                    if not size or not _has_a_turn(subject, turn, setting == settings[0]):
                        continue
                    if key in series.refusals or key in series.failures:
                        continue
                    progress(f"{workload.name}: {subject}, {setting}, run {turn + 1}")
                    _measure(series, key, size)
    return series


def size_of(workload: Workload, subject: str, *, short: bool) -> int:
    """Return how many of what `subject` does; 0 leaves it out."""
    if short:
        return workload.short
    return workload.size if subject in OWN or workload.others is None else workload.others


def _has_a_turn(subject: str, turn: int, first_setting: bool) -> bool:  # noqa: FBT001 - private
    return subject in OWN or (first_setting and turn < _RUNS_OF_OTHERS)


def _measure(series: Series, key: Key, size: int) -> None:
    _, workload, subject = key
    try:
        _note(series, key, _measured(key, size))
    except subprocess.SubprocessError as error:
        if subject in OWN:
            series.failures[key] = str(error)
        else:
            last = str(error).strip().splitlines()[-1]
            series.refusals[key] = f"{subject}: {workload} failed: {last}"


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
    elif subject in PEERS and PEERS[subject].place is None:
        python = python_for(setting, subject)
        command = [python, "-m", f"benchmarks.subjects.{subject}_program", workload, size]
    else:
        python = python_for(setting, subject)
        command = [python, "-m", "benchmarks.measure", workload, subject, size, setting.loop]
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE if subject in OWN else _PATIENCE_WITH_OTHERS,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
    )
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr or done.stdout)
    found: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return found
