from __future__ import annotations

import subprocess

import pytest

from benchmarks import series
from benchmarks.catalogue import FLOOR, OTPY, WORKLOADS
from benchmarks.interpreters import Setting
from benchmarks.series import Key

SETTING = Setting("3.11")


def test_a_process_that_fails_costs_no_other_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process that ends badly is told of, and what the others measure in an hour is kept."""

    def measured(key: Key, size: int) -> dict[str, float | str]:
        if key[2] == OTPY:
            raise subprocess.SubprocessError("out of memory")
        return {"start.cpu": float(size)}

    monkeypatch.setattr(series, "_measured", measured)
    told: list[str] = []
    got = series.run(
        [WORKLOADS["start"]], [FLOOR, OTPY], [SETTING], runs=3, short=True, progress=told.append
    )
    assert got.failures == {(SETTING, "start", OTPY): "out of memory"}
    assert len(got.readings[SETTING, "start", FLOOR]) == 3


def test_who_is_first_changes_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No subject always runs first, when the machine may be in another mood."""
    order: list[str] = []

    def measured(key: Key, size: int) -> dict[str, float | str]:
        order.append(key[2])
        return {"start.cpu": float(size)}

    monkeypatch.setattr(series, "_measured", measured)
    workloads = [WORKLOADS["start"]]
    series.run(workloads, [FLOOR, OTPY], [SETTING], runs=2, short=True, progress=lambda _: None)
    assert order == [FLOOR, OTPY, OTPY, FLOOR]
