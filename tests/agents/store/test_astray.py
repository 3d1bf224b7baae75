"""A state file that is deleted or replaced under its hosts: nothing of it is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from otpy_agents.errors import AlreadyRunning
from otpy_agents.store import Ledger, RunStore
from otpy_agents.store.records import State
from tests.agents.store.run_world import create, save

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file."""
    return tmp_path / "runs.sqlite3"


def delete(path: Path, *, logs: bool) -> None:
    """Delete the file, with or without the files beside it."""
    path.unlink()
    if logs:
        for beside in path.parent.glob(f"{path.name}[-.]*"):
            beside.unlink()


def move(path: Path, where: Path) -> None:
    path.replace(where)


def content(path: Path) -> bytes:
    return path.read_bytes()


def mode(path: Path) -> int:
    return path.stat().st_mode


def states(path: Path) -> dict[str, str]:
    """Return what another program finds in the file, which must be sound."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return dict(database.execute("SELECT id, state FROM run"))


@pytest.mark.parametrize("logs", [False, True])
async def test_a_deleted_file_is_put_back_with_all_it_held(path: Path, logs: bool) -> None:
    """The next use puts it back; one line says so, and later changes are in it, too."""
    said: list[str] = []
    async with RunStore(path) as store:
        store.on_astray(said.append)
        lease = await create(store, "r", "old")
        delete(path, logs=logs)
        assert (await store.run("r")).state == "old"
        assert states(path) == {"r": "old"}
        await save(store, lease, "new")
        await create(store, "s", "more")
    assert states(path) == {"r": "new", "s": "more"}
    assert said == [
        f"state file {path} was deleted while it was open; all that it held is there again"
    ]
    assert mode(path) & 0o077 == 0
    async with RunStore(path, as_host=False) as store:
        assert len(await store.dead_runs()) == 2


async def test_another_host_of_a_deleted_file_goes_on_in_the_new_one(path: Path) -> None:
    """Any number of hosts has one file, with the runs of all."""
    said: list[str] = []
    async with RunStore(path) as one, RunStore(path) as other:
        one.on_astray(said.append)
        other.on_astray(said.append)
        first, second = await create(one, "r", "old"), await create(other, "s", "old")
        delete(path, logs=True)
        await save(one, first, "new")
        await save(other, second, "newer")
        assert {run.id for run in await one.runs()} == {"r", "s"}
    assert states(path) == {"r": "new", "s": "newer"}
    assert len(said) == 1


@pytest.mark.parametrize("sound", [False, True])
async def test_a_file_in_its_place_is_left_alone(path: Path, sound: bool) -> None:
    """The changes of this host are kept beside it, and the line says where."""
    said: list[str] = []
    theirs = path.with_name("other")
    async with RunStore(path) as store:
        store.on_astray(said.append)
        lease = await create(store, "r", "old")
        delete(path, logs=True)
        if sound:
            with closing(sqlite3.connect(theirs)) as database:
                database.execute("CREATE TABLE a (b)")
        else:
            theirs.write_bytes(b"rubbish" * 1000)
        before = content(theirs)
        move(theirs, path)
        await save(store, lease, "new")
    assert content(path) == before
    (line,) = said
    kept = Path(line.rpartition(" ")[2])
    assert "was replaced by another" in line
    assert states(kept) == {"r": "new"}


async def test_a_folder_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    """One line says so; the host works on, and puts the file back as soon as it can."""
    path, said = tmp_path / "folder" / "runs.sqlite3", list[str]()
    async with RunStore(path) as store:
        store.on_astray(said.append)
        lease = await create(store, "r", "old")
        move(path.parent, tmp_path / "moved")
        await save(store, lease, "new")
        await save(store, lease, "newer")
        assert [line.partition(": ")[0] for line in said] == [
            f"state file {path} was deleted or replaced, and cannot be written"
        ]
        path.parent.mkdir()
        assert (await store.run("r")).state == "newer"
    assert states(path) == {"r": "newer"}


async def test_a_ledger_that_is_deleted_keeps_its_lock(tmp_path: Path) -> None:
    """No second host works on the list, and nothing is begun twice."""
    path = tmp_path / "w.sqlite"
    async with Ledger(path) as ledger:
        ledger.on_astray(lambda _line: None)
        await ledger.declare({"a": "1"})
        await ledger.finish("a", State.DONE)
        delete(path, logs=True)
        assert await ledger.finished_ids() == {"a"}
        with pytest.raises(AlreadyRunning):
            async with Ledger(path):
                pytest.fail("opened")
    async with Ledger(path) as ledger:
        assert await ledger.finished_ids() == {"a"}
