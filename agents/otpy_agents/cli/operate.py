"""Commands to the agents of a running tree: pause, resume, answer, reap, warn."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from otpy_agents.cli.tree_lookup import (
    KnownTree,
    epilog_of,
    find_tree,
    list_option,
    state_option,
    told,
)
from otpy_agents.cli.view import printable

__all__ = ["answer", "pause", "reap", "resume", "warn"]

_epilog = partial(epilog_of, failure="it could not be done, or nothing runs")


def _say(agent: str, answer: object, then: str = "") -> None:
    print(printable(f"{agent}: {answer}") + (f"; {then}" if then else ""))


def _lets_go_on(tree: KnownTree, agent: str) -> str:
    return f"`{tree.typed('resume', agent)}` lets it go on"


@click.command(epilog=_epilog("pause build", "pause build --now", "pause build --list w.toml"))
@click.argument("agent")
@click.option("--now", is_flag=True, help="Freeze its processes on the spot, in mid-turn.")
@list_option
@state_option
def pause(agent: str, *, now: bool, file: Path | None, state: Path | None) -> None:
    """Let AGENT rest.

    An agent rests from the next boundary of a turn on, when no tool call is open; it goes on in the
    same session. A program is frozen at once, with all that it started.
    """
    tree = find_tree(file, state)
    said = told(tree, "pause", agent=agent, now=now or None)
    _say(agent, said, _lets_go_on(tree, agent))


@click.command(epilog=_epilog("resume build"))
@click.argument("agent")
@list_option
@state_option
def resume(agent: str, *, file: Path | None, state: Path | None) -> None:
    """Let AGENT go on: after a pause, a rule or a failure of its group.

    One whose budget is spent needs more of it (`otpy-agents budget grant`), and one that has asked
    needs an answer (`otpy-agents answer`); the answer says so.
    """
    _say(agent, told(find_tree(file, state), "resume", agent=agent))


@click.command(epilog=_epilog('answer build "Use the port 8080."'))
@click.argument("agent")
@click.argument("text")
@list_option
@state_option
def answer(agent: str, text: str, *, file: Path | None, state: Path | None) -> None:
    """Answer what AGENT has asked, and let it go on."""
    _say(agent, told(find_tree(file, state), "answer", agent=agent, text=text))


@click.command(epilog=_epilog('reap build --why "It mends the wrong thing."'))
@click.argument("agent")
@click.option("--why", required=True, metavar="TEXT", help="The reason; it is kept.")
@list_option
@state_option
def reap(agent: str, why: str, *, file: Path | None, state: Path | None) -> None:
    """End AGENT for good.

    It is asked to end, then killed, and not started again unless `otpy-agents retry` says so.
    """
    _say(agent, told(find_tree(file, state), "reap", agent=agent, why=why))


@click.command(epilog=_epilog('warn build "The tests need node 20."'))
@click.argument("agent")
@click.argument("text")
@list_option
@state_option
def warn(agent: str, text: str, *, file: Path | None, state: Path | None) -> None:
    """Send AGENT a message: into its notes ($OTPY_NOTES), and into its next prompt."""
    _say(agent, told(find_tree(file, state), "warn", agent=agent, text=text))
