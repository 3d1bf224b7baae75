"""`otpy-agents logs`: what happens in a running tree, from another terminal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final, cast

import click

from otpy_agents.app.chronicle import Event
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.tree_lookup import (
    ANSWER_WITHIN,
    KnownTree,
    find_tree,
    gone,
    list_option,
    state_option,
    told,
)
from otpy_agents.cli.view import json_line, plain_line
from otpy_agents.errors import AgentsError, CommandRefused, HostGone, NoAnswer
from otpy_agents.operator import CommandRefusal, ask

__all__ = ["logs"]

_INTERRUPTED: Final = 130
_PAUSE: Final = 0.5

_EPILOG = """\b
Exit status:
  0    all was shown; with -f, the tree has ended
  1    nothing runs, or its host was killed; the line says what to type
  2    no such agent, or the command line is wrong
  130  stopped by Ctrl-C

\b
Examples:
  otpy-agents logs
  otpy-agents logs -f build
  otpy-agents logs -f --json | jq -c 'select(.event == "operator.command")'
"""


@click.command(epilog=_EPILOG)
@click.argument("agent", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the tree ends, or Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per event.")
@list_option
@state_option
def logs(
    agent: str | None, *, follow: bool, as_json: bool, file: Path | None, state: Path | None
) -> None:
    """Show the latest events of a running tree, or of one AGENT of it.

    The events are those of `otpy-agents up`, without secrets. The tree never waits for who reads
    them: a reader that is too slow is told how many it has missed.
    """
    tree = find_tree(file, state)
    page = cast("dict[str, Any]", told(tree, "logs", agent=agent))
    try:
        asyncio.run(_show(tree, agent, page, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


async def _show(
    tree: KnownTree, agent: str | None, page: dict[str, Any], *, follow: bool, as_json: bool
) -> None:
    """Write page after page."""
    until = page["last"]
    while True:
        _write(page, as_json=as_json)
        if page["ended"] or (not follow and page["after"] >= until):
            return
        page = await _next(tree, agent, page["after"])


async def _next(tree: KnownTree, agent: str | None, after: int) -> dict[str, Any]:
    """Return the next page; leave if the tree is gone."""
    about = {} if agent is None else {"agent": agent}
    while True:
        try:
            answer = await ask(tree.socket, "more", within=ANSWER_WITHIN, after=after, **about)
            return cast("dict[str, Any]", answer)
        except CommandRefused as error:
            if error.reason != CommandRefusal.BUSY:
                fail(error, 1)
            await asyncio.sleep(_PAUSE)
        except (HostGone, NoAnswer):
            await _ended(tree)
        except AgentsError as error:
            fail(error, 1)


async def _ended(tree: KnownTree) -> None:
    """Leave: in good order if the tree has ended so, and otherwise with what to type."""
    for _ in range(10):  # its host may be about to sign off
        if not tree.socket.exists():
            missed = "the tree has ended; its last events were missed"
            print(f"otpy-agents: {missed}", file=sys.stderr)
            raise SystemExit(0)
        await asyncio.sleep(_PAUSE / 10)
    gone(tree)


def _write(page: dict[str, Any], *, as_json: bool) -> None:
    if page["lost"]:
        print(f"otpy-agents: {page['lost']} events were missed", file=sys.stderr, flush=True)
    for one in page["events"]:
        event = Event(name=one["event"], id=one["id"], seconds=one["seconds"], detail=one["detail"])
        print(json_line(event) if as_json else plain_line(event))
    sys.stdout.flush()
