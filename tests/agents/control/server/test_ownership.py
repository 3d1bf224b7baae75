"""A folder belongs to one project."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.control.server.ownership import claim, refuse_foreign
from otpy_agents.control.stores import SqliteControl
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.redis import RedisControl
from otpy_agents.control.stores.sqlite import project_stream
from otpy_agents.errors import AuditUnwritable, FolderTaken


@pytest.mark.parametrize("key", ["a//b", "a/./b", "a/", "./a", "supervisor:state"])
def test_a_project_of_any_key_keeps_its_folder(key: str, tmp_path: Path) -> None:
    """CTL-60: a key may look like a path that could be written shorter."""
    store = SqliteControl(tmp_path / "events.sqlite3", f"control/x/{key}", "sandbox")
    for _ in range(2):
        claim(tmp_path / "demo", store)
    refuse_foreign(tmp_path / "demo", store)


USUAL = RedisPlace(user="ann", password="dragon-egg")


def in_redis(place: RedisPlace, folder: Path) -> RedisControl:
    """Return the store of a project in Redis, as the commands make it."""
    return RedisControl(place, folder / "events.sqlite3", project_stream(folder, place.project))


@pytest.mark.parametrize(
    "other",
    [
        None,
        evolve(USUAL, host="elsewhere"),
        evolve(USUAL, port=1),
        evolve(USUAL, state_db=1),
    ],
)
def test_the_same_key_in_another_store_is_another_project(
    other: RedisPlace | None, tmp_path: Path
) -> None:
    """CTL-60: the event log is the same; the message names the place, and no login."""
    log = tmp_path / "events.sqlite3"
    claim(tmp_path / "demo", in_redis(USUAL, tmp_path))
    own = project_stream(tmp_path, USUAL.state_key)
    store = SqliteControl(log, own, "sandbox") if other is None else in_redis(other, tmp_path)
    with pytest.raises(FolderTaken, match=r"supervisor:state@localhost:6499/0") as error:
        claim(tmp_path / "demo", store)
    assert "ann" not in str(error.value)
    assert "dragon" not in str(error.value)


def test_who_logs_in_differently_keeps_the_folder(tmp_path: Path) -> None:
    """CTL-60: the project is the same."""
    for place in (USUAL, evolve(USUAL, user=None, password="another")):
        claim(tmp_path / "demo", in_redis(place, tmp_path))


def test_a_folder_whose_mark_no_file_system_takes_is_nobody_elses(tmp_path: Path) -> None:
    """CTL-60: it is refused when a project begins in it, in one line, and is read until then."""
    store = SqliteControl(tmp_path / "events.sqlite3", "control/x/key", "sandbox")
    folder = tmp_path / ("x" * 255)
    refuse_foreign(folder, store)
    with pytest.raises(AuditUnwritable, match="File name too long"):
        claim(folder, store)
