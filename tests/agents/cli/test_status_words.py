"""The words of a status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from otpy_agents.cli.status_table import agents_table, hints, tree_lines, troubles
from otpy_agents.cli.tree_lookup import KnownTree

AGENT: dict[str, Any] = {
    "agent": "a",
    "project": "w",
    "role": "mortal",
    "by": "claude",
    "state": "working",
    "doing": "",
    "for_seconds": 3.0,
    "attempts": 2,
    "restarts": 1,
    "paused": None,
    "reason": "",
    "tokens": 1234,
    "cost_usd": 0.5,
    "seconds": 75.0,
    "left": {},
}


def table(*agents: dict[str, Any], projects: int = 1) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(agents_table({"agents": agents, "projects": [{}] * projects}))
    return [line.split() for line in capture.get().splitlines()[1:]]


def test_restarts_of_drones_are_shown_only_once_they_are_reaped() -> None:
    """The restarts of mortals are a count (TREE-50)."""
    mortal = table(AGENT)[0]
    assert mortal == ["a", "claude", "working", "3.0", "s", "2", "1", "1.2k", "$0.5000", "75", "s"]
    drone = AGENT | {"role": "drone"}
    assert table(drone)[0][5:7] == ["2", "1.2k"]
    assert table(drone | {"state": "reaped"})[0][5:7] == ["2", "1"]


def test_an_unknown_cost_is_no_zero() -> None:
    """The project's name tells agents of several projects apart."""
    row = table(AGENT | {"cost_usd": None}, projects=2)[0]
    assert (row[0], row[8]) == ("w/a", "?")


def hint(**paused: object) -> str:
    """Return the hint about a resting agent."""
    tree = KnownTree(socket=Path("x"), list="w.toml", named=("--list", "w.toml"))
    whole = {"why": "x", "account": "", "kind": "tokens", "frozen": False, "resting": True}
    row = AGENT | {"paused": whole | paused}
    return next(hints({"projects": [{}], "agents": [row]}, tree))


def test_who_rests_comes_with_what_to_type() -> None:
    """The command depends on the pause, and names the list if the user named it."""
    said = {by: hint(by=by) for by in ("budget", "question", "operator", "rule:r")}
    assert said["budget"].endswith("`otpy-agents budget grant a --tokens N --list w.toml`")
    shared = hint(by="budget", account="w", kind="cost_usd")
    assert shared.endswith("`otpy-agents budget grant w --usd X --list w.toml`")
    assert said["question"].endswith("`otpy-agents answer a TEXT --list w.toml`")
    assert said["operator"] == "a rests (operator: x): `otpy-agents resume a --list w.toml`"
    assert said["rule:r"].endswith("`otpy-agents resume a --list w.toml`")


def test_jake_is_always_shown_and_dead_monitors_one_by_one() -> None:
    """Cooldowns are shown too, and the parts that are not ready (TREE-50)."""
    part = {"name": "m", "path": "A/J/Jake", "state": "running", "alive": True, "restarts": 2}
    part |= {"last_exit": None}
    dead = part | {"state": "backing off", "alive": False, "last_exit": "crashed: X"}
    cooldown = {"agent": "codex", "account": "work", "for_seconds": 90.0, "reason": "rate limit"}
    status = {"jakes": [part], "monitors": [part, dead], "cooldowns": [cooldown]}
    lines = list(troubles(status | {"not_ready": ["A/x: stalled"]}))
    assert lines == [
        "J/Jake: running ↻2",
        "m: running ↻2",
        "m: backing off ↻2, last exit: crashed: X",
        "cooldown: codex (work) for 90 s: rate limit",
        "not ready: A/x: stalled",
    ]


def test_a_tree_is_drawn_with_lives_and_restarts() -> None:
    """The tree contains nothing that could move the cursor."""
    leaf: dict[str, Any] = {"id": "b", "state": "running", "incarnation": 3, "restarts": 2}
    leaf |= {"last_exit": "crashed: \x1b[2J", "due_in": None, "children": []}
    waits = leaf | {"id": "c", "state": "backing off", "due_in": 1.25}
    root = leaf | {"id": "a", "incarnation": 0, "restarts": 0, "last_exit": None}
    assert list(tree_lines(root | {"children": [leaf, waits]})) == [
        "a  running",
        "├─ b  running  life 3  ↻2  last exit: crashed: \\x1b[2J",
        "└─ c  backing off for 1.2 s  life 3  ↻2  last exit: crashed: \\x1b[2J",
    ]
