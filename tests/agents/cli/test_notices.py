"""Notices for a person above a live tree, with the command to type (TREE-50)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from otpy_agents.app import Event
from otpy_agents.cli.notices import notice
from otpy_agents.cli.tree_lookup import KnownTree, tree_of
from otpy_agents.worklist.reader import parse

TREE = KnownTree(socket=Path("w.sock"), list="w.toml")
JAKE = "AppSupervisor/JakeSupervisor/Jake"


def words(name: str, id: str = "a", /, **detail: str | float) -> str | None:
    return notice(Event(name=name, id=id, seconds=1.0, detail=detail), TREE)


@pytest.mark.parametrize(
    ("name", "detail", "shown"),
    [
        ("operator.asked", {"question": "Which\nport?"},
         "a NEEDS INPUT: Which port? -> `otpy-agents answer a TEXT`"),
        ("operator.notified", {"detail": "odd"}, "a NEEDS A LOOK: odd -> `otpy-agents status`"),
        ("mortal.paused", {"by": "budget", "detail": "spent"},
         "a rests: spent -> `otpy-agents budget grant a --tokens N`"),
        ("mortal.paused", {"by": "budget", "detail": "spent", "account": "w", "kind": "cost_usd"},
         "a rests: spent -> `otpy-agents budget grant w --usd X`"),
        ("mortal.paused", {"by": "gang:g", "detail": "two failed"},
         "a rests: two failed -> `otpy-agents resume a`"),
        ("mortal.paused", {"detail": "rule", "resume": "kill -CONT -- -7"},
         "a rests: rule -> `otpy-agents resume a`"),
        ("gang.failed", {"detail": "b, c failed", "action": "restart"},
         "a failed as a group: b, c failed"),
        ("mortal.failed", {"reason": "no such program"}, "a FAILED: no such program"),
        ("mortal.reaped", {"reason": "restarts used up (2): no luck", "restarts": 2},
         "a REAPED ↻2: restarts used up (2): no luck"),
        ("agent.session_corrupt", {"reason": "torn"}, "a starts without its session: torn"),
    ],
)  # fmt: skip
def test_what_needs_a_person_is_said_with_what_to_type(
    name: str, detail: Mapping[str, str | float], shown: str
) -> None:
    """Questions, escalations, pauses and unexpected ends have a notice."""
    assert words(name, **detail) == shown


def test_every_restart_of_jake_is_told() -> None:
    """The notice has its number; restarts of other children stand in the tree (TREE-50)."""
    told = words("child.restarting", JAKE, reason="crashed: boom", delay=5.0, restarts=3)
    assert told == "Jake crashed and is started again ↻3: crashed: boom"
    assert words("child.restarting", "AppSupervisor/MonitorSupervisor/HealthMonitor") is None


@pytest.mark.parametrize(
    "name", ["mortal.restarting", "mortal.started", "mortal.output", "mortal.done", "agent.state"]
)
def test_what_the_tree_shows_has_no_line(name: str) -> None:
    """The tree counts the restarts of mortals; those of drones are not shown (TREE-50)."""
    assert words(name, reason="r", restarts=1) is None


def test_a_question_is_told_once() -> None:
    """The following rest brings no second notice."""
    assert words("mortal.paused", by="question", detail="Which port?") is None


def test_a_list_elsewhere_is_named_in_what_is_to_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is named as the user named it; in its own folder it needs no name."""
    text = '[[assignment]]\nid = "a"\nargv = ["true"]\n'
    monkeypatch.chdir(tmp_path)
    asked = Event(name="operator.asked", id="a", seconds=1.0, detail={"question": "?"})
    here, there = (tree_of(parse(text, Path(file))) for file in ("w.toml", "lists/w.toml"))
    assert notice(asked, here) == "a NEEDS INPUT: ? -> `otpy-agents answer a TEXT`"
    assert notice(asked, there) == (
        "a NEEDS INPUT: ? -> `otpy-agents answer a TEXT --list lists/w.toml`"
    )
