from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import aiosqlite
import pytest

from otpy_agents.errors import LedgerClosed, LedgerUnwritable
from otpy_agents.store import RunStore, kind
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
