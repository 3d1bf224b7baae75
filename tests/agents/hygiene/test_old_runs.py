"""Runs that ended long ago leave the store, and so does everything that only they need (G-13)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from otpy_agents.hygiene.chores import chores_of_runs
from otpy_agents.hygiene.old_runs import KEEP_RUNS, old_runs
from otpy_agents.store import RunStore
from otpy_agents.tree.monitors import labels_of
from otpy_monitors import Chore, Finding, Sweeping, Swept
from otpy_monitors.hygiene import cleanup_daemon
from tests.agents.store.run_world import Clock, let_die, save

pytestmark = pytest.mark.real_time

DAY = 86400.0


class Archive:
    """A store of runs, and the labels that are still worked on."""

    def __init__(self, store: RunStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.wanted: set[str] = set()

    async def labels(self) -> set[str]:
        return self.wanted

    async def made(self, run: str, label: str = "", *, ended: bool = True) -> None:
        """Store a run, and its end unless it has none."""
        lease = await self.store.create(
            run, "{}", version=1, status="new", agent="a", prompt="work", cwd="/", label=label
        )
        await save(self.store, lease, exit_code=0 if ended else None)

    def chore(self) -> Chore:
        return old_runs(self.store, self.labels, clock=self.clock)

    async def kept(self) -> set[str]:
        return {record.id for record in await self.store.runs()}

    async def sweep(self) -> list[str]:
        done: list[str] = []
        async for deletion in self.chore()():
            await deletion.perform()
            done.append(deletion.what)
        return done


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncGenerator[Archive]:
    """An open store, whose clock a test moves."""
    clock = Clock()
    async with RunStore(tmp_path / "runs.sqlite3", clock=clock) as store:
        yield Archive(store, clock)


async def test_runs_that_ended_over_a_month_ago_go(archive: Archive) -> None:
    """Younger ones stay; a second round finds nothing."""
    await archive.made("old")
    archive.clock.now += DAY
    await archive.made("young")
    archive.clock.now += KEEP_RUNS - 1
    assert await archive.sweep() == ["old, which ended over 30 days ago"]
    assert await archive.kept() == {"young"}
    assert await archive.sweep() == []


async def test_what_somebody_may_go_on_with_stays(archive: Archive) -> None:
    """An unfinished run stays, also of a dead host, and so does a run of work still to be done."""
    path = archive.store.path
    async with RunStore(path, clock=archive.clock) as dead:
        await Archive(dead, archive.clock).made("left", ended=False)
        let_die(path, dead.host)
    await archive.made("at work", ended=False)
    await archive.made("open", "list/a/1")
    await archive.made("done", "list/b/1")
    archive.wanted = {"list/a/1"}
    archive.clock.now += 2 * KEEP_RUNS
    await archive.sweep()
    assert await archive.kept() == {"left", "at work", "open"}


async def test_a_run_that_is_wanted_again_meanwhile_stays(archive: Archive) -> None:
    """A deletion looks once more, because time has passed since it was found."""
    await archive.made("r", "list/a/1")
    archive.clock.now += 2 * KEEP_RUNS
    async for deletion in archive.chore()():
        archive.wanted = {"list/a/1"}
        await deletion.perform()
    assert await archive.kept() == {"r"}


async def test_what_is_left_of_hosts_goes_too(archive: Archive) -> None:
    """Such rows go even if no run is old: a host without runs leaves a row, too."""
    async with RunStore(archive.store.path, clock=archive.clock):
        pass
    assert await archive.sweep() == []
    archive.clock.now += 2 * KEEP_RUNS
    assert await archive.sweep() == ["1 rows of hosts and cooldowns"]
    assert await archive.sweep() == []


async def test_many_runs_go_in_parts_each_of_them_named_before(archive: Archive) -> None:
    """No line is endless, and no transaction either."""
    names = [f"run-{number:03}" for number in range(120)]
    for name in names:
        await archive.made(name)
    archive.clock.now += 2 * KEEP_RUNS
    found: list[Finding] = []
    kept: list[int] = []
    over = asyncio.Event()

    def report(finding: Finding) -> None:
        found.append(finding)
        if isinstance(finding, Swept):
            over.set()
        if isinstance(finding, Sweeping):
            with closing(sqlite3.connect(archive.store.path)) as database:
                kept.append(database.execute("SELECT COUNT(*) FROM run").fetchone()[0])

    daemon = asyncio.ensure_future(cleanup_daemon({"old runs": archive.chore()}, report))
    await over.wait()
    daemon.cancel()
    await asyncio.wait({daemon})
    assert await archive.kept() == set()
    lines = [str(finding) for finding in found if isinstance(finding, Sweeping)]
    assert kept == [120, 70, 20]
    assert [sum(name in line for name in names) for line in lines] == [50, 50, 20]


async def test_cut_anywhere_and_run_again_nothing_else_is_gone(archive: Archive) -> None:
    """A round that is cancelled at any of its first awaits leaves nothing half deleted."""
    for name in ("a", "b"):
        await archive.made(name)
    archive.clock.now += 2 * KEEP_RUNS
    await archive.made("young")
    for turns in range(12):
        task = asyncio.ensure_future(archive.sweep())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert await archive.kept() in ({"a", "b", "young"}, {"young"})
    await archive.sweep()
    assert await archive.kept() == {"young"}


async def test_a_dry_run_deletes_no_run(archive: Archive) -> None:
    """It only names them."""
    await archive.made("old")
    archive.clock.now += 2 * KEEP_RUNS
    found: list[str] = []
    told = asyncio.Event()

    def report(finding: Finding) -> None:
        found.append(str(finding))
        told.set()

    chores = {"old runs": archive.chore()}
    daemon = asyncio.ensure_future(cleanup_daemon(chores, report, dry_run=True))
    await told.wait()
    daemon.cancel()
    await asyncio.wait({daemon})
    assert found == ["hygiene: old runs would delete old, which ended over 30 days ago"]
    assert await archive.kept() == {"old"}


def age(path: Path, days: float) -> None:
    """Make everything in a folder, and it, look old."""
    then = time.time() - days * DAY
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then))


async def test_private_files_of_runs_that_are_over_go(archive: Archive) -> None:
    """A host that is killed early leaves them; those of an unfinished run stay."""
    await archive.made("over")
    await archive.made("at work", ended=False)
    for name in ("over", "at work", "unknown", "young"):
        folder = archive.store.files / name / "attempt-1"
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text("{}")
        age(archive.store.files / name, 1 if name == "young" else 8)

    chore = chores_of_runs(archive.store, partial(labels_of, []))["orphaned artifacts"]
    swept: list[str] = []
    async for deletion in chore():
        await deletion.perform()
        swept.append(deletion.what)
    assert swept == ["over", "unknown"]
    assert sorted(path.name for path in archive.store.files.iterdir()) == ["at work", "young"]
