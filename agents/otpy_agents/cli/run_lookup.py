"""Where the commands about runs find them: the state file, and a run by the beginning of its id."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from otpy_agents.cli.refusal import fail
from otpy_agents.errors import AgentsError, UnknownRun
from otpy_agents.store import RunStore, default_state

__all__ = ["find_run", "look", "mended", "state_file", "state_option", "typed"]

T = TypeVar("T")

_KEY: Final = "otpy_agents.state"
# How errors of a library name it, which knows nothing of options.
_RESUME: Final = re.compile(r"`otpy-agents runs resume (\S+)`")


def _remember(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.meta[_KEY] = value


state_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--state",
    type=click.Path(path_type=Path, readable=False),  # opening it says more
    metavar="FILE",
    expose_value=False,
    callback=_remember,
    help="Where runs are stored; default $OTPY_STATE or ~/.local/state/otpy/runs.sqlite3.",
)
"""`--state`, which a group and its commands may both have; the inner one wins."""


def state_file() -> Path:
    """Return the state file of the command that is being carried out."""
    stated: Path | None = click.get_current_context().meta.get(_KEY)
    return stated if stated is not None else default_state(os.environ)


def typed(*words: str) -> str:
    """Return the command `otpy-agents` with these words, as it has to be typed elsewhere.

    A state file that was named has to be named there too.
    """
    context = click.get_current_context(silent=True)
    stated: Path | None = None if context is None else context.meta.get(_KEY)
    where = () if stated is None else ("--state", os.path.abspath(stated))  # noqa: PTH100 - links
    return shlex.join(("otpy-agents", *words, *where))


def mended(error: Exception) -> str:
    """Return an error's message, with the command in it as it has to be typed here."""
    return _RESUME.sub(lambda found: f"`{typed('runs', 'resume', found[1])}`", str(error))


def look(work: Callable[[RunStore], Awaitable[T]], *, otherwise: T | None = None) -> T:
    """Return what `work` finds in the store, without becoming a host; leave if it cannot.

    Args:
        work: Reads the store, or asks a host.
        otherwise: What to return if there is no state file, which is not made for this; None leaves
            with a line.
    """
    path = state_file()
    if _is_missing(path):
        if otherwise is None:
            fail(f"{path}: got no file, wanted one with runs", 2)
        return otherwise

    async def looking() -> T:
        async with RunStore(path, as_host=False) as store:
            return await work(store)

    try:
        return asyncio.run(looking())
    except UnknownRun as error:
        fail(error, 2)
    except AgentsError as error:
        fail(mended(error), 1)


def _is_missing(path: Path) -> bool:
    """Whether the file is known to be missing; in an unreadable folder that is unknown."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


async def find_run(store: RunStore, beginning: str) -> str:
    """Return the id of the one run that begins so; leave if there are several.

    Raises:
        UnknownRun: If there is none.
    """
    wanted = beginning.strip().lower()
    ids = [record.id for record in await store.runs()]
    found = [run for run in ids if run == wanted] or [
        run for run in ids if wanted and run.startswith(wanted)
    ]
    if not found:
        raise UnknownRun(beginning)
    if len(found) > 1:
        fail(f"run {beginning!r}: got the beginning of {', '.join(sorted(found))}; wanted one", 2)
    return found[0]
