"""A log that is deleted or replaced while it is open: one clear error, nothing lost silently."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from otpy_agents.errors import LedgerAstray
from otpy_agents.log import EventLog, Projection, Teller
from otpy_agents.log import teller as teller_module
from tests.agents.host import PATIENCE
from tests.agents.log.log_world import TYPES, Noted, log_at, started, to

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log."""
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "events.sqlite3"


def _delete(path: Path) -> None:
    path.unlink()


def _delete_all(path: Path) -> None:
    for file in path.parent.glob("events*"):
        file.unlink()


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"something else")
    _delete_all(path)
    other.replace(path)


SPOILERS = pytest.mark.parametrize("spoil", [_delete, _delete_all, _replace])


def content(path: Path) -> bytes | None:
    """Return the bytes of the file; None if there is no file."""
    return path.read_bytes() if path.exists() else None


def kept_in(path: Path) -> list[Path]:
    """Return the files that keep a lost log."""
    return sorted(path.parent.glob(f"{path.name}.kept-*"))


async def held(path: Path) -> list[str]:
    """Return the texts of a log, which must be whole."""
    async with EventLog(path) as log:
        await log.verify()
        return [event.fields["text"] async for event in log.read()]


@SPOILERS
async def test_nothing_is_written_into_a_log_that_is_gone(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    """A file beside it keeps all acknowledged events; each error names that file."""
    async with log_at(path) as log:
        for number in range(3):
            await log.append(to("s", Noted(text=str(number))))
        spoil(path)
        before = content(path)
        lines: list[str] = []
        for _ in range(2):
            with pytest.raises(LedgerAstray) as told:
                await log.append(to("s", Noted(text="later")))
            lines.append(str(told.value))
            with pytest.raises(LedgerAstray):
                await log.end()
    (kept,) = kept_in(path)
    assert set(lines) == {
        f"{path}: was deleted or replaced while it was open; all that it held is kept in {kept}"
    }
    assert await held(kept) == ["0", "1", "2"]
    assert kept.stat().st_mode & 0o077 == 0
    assert content(path) == before


async def test_an_append_is_not_acknowledged_if_the_log_goes_meanwhile(path: Path) -> None:
    """The event is in the kept file, and nowhere else."""

    def fold(_row: object, _event: object) -> None:
        path.unlink(missing_ok=True)

    deletes = Projection(name="deletes", columns={"x": "TEXT"}, key=lambda event: "one", fold=fold)
    async with EventLog(path, types=TYPES, projections=[deletes]) as log:
        with pytest.raises(LedgerAstray):
            await log.append(to("s", Noted(text="lost")))
    assert await held(kept_in(path)[0]) == ["lost"]


async def test_whoever_follows_is_told(path: Path) -> None:
    """A follower gets the error, and does not wait for ever for events that cannot come."""
    async with log_at(path) as log:
        await log.append(to("s", started("1")))
        heard: dict[int, str] = {}

        async def follow() -> None:
            async for event in log.follow(after=0):
                heard[event.position] = event.name

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.1)
        _delete(path)
        with pytest.raises(LedgerAstray):
            async with asyncio.timeout(PATIENCE):
                await following
    assert heard == {1: "step_started"}


async def test_all_who_have_it_open_are_told(path: Path) -> None:
    """No program silently begins a second log; a new one can be opened at once."""
    async with log_at(path) as one, log_at(path) as other:
        await one.append(to("s", Noted(text="both")))
        _delete_all(path)
        for log in (one, other):
            with pytest.raises(LedgerAstray):
                await log.append(to("s", Noted(text="x")))
        async with log_at(path) as new:
            await new.append(to("s", Noted(text="new")))
    assert await held(path) == ["new"]
    assert await held(kept_in(path)[0]) == ["both"]


async def test_a_folder_that_is_gone_is_one_line_too(path: Path) -> None:
    """The line says that nothing could be kept."""
    async with log_at(path) as log:
        await log.append(to("s", Noted(text="x")))
        shutil.rmtree(path.parent)
        with pytest.raises(LedgerAstray, match="cannot be kept"):
            await log.append(to("s", Noted(text="y")))


async def test_a_teller_says_so_and_goes_on_in_a_new_log(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier events are kept; the later events are in the new log."""
    monkeypatch.setattr(teller_module, "_FIRST_DELAY", 0.01)
    lines: list[str] = []
    async with Teller(path, complain=lines.append) as teller:
        teller.tell("s", "noted", {"text": "before"})
        while not path.exists() or await held(path) != ["before"]:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)
        _delete_all(path)
        teller.tell("s", "noted", {"text": "after"})
    (line,) = lines
    (kept,) = kept_in(path)
    assert str(kept) in line
    assert await held(kept) == ["before"]
    assert await held(path) == ["after"]
