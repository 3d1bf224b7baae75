"""Stored sessions when a write is cut, or the disk is damaged or full."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from otpy_agents.clock import CLOCK
from otpy_agents.errors import LedgerForeign, LedgerUnwritable, SessionCorrupt
from otpy_agents.store.sessions import FileSessions, SqliteSessions, sqlite
from tests.agents.store.sessions.session_world import session

pytestmark = pytest.mark.real_time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the sessions in the file store."""
    return tmp_path / "sessions"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_file_cut_or_damaged_at_any_byte_is_set_aside(folder: Path) -> None:
    """Truncated, empty, or with one wrong byte: never loaded, never deleted, and fresh after it."""
    store = FileSessions(folder)
    saved = session(checkpoint={"n": 1})
    await store.save(saved)
    path = store.path("p/a")
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:at] + b"\xff" + whole[at + 1 :] for at in range(len(whole))]
    for count, content in enumerate(damaged, start=1):
        path.write_bytes(content)
        with pytest.raises(SessionCorrupt) as caught:
            await store.load("p/a")
        assert read(caught.value.aside) == content
        assert await store.load("p/a") is None
        assert len(names(folder / "quarantine")) == count


class Cut(BaseException):
    """Stands in for the end of the host."""


OPERATIONS = ("os.open", "os.fsync", "pathlib.Path.replace", "pathlib.Path.unlink")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("after", [False, True])
async def test_a_save_that_is_cut_leaves_the_old_session_or_the_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str, after: bool
) -> None:
    """The cut comes before or after a step; the next host loads one of the two and saves again."""
    real: Callable[..., object] = eval(operation, {"os": os, "pathlib": __import__("pathlib")})  # noqa: S307
    old, new = session(summary="old"), session(summary="new")
    for step in range(4):
        store = FileSessions(folder)
        await store.save(old)
        left = step

        def cut(*args: object, **kwargs: object) -> object:
            nonlocal left
            left -= 1
            if left < 0 and not after:
                raise Cut
            result = real(*args, **kwargs)
            if left < 0:
                if isinstance(result, int):
                    os.close(result)
                raise Cut
            return result

        with monkeypatch.context() as patch:
            patch.setattr(operation, cut)
            try:
                await store.save(new)
            except Cut:
                pass
            else:
                assert left >= 0
        store = FileSessions(folder)
        assert await store.load("p/a") in (old, new)
        await store.save(new)
        assert await store.load("p/a") == new
        assert names(folder) == [store.path("p/a").name]


async def test_nobody_else_can_read_what_agents_say(folder: Path, tmp_path: Path) -> None:
    """The folder, the files and the database belong to their user."""
    await FileSessions(folder).save(session())
    async with SqliteSessions(tmp_path / "s.sqlite") as store:
        await store.save(session())
    paths = (folder, folder / names(folder)[0], tmp_path / "s.sqlite")
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [Path.mkdir, pipe, link])
async def test_what_is_no_file_is_set_aside(folder: Path, make: Callable[[Path], None]) -> None:
    """A folder, a pipe, a link: none of them is followed or waited for."""
    store = FileSessions(folder)
    await store.save(session())
    store.path("p/a").unlink()
    make(store.path("p/a"))
    with pytest.raises(SessionCorrupt, match="no plain file"):
        await store.load("p/a")
    assert await store.load("p/a") is None
    await store.save(session())


async def test_a_session_under_another_name_belongs_to_nobody(folder: Path) -> None:
    """A copied file is not shown as a second session."""
    store = FileSessions(folder)
    await store.save(session())
    (folder / "copy.json").write_bytes(store.path("p/a").read_bytes())
    assert await store.all() == (session(),)


async def test_a_folder_that_takes_no_files_is_one_clear_error(tmp_path: Path) -> None:
    """A save raises it."""
    (tmp_path / "file").touch()
    for folder in (Path("/proc/none"), tmp_path / "file"):
        with pytest.raises(LedgerUnwritable, match="wanted a file that can be written"):
            await FileSessions(folder).save(session())


async def test_a_damaged_database_is_moved_away_when_it_is_opened(tmp_path: Path) -> None:
    """Nothing of it is lost, and the store works with a new one."""
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"rubbish " * 1000)
    async with SqliteSessions(path) as store:
        assert store.aside is not None
        assert (store.aside / path.name).read_bytes() == b"rubbish " * 1000
        assert await store.load("p/a") is None
        await store.save(session())
    async with SqliteSessions(path) as store:
        assert store.aside is None
        assert await store.load("p/a") == session()


async def damaged_while_open(path: Path) -> None:
    """Overwrite all pages but the first, past what SQLite has cached."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


async def test_a_database_that_is_damaged_while_it_is_open_is_moved_away(tmp_path: Path) -> None:
    """A load gets one error; a save gets a new database."""
    path = tmp_path / "s.sqlite"
    async with SqliteSessions(path) as store:
        for number in range(50):
            await store.save(session(f"p/{number}", summary="x" * 4000))
    async with SqliteSessions(path) as store:
        await damaged_while_open(path)
        with pytest.raises(SessionCorrupt, match="it was moved to") as caught:
            await store.load("p/7")
        assert caught.value.aside == str(store.aside)
        assert store.aside is not None
        assert (store.aside / path.name).is_file()
        assert await store.load("p/7") is None
        await store.save(session())
        assert await store.load("p/a") == session()
    async with SqliteSessions(path) as store:
        await store.save(session("p/b", summary="x" * 40_000))
        await damaged_while_open(path)
        await store.save(session("p/b", summary="x" * 50_000))
        assert store.aside is not None
        assert await store.load("p/b") == session("p/b", summary="x" * 50_000)


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """It is not ours to move away."""
    path = tmp_path / "s.sqlite"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(LedgerForeign, match="wanted a store of sessions"):
        async with SqliteSessions(path):
            pytest.fail("opened")
    assert path.read_bytes() == before


async def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    """The moment at which a session was set aside is the same, in Unix seconds (G-15)."""
    path = tmp_path / "sessions.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(sqlite._TABLES)
        database.execute(f"PRAGMA application_id = {sqlite._KIND.application}")
        database.execute("PRAGMA user_version = 1")
        old = "INSERT INTO quarantine (agent, body, reason, at) VALUES ('p/a', x'00', 'torn', ?)"
        database.execute(old, ("2026-11-23T10:00:00.250+00:00",))
        database.execute("INSERT INTO session VALUES ('p/b', x'00')")
    async with SqliteSessions(path) as store:
        with pytest.raises(SessionCorrupt):
            await store.load("p/b")
    with closing(sqlite3.connect(path)) as database:
        (first, second) = database.execute("SELECT at FROM quarantine ORDER BY id").fetchall()
    assert first == (1795428000.25,)
    assert abs(second[0] - CLOCK()) < 60
