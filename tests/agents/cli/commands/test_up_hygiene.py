"""`otpy-agents up`, end to end: the deletions and dry runs of hygiene, and the log it rotates."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.agents.host import Site, shell

pytestmark = pytest.mark.real_time

WORKS = shell("a", "sleep 0.2; echo done")


def left_behind(site: Site) -> Path:
    """Leave the work folder of an assignment that is no longer listed."""
    folder = site.folder / "w.work" / "gone"
    folder.mkdir(parents=True)
    os.utime(folder, (0, 0))
    return folder


def swept(events: list[dict[str, str]]) -> list[str]:
    return [one["detail"] for one in events if one["event"] == "monitor.sweeping"]


def test_a_dry_run_tells_what_would_be_deleted(site: Site) -> None:
    """The next host, without a dry run, deletes exactly that (TREE-46)."""
    folder = left_behind(site)
    site.write(WORKS)
    status, host = site.run("--hygiene-dry-run")
    assert (status, folder.exists()) == (0, True)
    assert swept(host.events) == ["hygiene: stale work directories would delete gone"]
    site.write(shell("a", "sleep 0.3"))
    status, host = site.run()
    assert (status, folder.exists()) == (0, False)
    assert swept(host.events) == ["hygiene: stale work directories deletes gone"]


def test_a_log_is_kept_where_the_list_says_and_rotated(site: Site) -> None:
    """A log that is too large gives way to a new one, which the host continues (G-13)."""
    site.write(WORKS, logs="logs")
    log = site.folder / "logs" / "w.log"
    log.parent.mkdir()
    log.write_bytes(b"#" * 10_000_001)
    status, host = site.run()
    assert status == 0
    rotated = log.with_name("w.log.1").read_text(encoding="utf-8").lstrip("#").splitlines()
    entries = [json.loads(line) for line in [*rotated, *log.read_text().splitlines()]]
    assert all("at" in entry for entry in entries)
    told = [one["event"] for one in host.events if one["event"] != "summary"]
    assert [entry["event"] for entry in entries] == told
    assert "mortal.done" in [json.loads(line)["event"] for line in log.read_text().splitlines()]


def test_a_log_that_cannot_be_written_stops_no_work(site: Site) -> None:
    """The error is told once."""
    (site.folder / "logs").write_text("no folder")
    site.write(WORKS, logs="logs")
    status, host = site.run()
    assert status == 0
    assert host.told("log.unwritable") == ["w"]
