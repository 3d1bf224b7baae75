"""`otpy-agents up` with several lists at the same time."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from otpy_agents import open_app
from otpy_agents.app import App
from otpy_agents.cli import main, up
from otpy_agents.worklist.assignment import WorkList
from tests.agents.host import ENVIRONMENT, Site, entry, shell, state_of, survivors

pytestmark = pytest.mark.real_time

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(60)"


@pytest.fixture
def other(site: Site) -> Path:
    """The second list."""
    return site.folder / "other.toml"


def test_both_are_worked_off_at_the_same_time_and_once(site: Site, other: Path) -> None:
    """Each waits for the other's work; a second run has nothing left to do."""
    site.write(shell("a", "touch $DID.a; until [ -e $DID.b ]; do sleep 0.05; done"))
    other.write_text(
        shell("b", "touch $DID.b; until [ -e $DID.a ]; do sleep 0.05; done"), encoding="utf-8"
    )
    status, host = site.run(str(other))
    assert (status, host.stderr) == (0, "")
    assert host.summary() == {"w/a": "done", "other/b": "done"}
    assert sorted(host.told("mortal.done")) == ["other/b", "w/a"]
    status, host = site.run(str(other))
    assert (status, host.told("mortal.started")) == (0, [])
    assert host.summary() == {"w/a": "done", "other/b": "done"}


def test_a_list_that_is_in_use_keeps_no_other_from_its_work(site: Site, other: Path) -> None:
    """One line names the used list, and the command fails."""
    site.write(entry("a", ["sleep", "60"]))
    other.write_text(entry("b", ["true"]), encoding="utf-8")
    first = site.up()
    first.until("mortal.started")
    status, second = site.run(str(other))
    assert status == 1
    assert second.summary() == {"other/b": "done"}
    (line,) = second.stderr.splitlines()
    assert line.startswith("otpy-agents: ")
    assert "w.sqlite" in line


def test_a_list_whose_budgets_cannot_be_read_is_named(site: Site, other: Path) -> None:
    """One line says which list and why, and the command fails though the other list is done."""
    site.write(entry("a", ["true"]))
    other.write_text(entry("b", ["true"]), encoding="utf-8")
    assert site.run()[0] == 0
    with closing(sqlite3.connect(site.file.with_suffix(".sqlite"))) as database, database:
        database.execute("UPDATE document SET text = '{bad'")
    status, host = site.run(str(other))
    assert status == 1
    assert host.summary() == {"other/b": "done"}
    assert host.stderr == "otpy-agents: w: stored ledger: it is '{bad', wanted JSON\n"


def test_a_list_that_crashes_makes_the_command_fail(
    site: Site, other: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other list is worked off, and a line names the one that crashed."""
    for file in (site.file, other):
        file.write_text(entry("a", ["true"]), encoding="utf-8")

    def opened(work: WorkList, **options: Any) -> AbstractAsyncContextManager[App]:
        if work.name == "w":
            raise KeyError("lost")
        return open_app(work, **options)

    monkeypatch.setattr(up, "open_app", opened)
    for name, value in state_of(site.file).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main(["up", str(site.file), str(other)])
    assert caught.value.code == 1
    written = capsys.readouterr()
    assert "other/a" in written.out
    assert "otpy-agents: w: crashed: KeyError: " in written.err


def test_ctrl_c_stops_all_and_once_more_kills_all(site: Site, other: Path) -> None:
    """Each list is a tree in a child of another tree; none of their processes is left."""
    for file, name in ((site.file, "a"), (other, "b")):
        deaf = entry(name, [sys.executable, "-uc", DEAF], grace=50)
        file.write_text(deaf, encoding="utf-8")
    host = site.up(str(other))
    for _ in range(2):
        host.until("mortal.output")
    host.signal(signal.SIGINT)
    host.said("SIGINT: stopping")
    began = time.monotonic()
    host.signal(signal.SIGINT)
    assert host.end() == 130
    assert time.monotonic() - began < 10
    assert survivors(site.file) == survivors(other) == []


def test_each_can_be_asked_by_its_list(site: Site, other: Path) -> None:
    """A second terminal finds both trees."""
    site.write(entry("a", ["sleep", "60"]))
    other.write_text(entry("b", ["sleep", "60"]), encoding="utf-8")
    host = site.up(str(other))
    for _ in range(2):
        host.until("mortal.started")
    for file, name in ((site.file, "a"), (other, "b")):
        asked = subprocess.run(
            [
                sys.executable,
                "-m",
                "otpy_agents",
                "reap",
                name,
                "--why",
                "enough",
                "--list",
                str(file),
            ],
            env={**ENVIRONMENT, **state_of(site.file)},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert (asked.returncode, asked.stderr) == (0, "")
    assert host.end() == 1
    assert host.summary() == {"w/a": "reaped", "other/b": "reaped"}


def test_lists_of_one_name_go_by_their_paths(site: Site) -> None:
    """With names alone, a line could be about either list."""
    there = site.folder / "there"
    there.mkdir()
    second = there / "w.toml"
    site.write(entry("a", ["true"]))
    second.write_text(entry("a", ["false"], restarts=0), encoding="utf-8")
    status, host = site.run(str(second))
    assert status == 1
    assert host.summary() == {f"{site.file}/a": "done", f"{second}/a": "reaped"}


@pytest.mark.parametrize("second", ["w.toml", "missing.toml"], ids=["twice", "missing"])
def test_one_wrong_list_begins_none(
    site: Site, capsys: pytest.CaptureFixture[str], second: str
) -> None:
    """One line tells it, and no list has begun by then."""
    site.write(entry("a", ["true"]))
    with pytest.raises(SystemExit) as caught:
        main(["up", str(site.file), str(site.folder / second)])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ("wanted each list once" if second == "w.toml" else "missing.toml") in line
    assert not site.file.with_suffix(".sqlite").exists()
