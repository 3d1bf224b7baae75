"""`otpy-agents status` and `otpy-agents tree`: look at a running tree from another terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from otpy_agents.cli.run_words import span
from otpy_agents.cli.status_table import agents_table, heads, hints, tree_lines, troubles
from otpy_agents.cli.tree_lookup import (
    find_tree,
    list_option,
    listed_here,
    running,
    state_option,
    told,
)
from otpy_agents.cli.view import printable
from otpy_agents.clock import CLOCK
from otpy_agents.store.tree_register import TreeRecord

__all__ = ["status", "tree"]

_WIDE: Final = 200  # columns where their number is unknown

_STATUS: Final = """\b
Exit status:
  0  done
  1  nothing runs; the line says what to type
  2  the list, or the command line, is wrong
"""


@click.command(
    epilog=f"""{_STATUS}
\b
Examples:
  otpy-agents status
  otpy-agents status nightly.toml
  otpy-agents status --json | jq '.agents[] | select(.paused)'
"""
)
@click.argument("named", metavar="[LIST]", required=False, type=click.Path(path_type=Path))
@list_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@state_option
def status(named: Path | None, *, file: Path | None, state: Path | None, as_json: bool) -> None:
    """Show what the agents of a running tree do.

    Without LIST it is the tree that works on a list in this folder; where there is none, or there
    are several, the running trees are listed.

    For each agent: its state and since when, attempts, restarts, tokens, cost, working time, what
    is left of its budget, and what it is at. A cost of `?` is one whose price is not known.
    """
    file = _one_of(named, file)
    if file is None and state is None:
        living = [record for record in listed_here() if record.lives()]
        others = [record for record in running() if record.lives()]
        if len(living) > 1 or (not listed_here() and others):
            _list(living or others, as_json=as_json)
            return
    found = find_tree(file, state)
    answer = cast("dict[str, Any]", told(found, "status"))
    if as_json:
        print(json.dumps(answer))
        return
    for line in heads(answer):
        print(line)
    _print(agents_table(answer))
    for line in troubles(answer):
        print(line)
    for line in hints(answer, found):
        print(line)


@click.command(epilog=f"{_STATUS}\n\b\nExamples:\n  otpy-agents tree\n  otpy-agents tree w.toml\n")
@click.argument("named", metavar="[LIST]", required=False, type=click.Path(path_type=Path))
@list_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@state_option
def tree(named: Path | None, *, file: Path | None, state: Path | None, as_json: bool) -> None:
    """Show the supervision tree that runs, as it is at this moment.

    For each supervisor and worker: its state, which life it is, how often it was restarted, and why
    its last life ended.
    """
    answer = cast("dict[str, Any]", told(find_tree(_one_of(named, file), state), "tree"))
    if as_json:
        print(json.dumps(answer))
        return
    for line in tree_lines(answer):
        print(line)


def _one_of(named: Path | None, file: Path | None) -> Path | None:
    """Return the list, which may be named as an argument or, as for the others, by `--list`."""
    if named is not None and file is not None:
        raise click.UsageError("LIST and --list contradict each other")
    return named or file


def _list(records: list[TreeRecord], *, as_json: bool) -> None:
    """List the trees that run."""
    now = CLOCK()
    if as_json:
        for one in records:
            plain = {"list": one.list, "state": one.state, "pid": one.pid, "started": one.started}
            print(json.dumps(plain))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("list", "process", "since"):
        table.add_column(name, no_wrap=True)
    for one in records:
        table.add_row(Text(printable(one.list)), Text(str(one.pid)), Text(span(now - one.started)))
    _print(table)


def _print(table: Table) -> None:
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)
