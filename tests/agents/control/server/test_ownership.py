"""A folder belongs to one project."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.control.server.ownership import claim, refuse_foreign
from otpy_agents.control.stores import SqliteControl


@pytest.mark.parametrize("key", ["a//b", "a/./b", "a/", "./a", "supervisor:state"])
def test_a_project_of_any_key_keeps_its_folder(key: str, tmp_path: Path) -> None:
    """CTL-60: a key may look like a path that could be written shorter."""
    store = SqliteControl(tmp_path / "events.sqlite3", f"control/x/{key}", "sandbox")
    for _ in range(2):
        claim(tmp_path / "demo", store)
    refuse_foreign(tmp_path / "demo", store)
