from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import aiosqlite
import pytest

from otpy_agents.errors import LedgerClosed, LedgerCorrupt, LedgerTooNew, LedgerUnwritable
from otpy_agents.store import Ledger, RunStore, kind
from otpy_agents.store import file as store_file
from tests.agents.store.run_world import create, save

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "runs.sqlite3"


def content(path: Path) -> bytes:
    return path.read_bytes()


def rubbish(path: Path, start: int) -> None:
    """Overwrite a file from `start` on, or fill a new one."""
    kept = content(path)[:start] if path.exists() else b""
    path.write_bytes(kept + b"run store " * 2000)


async def refused(path: Path) -> None:
    async with RunStore(path):
        pytest.fail("opened")


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    """It is named in one line, and left as it is."""
    rubbish(path, 0)
    before = content(path)
    with pytest.raises(LedgerCorrupt, match="wanted a store of runs; move the file away"):
        await refused(path)
    assert content(path) == before


async def test_a_damaged_file_is_refused(path: Path) -> None:
    """It is found when the file is opened, not in the middle."""
    async with RunStore(path) as store:
        await create(store, "r", "x" * 100_000)
    rubbish(path, len(content(path)) // 2)
    with pytest.raises(LedgerCorrupt):
        await refused(path)


async def test_the_ledger_of_a_work_list_is_no_store_of_runs(path: Path) -> None:
    """Nor the other way round; neither is touched."""
    async with Ledger(path):
        pass
    with pytest.raises(LedgerCorrupt, match="another program, wanted a store of runs"):
        await refused(path)
    runs = path.with_name("others.sqlite3")
    async with RunStore(runs):
        pass
    with pytest.raises(LedgerCorrupt, match="another program, wanted a work list ledger"):
        async with Ledger(runs):
            pytest.fail("opened")


async def test_a_newer_file_is_refused(path: Path) -> None:
    """The message names both versions."""
    async with RunStore(path):
        pass
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerTooNew, match="got schema version 99, wanted 3 or older"):
        await refused(path)


async def test_a_folder_that_takes_no_files_is_one_clear_error(tmp_path: Path) -> None:
    """Also if a file is in its place."""
    (tmp_path / "file").touch()
    for folder in (Path("/proc/none"), tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LedgerUnwritable, match="wanted a file that can be written"):
            await refused(folder / "runs.sqlite3")


async def test_a_full_disk_loses_nothing(path: Path) -> None:
    """The state that did not fit is not there; the old one is."""
    async with RunStore(path) as store:
        lease = await create(store, "r", "old")
        assert store._file._database is not None
        await store._file._database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(LedgerUnwritable, match="No space left on device"):
            await save(store, lease, "new" * 100_000)
        assert (await store.run("r")).state == "old"


async def test_a_file_that_somebody_keeps_locked_is_one_clear_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names what is wrong, and readers are not concerned."""
    monkeypatch.setattr(store_file, "BUSY", 0.01)
    async with RunStore(path) as store:
        lease = await create(store, "r", "old")
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnwritable, match="a lock that another process holds"):
                await save(store, lease, "new")
            assert (await store.run("r")).state == "old"
        await save(store, lease, "new")


async def test_a_file_that_others_are_just_opening_is_waited_for(path: Path) -> None:
    """Switching to write-ahead logging fails at once when another has the file; it is tried again.

    Who made the tables meanwhile has made them for both.
    """
    async with RunStore(path) as first:
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        patient = RunStore(path)
        tried: list[int] = []

        async def prepare(
            database: aiosqlite.Connection, file: Path, its_kind: kind.FileKind
        ) -> None:
            tried.append(1)
            if len(tried) == 2:
                holder.execute("COMMIT")
            await kind.prepare(database, file, its_kind)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_file, "prepare", prepare)
            patch.setattr(store_file, "BUSY", 0.01)
            async with patient:
                assert patient.host == first.host + 1
    assert len(tried) > 1


async def test_a_closed_store_says_so(path: Path) -> None:
    """Before and after the block."""
    store = RunStore(path)
    with pytest.raises(LedgerClosed, match="wanted a store of runs inside its `async with` block"):
        await store.runs()
    async with store:
        lease = await create(store)
    with pytest.raises(LedgerClosed):
        await save(store, lease)
