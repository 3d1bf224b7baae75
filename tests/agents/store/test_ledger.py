from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from otpy_agents.clock import CLOCK, Clock
from otpy_agents.errors import (
    AlreadyRunning,
    LedgerClosed,
    LedgerUnwritable,
)
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import Outcome, State
from otpy_agents.store.redaction import Redaction

pytestmark = pytest.mark.real_time


class Steady:
    """Monotonic seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the ledger."""
    return tmp_path / "w.sqlite"


def content(path: Path) -> bytes:
    """Return the bytes of a file."""
    return path.read_bytes()


def folder(path: Path) -> None:
    """Make a folder where a file is expected."""
    path.mkdir()


def rubbish(path: Path, start: int) -> None:
    """Overwrite a file from `start` on, or fill a new one."""
    kept = content(path)[:start] if path.exists() else b""
    path.write_bytes(kept + b"work list " * 1000)


async def test_the_story_of_an_assignment_is_kept(path: Path) -> None:
    """Restarts, attempts, working time, reason and last line survive the host."""
    steady, before = Steady(), CLOCK()
    async with Ledger(path, clock=Clock(steady=steady)) as ledger:
        await ledger.declare({"a": "1"})
        first = await ledger.begin_attempt("a", 1)
        await ledger.record_spawn(first, 10, 10, 99.5)
        (live,) = await ledger.live_attempts()
        assert (live.pid, live.pgid, live.create_time, live.incarnation) == (10, 10, 99.5, 1)
        steady.now = 2.0
        await ledger.end_attempt(
            first, "exit code 1", exit_code=1, last_line="oops", output_bytes=7
        )
        steady.now = 50.0
        second = await ledger.begin_attempt("a", 2)
        steady.now = 50.5
        await ledger.end_attempt(second, "exit code 0", exit_code=0, last_line="ok", output_bytes=5)
        await ledger.finish("a", State.DONE)
        list_id = ledger.list_id
    async with Ledger(path, clock=Clock(steady=steady)) as ledger:
        (row,) = await ledger.summary()
        assert (ledger.list_id, ledger.host) == (list_id, 2)
    assert (row.state, row.restarts, row.attempts, row.seconds) == (State.DONE, 1, 2, 2.5)
    assert (row.exit_code, row.last_line, row.output_bytes, row.reason) == (0, "ok", 12, "")
    assert row.first_started is not None
    assert row.finished is not None
    assert before <= row.first_started <= row.finished <= CLOCK()


async def test_only_final_states_are_not_done_again(path: Path) -> None:
    """Done and reaped assignments stay; one that failed to start is tried again."""
    async with Ledger(path) as ledger:
        await ledger.declare(dict.fromkeys(State, "1"))
        for state in State:
            await ledger.finish(state, state, "why")
        assert await ledger.finished_ids() == {"done", "reaped"}
        assert [row.id for row in await ledger.summary()] == list(State)


async def test_outcomes_are_written_down_as_told_and_leave_alone_what_is_final(path: Path) -> None:
    """A life that is done may have recorded that itself, before the outcome is told."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1", "b": "1", "c": "1"})
        await ledger.begin_attempt("a", 1)
        await ledger.finish("b", State.DONE)
        gone = Outcome(State.REAPED, "enough")
        await ledger.conclude({"a": gone, "b": gone, "c": Outcome(State.FAILED, "no program")})
        states = [await ledger.state(name) for name in ("a", "b", "c", "unknown")]
        assert states == [State.REAPED, State.DONE, State.FAILED, None]
        assert [row.reason for row in await ledger.summary()] == ["enough", "", "no program"]
        assert await ledger.live_attempts() == ()
        assert await ledger.untold() == ()


async def test_an_end_is_untold_until_that_is_written_down(path: Path) -> None:
    """A new end of the same assignment, and an assignment that was forgotten, begin untold."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1", "b": "1"})
        await ledger.finish("a", State.REAPED, "why")
        await ledger.finish("b", State.FAILED, "not final")
        assert [(one.id, one.reason) for one in await ledger.untold()] == [("a", "why")]
        await ledger.record_told(["a", "b"])
        assert await ledger.untold() == ()
        assert await ledger.retry("a")
        await ledger.begin_attempt("a", 1)
        await ledger.finish("a", State.DONE)
        assert [one.id for one in await ledger.untold()] == ["a"]
        await ledger.record_told(["a"])
        await ledger.forget_all()
        await ledger.finish("a", State.DONE)
        assert [one.id for one in await ledger.untold()] == ["a"]


async def test_a_changed_assignment_is_done_again(path: Path) -> None:
    """Another digest makes it pending; one no longer listed is kept but not shown."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1", "b": "1"})
        await ledger.finish("a", State.DONE)
        await ledger.finish("b", State.DONE)
        await ledger.declare({"c": "1", "a": "2"})
        assert [(row.id, row.state) for row in await ledger.summary()] == [
            ("c", State.PENDING),
            ("a", State.PENDING),
        ]
        await ledger.declare({"b": "1"})
        assert await ledger.finished_ids() == {"b"}
        with pytest.raises(LookupError, match="wanted one that was declared"):
            await ledger.begin_attempt("a", 1)


async def test_forgetting_keeps_the_identity(path: Path) -> None:
    """After --fresh everything is pending, and orphans can still be recognised."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1"})
        await ledger.begin_attempt("a", 1)
        await ledger.finish("a", State.REAPED, "no more")
        list_id = ledger.list_id
        await ledger.forget_all()
        (row,) = await ledger.summary()
        assert (row.state, row.attempts, row.reason) == (State.PENDING, 0, "")
    async with Ledger(path) as ledger:
        assert ledger.list_id == list_id


async def test_purging_keeps_what_is_listed_or_young(path: Path) -> None:
    """Old attempts, hosts and unlisted results go; running it twice changes nothing more."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1", "b": "1"})
        for name in ("a", "b"):
            attempt = await ledger.begin_attempt(name, 1)
            await ledger.end_attempt(attempt, "x")
            await ledger.finish(name, State.DONE)
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1"})
        assert await ledger.purge(3600.0) == 0
        assert await ledger.purge(-1.0) == 2 + 1 + 1
        assert await ledger.purge(-1.0) == 0
        assert await ledger.finished_ids() == {"a"}


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_call_neither_loses_nor_doubles_a_row(path: Path, turns: int) -> None:
    """Whenever the cancellation comes, the attempt is written once, and closed by the next."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1"})
        task = asyncio.create_task(ledger.begin_attempt("a", 1))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        await asyncio.wait({task})
        begun = len(await ledger.live_attempts())
        assert begun == (0 if turns == 0 else 1)
        second = await ledger.begin_attempt("a", 2)
        assert [attempt.id for attempt in await ledger.live_attempts()] == [second]


async def test_many_at_once_take_turns(path: Path) -> None:
    """Concurrent calls on one ledger are one transaction after the other."""
    names = [f"a{number}" for number in range(50)]
    async with Ledger(path) as ledger:
        await ledger.declare(dict.fromkeys(names, "1"))
        attempts = await asyncio.gather(*(ledger.begin_attempt(name, 1) for name in names))
        assert len(set(attempts)) == len(names)
        await asyncio.gather(*(ledger.end_attempt(attempt, "x") for attempt in attempts))
        assert await ledger.live_attempts() == ()


async def test_finishing_closes_what_was_left_open(path: Path) -> None:
    """An attempt whose caller never learnt its number does not stay live."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1"})
        attempt = await ledger.begin_attempt("a", 1)
        await ledger.finish("a", State.REAPED, "too slow")
        assert await ledger.live_attempts() == ()
        await ledger.end_attempt(attempt, "late", last_line="late")
        (row,) = await ledger.summary()
        assert (row.reason, row.last_line) == ("too slow", "")


async def test_two_ledgers_of_one_process_exclude_each_other(path: Path) -> None:
    """The lock is per opening, and is free again after the block."""
    async with Ledger(path):
        with pytest.raises(AlreadyRunning):
            async with Ledger(path):
                pytest.fail("two hosts")
    async with Ledger(path):
        pass


async def test_a_closed_ledger_says_so(path: Path) -> None:
    """Operations before and after the block are refused."""
    ledger = Ledger(path)
    with pytest.raises(LedgerClosed):
        await ledger.summary()
    async with ledger:
        pass
    with pytest.raises(LedgerClosed):
        await ledger.finish("a", State.DONE)


async def test_a_full_disk_is_one_clear_error_and_loses_nothing(path: Path) -> None:
    """The change that did not fit is not there; the ledger goes on when there is room again."""
    async with Ledger(path) as ledger:
        await ledger.declare({"a": "1"})
        assert ledger._file._database is not None
        await ledger._file._database.execute("PRAGMA max_page_count = 1")
        many = {f"assignment-{number:04}": "1" for number in range(500)}
        with pytest.raises(LedgerUnwritable, match="No space left on device"):
            await ledger.declare(many)
        assert [row.id for row in await ledger.summary()] == ["a"]
        await ledger._file._database.execute("PRAGMA max_page_count = 100000")
        await ledger.declare(many)
        assert len(await ledger.summary()) == 500


def test_secrets_do_not_reach_what_is_written_down() -> None:
    """Values are replaced by the name of their variable, the longest first (G-04)."""
    clean = Redaction(
        {"API_KEY": "abcdef", "GITHUB_TOKEN": "abcdefgh", "MY_SECRET": "s1", "KEYBOARD": "bananas"}
    )
    assert clean("x abcdefgh abcdef s1 bananas") == "x [GITHUB_TOKEN] [API_KEY] s1 bananas"
    assert Redaction({})("text") == "text"
