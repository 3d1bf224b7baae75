"""Files that no store can use: a table of the wrong contents of each kind of file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest

from otpy_agents.errors import LedgerCorrupt, LedgerError, LedgerTooNew, LedgerUnwritable
from otpy_agents.log.event_log import EventLog
from otpy_agents.log.tables import LOG
from otpy_agents.store import Ledger, RunStore
from otpy_agents.store.kind import FileKind
from otpy_agents.store.runs_schema import RUNS
from otpy_agents.store.schema import LEDGER

pytestmark = pytest.mark.real_time

Opens = Callable[[Path], AbstractAsyncContextManager[object]]

KINDS: dict[str, tuple[Opens, FileKind]] = {
    "ledger": (Ledger, LEDGER),
    "runs": (RunStore, RUNS),
    "log": (EventLog, LOG),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file."""
    return tmp_path / "w.sqlite"


async def make(store: AbstractAsyncContextManager[object]) -> None:
    async with store:
        pass


def sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def text(path: Path) -> None:
    path.write_bytes(b"work list " * 1000)


def torn(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(content(path)[: size // 2] + b"rubbish " * (size // 16))


def newer(path: Path) -> None:
    sql(path, "PRAGMA user_version = 99")


def table_of_another_program(path: Path) -> None:
    sql(path, "CREATE TABLE theirs (x)")


def folder(path: Path) -> None:
    path.mkdir()


def nothing(_: Path) -> None:
    """Leave a file as it is."""


ROWS: list[tuple[str, Callable[[Path], None], type[LedgerError], str]] = [
    # the kind of file, and the damage to it; the error, and its words
    ("none", text, LedgerCorrupt, "wanted {noun}; move the file away"),
    ("none", table_of_another_program, LedgerCorrupt, "another program, wanted {noun}"),
    ("none", folder, LedgerUnwritable, "wanted"),
    ("another", nothing, LedgerCorrupt, "another program, wanted {noun}"),
    ("its own", newer, LedgerTooNew, "got schema version 99, wanted {newest} or older"),
    ("its own", torn, LedgerCorrupt, "wanted"),
]


# A log is not checked when it is opened but when it is read: test_event_log.py.
CASES = [
    (name, *row)
    for name, (_, kind) in KINDS.items()
    for row in ROWS
    if kind.sound or row[1] is not torn
]


@pytest.mark.parametrize(("name", "made", "spoil", "error", "words"), CASES)
async def test_what_cannot_be_used_is_refused_in_one_line_and_left_as_it_is(
    path: Path,
    name: str,
    made: str,
    spoil: Callable[[Path], None],
    error: type[LedgerError],
    words: str,
) -> None:
    """The opening refuses it, and so does the next one, as the lock is released."""
    store, kind = KINDS[name]
    if made == "its own":
        await make(store(path))
    if made == "another":
        await make(Ledger(path) if name == "runs" else RunStore(path))
    spoil(path)
    before = content(path)
    for _ in range(2):
        with pytest.raises(error, match=words.format(noun=kind.noun, newest=kind.newest)) as got:
            await make(store(path))
        assert "\n" not in str(got.value)
    assert content(path) == before


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("place", ["/proc", "/proc/none", "file", "file/below"])
async def test_a_folder_that_takes_no_files_is_one_clear_error(
    tmp_path: Path, name: str, place: str
) -> None:
    """Read-only, missing, or no folder at all: it is found before anything is started."""
    (tmp_path / "file").touch()
    with pytest.raises(LedgerUnwritable, match="wanted a file that can be written"):
        await make(KINDS[name][0](tmp_path / place / "w.sqlite"))
