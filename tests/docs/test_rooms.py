"""The page on the application tree names the rooms of `otpy_agents` as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "app-tree.md"
DOORS = {"__main__", "entry"}
"""How a program enters; no rooms."""


def test_the_rooms_of_the_page_are_those_of_the_contract() -> None:
    """Each floor is a line of the table, from above to below, with the same rooms."""
    section = (
        PAGE.read_text(encoding="utf-8").partition("\n## The rooms\n")[2].partition("\n## ")[0]
    )
    cells = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["id"]: one for one in project["tool"]["importlinter"]["contracts"]}
    floors = [set(floor.split(" | ")) for floor in contracts["agents-floors"]["layers"]]
    assert [set(re.findall(r"`(\w+)`", cell)) for cell in cells] == [
        floor for floor in floors if not floor & DOORS
    ]
