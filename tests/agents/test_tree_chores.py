"""What the hygiene daemon cleans up after the mortals of one project (TREE-45, TREE-46)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from otpy_agents.run.marker import attempt_marker
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State
from otpy_agents.tree.chores import chores_of
from otpy_agents.tree.project import Project
from otpy_agents.tree.worklist import parse
from otpy_monitors import Chore

pytestmark = pytest.mark.real_time

DAY = 86400.0
LIST = '[[assignment]]\nid = "a"\nargv = ["true"]\n'


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[Project]:
    """A project whose assignment `a` was begun and runs."""
    work = parse(LIST, tmp_path / "w.toml")
    async with Ledger(work.state, clock=asyncio.get_running_loop().time) as ledger:
        await ledger.declare({"a": "1"})
        await ledger.begin_attempt("a", 1)
        yield Project(work, ledger, await ledger.summary(), lambda _name, _id, _detail: None)


async def sweep(chore: Chore) -> list[str]:
    """Do a chore to its end, and return what it deleted."""
    swept: list[str] = []
    async for deletion in chore():
        await deletion.perform()
        swept.append(deletion.what)
    return swept


@contextlib.contextmanager
def sleeper(project: Project, incarnation: int):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Run a process that carries the marker of an attempt."""
    marker = attempt_marker(project.ledger.list_id, "a", incarnation)
    code = "import time; print(flush=True); time.sleep(99)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **marker}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs, with its own environment
        try:
            yield process
        finally:
            process.kill()


async def test_left_over_processes_of_dead_mortals_are_ended(project: Project) -> None:
    """Those of an attempt that runs are spared; a second round finds nothing."""
    chore = chores_of(project)["left-over processes"]
    with sleeper(project, 1) as alive, sleeper(project, 7) as left_over:
        (named,) = await sweep(chore)
        assert f"(pid {left_over.pid})" in named
        assert left_over.wait(timeout=10) < 0
        assert alive.poll() is None
        assert await sweep(chore) == []


async def test_cut_in_the_middle_and_run_again_nothing_is_left(project: Project) -> None:
    """A round that is cancelled at any of its first awaits does no harm."""
    chore = chores_of(project)["left-over processes"]
    with sleeper(project, 1) as alive, sleeper(project, 7) as left_over:
        for turns in range(4):
            task = asyncio.ensure_future(sweep(chore))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
        await sweep(chore)
        assert left_over.wait(timeout=10) < 0
        assert alive.poll() is None


def age(path: Path, days: float) -> None:
    """Make everything in a folder, and it, look old."""
    then = time.time() - days * DAY
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then), follow_symlinks=False)


async def test_stale_work_directories_are_removed(project: Project) -> None:
    """Old ones of assignments that are no longer listed; nothing else."""
    chore = chores_of(project)["stale work directories"]
    assert await sweep(chore) == []
    for name in ("a", "gone", "young"):
        (project.work_directory(name) / "deep").mkdir()
        age(project.work_root / name, 8)
    age(project.work_root / "young" / "deep", 6)
    assert await sweep(chore) == ["gone"]
    assert sorted(path.name for path in project.work_root.iterdir()) == ["a", "young"]
    assert await sweep(chore) == []


async def test_a_dangling_link_is_no_obstacle(project: Project) -> None:
    """Agents leave all sorts of things behind."""
    directory = project.work_directory("gone")
    (directory / "link").symlink_to("nowhere")
    age(directory, 9)
    assert await sweep(chores_of(project)["stale work directories"]) == ["gone"]


async def test_old_rows_are_deleted(project: Project) -> None:
    """Attempts that ended over a month ago go; what is known of listed assignments stays."""
    chore = chores_of(project)["old rows"]
    await project.ledger.finish("a", State.DONE)
    assert await sweep(chore) == []
    with contextlib.closing(sqlite3.connect(project.work.state)) as database, database:
        database.execute("UPDATE attempt SET ended = '2020-01-01T00:00:00.000+00:00'")
    assert await sweep(chore) == ["1 rows"]
    assert await sweep(chore) == []
    assert [record.state for record in await project.ledger.summary()] == [State.DONE]
