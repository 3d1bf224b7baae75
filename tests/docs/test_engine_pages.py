"""The page about roles names every key, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import NOTHING, fields

from otpy_agents.engine.approval import ApprovalRules
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.roles import VARIABLES, ContextRules, GateUse, RoleConfig
from otpy_agents.engine.roles.role_file import KEYS
from otpy_agents.engine.supervisor_files import read_yaml

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engine-roles.md"
NONE = {"", "none", "needed", "nothing asks"}


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without backticks."""
    section = PAGE.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert rows is not None
    lines = rows.group().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_the_keys_of_a_role_are_all_there() -> None:
    """In the order in which they are known."""
    assert [row[0] for row in table("Roles")] == list(KEYS)


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Context", ContextRules),
        ("Gates", GateUse),
        ("Config", RoleConfig),
        ("approval.yaml", ApprovalRules),
        ("limits.yaml", EngineLimits),
    ],
)
def test_the_keys_of_each_part_are_all_there(heading: str, kind: type) -> None:
    """With the defaults that the code has."""
    rows = table(heading)
    attributes = fields(kind)
    assert [row[0] for row in rows] == [one.name for one in attributes]
    for row, one in zip(rows, attributes, strict=True):
        if row[-1] in NONE:
            assert one.default in (NOTHING, None, ())
        else:
            shown = read_yaml("page", f"value: {row[-1]}").values["value"]
            assert shown == one.default


def test_the_variables_are_all_there() -> None:
    """The second table of the section on contexts."""
    text = PAGE.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\$\w+)`", text, re.MULTILINE)) == VARIABLES
