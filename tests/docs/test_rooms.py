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
    floors = _floors("agents-floors")
    assert [set(re.findall(r"`(\w+)`", cell)) for cell in cells] == [
        floor for floor in floors if not floor & DOORS
    ]


def test_the_roles_of_the_control_plane_are_held_apart() -> None:
    """CTL-03: rooms of one floor do not know each other, and each module is in one."""
    floors = _floors("control-floors")
    assert {"interrogation", "prompts", "stores", "validation"} in floors
    assert {"audit", "loop", "proposals"} in floors
    package = ROOT / "agents" / "otpy_agents" / "control"
    rooms = {path.stem for path in package.iterdir() if path.stem[0] != "_"}
    assert set[str]().union(*floors) == rooms


def _floors(contract: str) -> list[set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["id"]: one for one in project["tool"]["importlinter"]["contracts"]}
    return [set(floor.split(" | ")) for floor in contracts[contract]["layers"]]
