"""Where the commands to a running tree find it: by its list, by its ledger, or by where one is."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from attrs import evolve, frozen
from pydantic import JsonValue

from otpy_agents.cli.refusal import fail
from otpy_agents.errors import (
    AgentsError,
    CommandRefused,
    HostGone,
    InvalidWorkList,
    NoAnswer,
)
from otpy_agents.operator import Argument, CommandRefusal, ask
from otpy_agents.store import default_state
from otpy_agents.store.tree_register import TreeRecord, TreeRegister, socket_beside
from otpy_agents.worklist.reader import read

if TYPE_CHECKING:
    from otpy_agents.worklist.assignment import WorkList

__all__ = [
    "ANSWER_WITHIN",
    "KnownTree",
    "epilog_of",
    "find_tree",
    "gone",
    "list_option",
    "listed_here",
    "named_tree",
    "state_option",
    "status_of",
    "told",
    "tree_of",
]


ANSWER_WITHIN: Final = 30.0
"""Seconds in which a host answers a command."""

_COMMAND: Final = re.compile("(?<=`)otpy-agents [^`]+(?=`)")

list_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--list",
    "file",
    type=click.Path(path_type=Path),
    metavar="LIST",
    help="The work list of the tree; default the one that is worked on in this folder.",
)
"""`--list`, for commands whose argument is something else."""

state_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The ledger of the tree, LIST.sqlite, in place of its list.",
)
"""`--state`, which all of them have."""


@frozen(kw_only=True)
class KnownTree:
    """A tree, wherever it is and whether or not it runs.

    Attributes:
        socket: Where its host listens.
        list: Its work list, as it is to be typed; None if only its ledger is known.
        named: The words by which it was named, to be typed again.
    """

    socket: Path
    list: str | None
    named: tuple[str, ...] = ()

    @property
    def ledger(self) -> Path:
        """Its ledger, which lies beside the socket."""
        return self.socket.with_name(self.socket.name.removesuffix(".sock"))

    def typed(self, *words: str) -> str:
        """Return a command about it, as it has to be typed."""
        return shlex.join(("otpy-agents", *words, *self.named))

    def completed(self, said: str) -> str:
        """Return what its host says, with each command about it as it has to be typed.

        The host does not know by which words it was found.
        """
        named = shlex.join(self.named)
        return _COMMAND.sub(lambda found: f"{found[0]} {named}", said) if named else said

    def up(self) -> str:
        """Return what starts it."""
        return shlex.join(("otpy-agents", "up", self.list or "LIST"))


def find_tree(file: Path | None, state: Path | None) -> KnownTree:
    """Return the tree that is meant; leave if that cannot be told.

    Args:
        file: Its work list; None if it was not named.
        state: Its ledger; None if it was not named.
    """
    if file is not None and state is not None:
        raise click.UsageError("LIST and --state contradict each other")
    if state is not None:
        return KnownTree(
            socket=socket_beside(state.absolute()), list=None, named=("--state", os.fspath(state))
        )
    if file is not None:
        named = ("--list", os.fspath(file))
        return KnownTree(socket=socket_beside(_ledger_of(file)), list=os.fspath(file), named=named)
    here = listed_here()
    living = [record for record in here if record.lives()]
    if len(living) == 1 or (not living and len(here) == 1):
        (record,) = living or here
        return KnownTree(socket=record.socket, list=os.path.basename(record.list))  # noqa: PTH119
    return _ambiguous(living or here)


def tree_of(work: WorkList) -> KnownTree:
    """Return the tree of a list, named as it has to be from this folder."""
    file = os.fspath(work.file)
    named = () if work.here == Path.cwd() else ("--list", file)
    return KnownTree(socket=socket_beside(work.state), list=file, named=named)


def named_tree(work: WorkList) -> KnownTree:
    """Return the tree of a list, named by its file: another list is worked on beside it."""
    return evolve(tree_of(work), named=("--list", os.fspath(work.file)))


def _ledger_of(file: Path) -> Path:
    """Return the ledger of a list; for a list that became invalid, as its host has listed it."""
    try:
        return read(file).state
    except InvalidWorkList as error:
        wanted = os.path.abspath(file)  # noqa: PTH100 - keeps links, as the host does
        for record in _register().all():
            if record.list == wanted:
                return Path(record.state)
        fail(error, 2)


def listed_here() -> list[TreeRecord]:
    """Return the trees whose lists lie in this folder."""
    here = Path.cwd()
    return [one for one in _register().all() if Path(one.list).parent == here]


def _ambiguous(several: list[TreeRecord]) -> NoReturn:
    if several:
        names = ", ".join(os.path.basename(one.list) for one in several)  # noqa: PTH119
        fail(f"got several trees in this folder, wanted --list with one of: {names}", 2)
    elsewhere = [one.list for one in _register().all() if one.lives()]
    if elsewhere:
        names = ", ".join(elsewhere)
        fail(f"nothing runs for a list in this folder; --list names another: {names}", 1)
    fail("no tree is running; `otpy-agents up LIST` starts one", 1)


def running() -> tuple[TreeRecord, ...]:
    """Return the trees of this user that run, and those whose host was killed."""
    return _register().all()


def _register() -> TreeRegister:
    return TreeRegister(default_state(os.environ))


def status_of(error: CommandRefused) -> int:
    """Return the exit status of a command that was refused, as `epilog_of` tells it."""
    return 2 if error.reason == CommandRefusal.NOT_FOUND else 1


def epilog_of(*examples: str, failure: str = "it could not be done") -> str:
    """Return the end of the help of a command to a tree: exit statuses and examples.

    Args:
        examples: What is typed behind `otpy-agents`.
        failure: What the status 1 means.
    """
    statuses = (
        "0  done",
        f"1  {failure}; the line says why",
        "2  no such agent, or the command line is wrong",
    )
    lines = ["\b", "Exit status:", *(f"  {status}" for status in statuses), ""]
    return "\n".join([*lines, "\b", "Examples:", *(f"  otpy-agents {one}" for one in examples)])


def told(tree: KnownTree, command: str, **arguments: Argument) -> JsonValue:
    """Let the host of a tree carry a command out, and return its answer; leave if it does not."""
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        answer = asyncio.run(ask(tree.socket, command, within=ANSWER_WITHIN, **given))
    except HostGone:
        gone(tree)
    except CommandRefused as error:
        fail(tree.completed(str(error)), status_of(error))
    except NoAnswer as error:
        fail(error, 1)
    except AgentsError as error:
        fail(error, 1)
    return tree.completed(answer) if isinstance(answer, str) else answer


def gone(tree: KnownTree) -> NoReturn:
    """Say that no host listens for a tree, why, and what to type; exit."""
    name = tree.list or tree.socket.name.removesuffix(".sock")
    for record in _register().all():
        if record.socket != tree.socket:
            continue
        if record.lives():
            fail(f"{name}: its host (process {record.pid}) is starting or ending; try again", 1)
        fail(f"{name}: its host (process {record.pid}) was killed; `{tree.up()}` goes on", 1)
    if tree.socket.exists():
        fail(f"{name}: its host was killed; `{tree.up()}` goes on", 1)
    fail(f"{name}: nothing runs; `{tree.up()}` starts it", 1)
