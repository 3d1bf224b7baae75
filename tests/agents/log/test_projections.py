"""A projection equals a fold over the log: at once, later, and after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from otpy_agents.errors import InvalidProjection
from otpy_agents.log import Difference, EventLog, Projection, Stored
from tests.agents.log.log_world import STEPS, TYPES, completed, log_at, sql, started, to

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log."""
    return tmp_path / "events.sqlite3"


async def test_a_row_changes_with_the_event_it_comes_from(path: Path) -> None:
    """An event can create its row, change it and remove it."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), started("2")))
        assert await log.rows("steps") == {
            "1": {"status": "running", "events": 1},
            "2": {"status": "running", "events": 1},
        }
        await log.append(to("a", completed("1"), completed("2", "forgotten")))
        assert await log.rows("steps") == {"1": {"status": "success", "events": 2}}


async def test_what_it_was_at_any_position_or_moment_can_be_read(path: Path) -> None:
    """The state of the whole log or of one stream is folded (ENG-10)."""
    now = 100.0
    async with log_at(path, clock=lambda: now) as log:
        await log.append(to("a", started("1")), to("b", started("2")))
        now = 200.0
        await log.append(to("a", completed("1")))
        at = await log.position_at(150.0)
        assert at == 2
        assert set(await log.state("steps", until=at)) == {"1", "2"}
        assert await log.state("steps", until=3, stream="a") == {
            "1": {"status": "success", "events": 2}
        }
        assert (await log.position_at(99.0), await log.position_at(1e9)) == (0, 3)


async def test_a_new_projection_knows_all_that_was_before_it(path: Path) -> None:
    """So does another version of a projection, with another definition."""
    async with EventLog(path, types=TYPES) as log:
        await log.append(to("a", started("1"), completed("1")))
    async with log_at(path) as log:
        assert await log.rows("steps") == {"1": {"status": "success", "events": 2}}

    def fold(_: Any, event: Stored) -> dict[str, Any]:
        return {"last": event.position}

    last = evolve(STEPS, version=2, columns={"last": "INTEGER"}, fold=fold)
    async with EventLog(path, types=TYPES, projections=[last]) as log:
        assert await log.rows("steps") == {"1": {"last": 2}}


async def test_a_program_that_knows_less_leaves_nothing_out(path: Path) -> None:
    """The next program that knows the projection folds the events of the other."""
    async with log_at(path) as log, EventLog(path, types=TYPES) as other:
        await log.append(to("a", started("1")))
        await other.append(to("a", completed("1")))
        await log.append(to("a", started("2")))
        assert await log.rows("steps") == {
            "1": {"status": "success", "events": 2},
            "2": {"status": "running", "events": 1},
        }
        assert await log.compare() == []


async def test_a_table_that_was_altered_is_told_and_made_anew(path: Path) -> None:
    """The comparison lists each row that differs, with both values."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), started("2")))
        running = {"status": "running", "events": 1}
        sql(
            path,
            "UPDATE steps SET status = 'success' WHERE id = '1'",
            "DELETE FROM steps WHERE id = '2'",
            "INSERT INTO steps VALUES ('3', 'x', 1)",
        )
        wrong = [
            Difference("steps", "1", {"status": "success", "events": 1}, running),
            Difference("steps", "2", None, running),
            Difference("steps", "3", {"status": "x", "events": 1}, None),
        ]
        assert await log.compare() == wrong
        assert await log.rebuild() == wrong
        assert await log.compare() == []
        assert set(await log.rows("steps")) == {"1", "2"}


async def test_an_error_in_a_fold_takes_the_append_back(path: Path) -> None:
    """Nothing is appended that could not be folded."""

    def fold(_: Any, event: Stored) -> dict[str, Any]:
        if event.fields["step_id"] == "bad":
            raise LookupError
        return {"status": 1}

    wrong = evolve(STEPS, name="wrong", columns={"status": "TEXT"}, fold=fold)
    async with EventLog(path, types=TYPES, projections=[STEPS, wrong]) as log:
        await log.append(to("a", started("1")))
        with pytest.raises(LookupError):
            await log.append(to("a", started("2"), started("bad")))
        assert (await log.end(), set(await log.rows("steps"))) == (1, {"1"})
        await log.append(to("a", completed("1")))
        assert await log.verify() == 2


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"name": "Steps"}, "wanted small letters"),
        ({"name": "events"}, "none of"),
        ({"columns": {"id": "TEXT"}}, "got the column 'id' of 'TEXT'"),
        ({"columns": {"a": "BLOB"}}, "of \\['INTEGER', 'REAL', 'TEXT'\\]"),
        ({"columns": {"a; DROP": "TEXT"}}, "small letters"),
        ({"columns": {}}, "wanted at least one"),
    ],
)
def test_a_projection_that_can_have_no_table_is_refused(
    changes: dict[str, Any], wanted: str
) -> None:
    """Its definition raises the error."""
    with pytest.raises(InvalidProjection, match=wanted):
        evolve(STEPS, **changes)


async def test_a_row_with_an_unknown_column_is_refused(path: Path) -> None:
    """Its value would otherwise be lost silently."""

    def fold(_row: Any, _event: Stored) -> dict[str, Any]:
        return {"status": "x", "extra": 1}

    wide = evolve(STEPS, fold=fold)
    async with EventLog(path, types=TYPES, projections=[wide]) as log:
        with pytest.raises(InvalidProjection, match="got the columns \\['extra'\\]"):
            await log.append(to("a", started("1")))


def test_two_projections_of_one_name_are_refused(path: Path) -> None:
    """They would share a table."""
    same: list[Projection] = [STEPS, STEPS]
    with pytest.raises(InvalidProjection, match="one projection for each name"):
        EventLog(path, projections=same)
