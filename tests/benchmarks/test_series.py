from __future__ import annotations

import subprocess

import pytest

from benchmarks import series
from benchmarks.catalogue import FLOOR, OTPY, PEERS, WORKLOADS
from benchmarks.interpreters import ROOT, Setting
from benchmarks.series import Key

SETTING = Setting("3.11")


def test_a_process_that_fails_costs_no_other_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure of one process is reported, and the other measurements are kept."""

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
    """The subjects take turns in running first, because the machine may vary."""
    order: list[str] = []

    def measured(key: Key, size: int) -> dict[str, float | str]:
        order.append(key[2])
        return {"start.cpu": float(size)}

    monkeypatch.setattr(series, "_measured", measured)
    workloads = [WORKLOADS["start"]]
    series.run(workloads, [FLOOR, OTPY], [SETTING], runs=2, short=True, progress=lambda _: None)
    assert order == [FLOOR, OTPY, OTPY, FLOOR]


def test_others_do_less_and_only_in_the_first_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other projects cost minutes, not hours; otpy and the floor are measured everywhere."""
    done: list[tuple[str, str, int]] = []

    def measured(key: Key, size: int) -> dict[str, float | str]:
        done.append((str(key[0]), key[2], size))
        return {"churn.cpu": float(size)}

    monkeypatch.setattr(series, "_measured", measured)
    churn, million = WORKLOADS["churn"], WORKLOADS["million"]
    settings = [SETTING, Setting("3.12")]
    subjects = [FLOOR, "mode"]
    series.run([churn], subjects, settings, runs=5, short=False, progress=lambda _: None)
    assert done.count((str(SETTING), "mode", 20_000)) == 3
    assert {(where, who, size) for where, who, size in done if who == "mode"} == {
        (str(SETTING), "mode", 20_000)
    }
    for setting in settings:
        assert done.count((str(setting), FLOOR, 100_000)) == 5
    done.clear()
    series.run([million], subjects, settings, runs=5, short=False, progress=lambda _: None)
    assert done == [(str(SETTING), FLOOR, 1_000_000)] * 5


def test_what_others_fail_at_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown beside the table; it is not retried, and does not fail the command."""

    def measured(key: Key, size: int) -> dict[str, float | str]:
        raise subprocess.SubprocessError("Traceback …\nKeyError: 1")

    monkeypatch.setattr(series, "_measured", measured)
    got = series.run(
        [WORKLOADS["start"]], ["mode"], [SETTING], runs=3, short=True, progress=lambda _: None
    )
    assert got.failures == {}
    assert got.refusals == {(SETTING, "start", "mode"): "mode: start failed: KeyError: 1"}


@pytest.mark.parametrize("name", list(PEERS))
def test_every_project_has_a_file(name: str) -> None:
    """Each has a subject, or the program that represents it."""
    place = PEERS[name].place or f"benchmarks.subjects.{name}_program:main"
    module, _, _ = place.partition(":")
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
