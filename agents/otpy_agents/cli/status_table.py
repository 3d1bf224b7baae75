"""A running tree as a person sees it: its agents, its parts, what to type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rich.table import Table
from rich.text import Text

from otpy_agents.agent.pause import AMOUNTS, BUDGET, QUESTION
from otpy_agents.cli.run_words import money, one_line, span
from otpy_agents.cli.tree_lookup import KnownTree
from otpy_agents.cli.view import TreeRow, printable, restart_mark

__all__ = ["agents_table", "heads", "hints", "tree_lines", "troubles", "what_to_type"]

Plain: TypeAlias = Mapping[str, Any]

_DOING: Final = 60
_STYLES: Final = {
    "working": "cyan",
    "verifying": "cyan",
    "done": "green",
    "reaped": "red",
    "failed": "red",
}
_THOUSAND: Final = 1000


def heads(status: Plain) -> Iterator[str]:
    """Yield a line for each project."""
    for one in status["projects"]:
        spent = [_tokens(one["tokens"]), _cost(one), span(one["seconds"])]
        left = _left(one["left"])
        parts = [
            f"{one['project']}  {one['finished']}/{one['total']}",
            "  ".join(part for part in spent if part),
            f"left {left}" if left else "",
            f"closed: {one['closed']}" if one["closed"] else "",
            f"process {status['host']['pid']}, for {span(status['host']['seconds'])}",
        ]
        yield printable("  ".join(part for part in parts if part))


def agents_table(status: Plain) -> Table:
    """Render the agents, in the order of the list."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("agent", "by", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("since", "attempts", "↻", "tokens", "cost", "time"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("left", no_wrap=True)
    table.add_column("doing", no_wrap=True, overflow="ellipsis")
    several = len(status["projects"]) > 1
    for row in status["agents"]:
        name = f"{row['project']}/{row['agent']}" if several else row["agent"]
        table.add_row(
            Text(printable(name)),
            Text(printable(row["by"])),
            Text(_state(row), style=_STYLES.get(row["state"], "yellow")),
            Text("" if row["for_seconds"] is None else span(row["for_seconds"])),
            Text(str(row["attempts"])),
            Text(_restarts(row)),
            Text(_tokens(row["tokens"])),
            Text(_cost(row)),
            Text(span(row["seconds"]) if row["attempts"] else ""),
            Text(_left(row["left"])),
            Text(one_line(row["doing"] or row["reason"], _DOING)),
        )
    return table


def _state(row: Plain) -> str:
    state = str(row["state"]).replace("_", " ")
    paused = row["paused"]
    if paused is None:
        return state
    return f"{state} (frozen)" if paused["frozen"] else state


def _restarts(row: Plain) -> str:
    """Return the restarts of an agent as they are to be seen (TREE-50)."""
    shown = TreeRow(id="", role=row["role"], state=row["state"], restarts=row["restarts"])
    return restart_mark(shown).removeprefix("↻")


def _tokens(number: int | None) -> str:
    if not number:
        return ""
    if number < _THOUSAND:
        return str(number)
    millions = number >= _THOUSAND * _THOUSAND
    return f"{number / 1e6:.1f}M" if millions else f"{number / 1e3:.1f}k"


def _cost(row: Plain) -> str:
    """Return the cost in dollars; `?` if part of it has no known price."""
    if row["cost_usd"] is None:
        return "?" if row["tokens"] else ""
    return money(row["cost_usd"]) if row["cost_usd"] else ""


def _left(left: Plain) -> str:
    parts: list[str] = []
    if "tokens" in left:
        parts.append(f"{_tokens(max(0, left['tokens'])) or '0'} tokens")
    if "cost_usd" in left:
        parts.append(money(max(0.0, left["cost_usd"])))
    if "seconds" in left:
        parts.append(span(left["seconds"]))
    if "output_bytes" in left:
        parts.append(f"{_tokens(max(0, left['output_bytes'])) or '0'} bytes")
    return ", ".join(parts)


def troubles(status: Plain) -> Iterator[str]:
    """Yield a line for each part of the tree that is worth one: Jake always."""
    for one in status["jakes"]:
        yield f"{one['path'].partition('/')[2]}: {_part(one)}"
    monitors: Sequence[Plain] = status["monitors"]
    if monitors and all(one["alive"] for one in monitors):
        names = ", ".join(
            one["name"] + (f" ↻{one['restarts']}" if one["restarts"] else "") for one in monitors
        )
        yield f"monitors: all alive ({names})"
    else:
        yield from (f"{one['name']}: {_part(one)}" for one in monitors)
    for one in status["cooldowns"]:
        account = f"{one['agent']} ({one['account']})" if one["account"] else one["agent"]
        yield printable(f"cooldown: {account} for {span(one['for_seconds'])}: {one['reason']}")
    for one in status["not_ready"]:
        yield printable(f"not ready: {one}")


def _part(one: Plain) -> str:
    last = f", last exit: {one['last_exit']}" if one["last_exit"] else ""
    return printable(f"{one['state']} ↻{one['restarts']}{last}")


def hints(status: Plain, tree: KnownTree) -> Iterator[str]:
    """Yield the command to type for each agent that rests, or will rest."""
    several = len(status["projects"]) > 1
    for row in status["agents"]:
        paused = row["paused"]
        if paused is None:
            continue
        name = f"{row['project']}/{row['agent']}" if several else row["agent"]
        when = "rests" if paused["resting"] else "will rest"
        why = one_line(paused["why"], _DOING)
        typed = what_to_type(name, paused["by"], tree, paused["account"], paused["kind"])
        because = f" ({paused['by']}{f': {why}' if why else ''})"
        yield f"{printable(name)} {when}{because}: `{typed}`"


def what_to_type(
    name: str, by: str, tree: KnownTree, account: str = "", kind: str = "tokens"
) -> str:
    """Return what lets an agent go on.

    Args:
        name: Of the agent.
        by: What it rests for.
        tree: Where it is.
        account: Whose budget is spent; empty for that of the agent.
        kind: Which budget that is.
    """
    if by == BUDGET:
        return tree.typed("budget", "grant", account or name, *AMOUNTS[kind].split())
    if by == QUESTION:
        return tree.typed("answer", name, "TEXT")
    return tree.typed("resume", name)


def tree_lines(node: Plain, head: str = "", below: str = "") -> Iterator[str]:
    """Yield the tree as text, one line for each supervisor and worker."""
    yield printable(head + "  ".join(_words(node)))
    children: Sequence[Plain] = node["children"]
    for child in children:
        last = child is children[-1]
        branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from tree_lines(child, below + branch, below + trunk)


def _words(node: Plain) -> Iterator[str]:
    yield node["id"]
    due = "" if node["due_in"] is None else f" for {node['due_in']:.1f} s"
    yield node["state"] + due
    if node["incarnation"]:
        yield f"life {node['incarnation']}"
    if node["restarts"]:
        yield f"↻{node['restarts']}"
    if node["last_exit"] is not None:
        yield f"last exit: {node['last_exit']}"
