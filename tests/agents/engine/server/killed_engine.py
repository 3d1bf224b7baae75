"""Engines in processes of their own, which kill themselves at a chosen moment.

All come from a server that forks: a process has loaded everything when it begins.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, TypeAlias

from otpy_agents.log import EventLog
from otpy_agents.workspace.git import Git
from tests.agents.engine.server.engine_site import EngineSite, writing

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
Work: TypeAlias = Callable[[EngineSite], Coroutine[Any, Any, None]]
POINTS: Final = {"append": (EventLog, "append"), "git": (Git, "_once")}
"""What is counted: each is a method, before and after which a process may be killed."""


class _Bomb:
    """Kills this process before or after the n-th call of a method; 0 kills never."""

    def __init__(self, what: str, at: int, *, after: bool) -> None:
        self.count = 0
        kind, name = POINTS[what]
        real: Any = getattr(kind, name)

        async def method(*args: Any, **more: Any) -> Any:
            self.count += 1
            due = self.count == at
            if due and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await real(*args, **more)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(kind, name, method)


async def step(site: EngineSite) -> None:
    """Let an agent that is a function do a step."""
    assert (await site.run(writing(), rebase=True)).cause is None


async def settling(site: EngineSite) -> None:
    """Do what each command does before anything else."""
    async with site.engine(writing()):
        pass


async def real_step(site: EngineSite) -> None:
    """Let a program do a step."""
    await site.run(None)


def _work(  # the arguments of a process have no names
    work: Work,
    folder: Path,
    what: str,
    at: int,
    after: bool,
    told: Connection,
) -> None:
    bomb = _Bomb(what, at, after=after)
    asyncio.run(work(EngineSite(folder)))
    told.send(bomb.count)


def begun(work: Work, folder: Path) -> BaseProcess:
    """Begin some work in a process of its own."""
    _, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(work, folder, "git", 0, False, theirs))
    process.start()
    return process


def killed(work: Work, folder: Path, what: str, at: int, *, after: bool) -> int:
    """Do some work in a process that is killed at a moment.

    Returns:
        0 if it was killed; else the number of moments.
    """
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(work, folder, what, at, after, theirs))
    process.start()
    theirs.close()
    try:
        count = ours.recv()
    except EOFError:
        count = 0
    process.join()
    ours.close()
    assert process.exitcode == (0 if count else -signal.SIGKILL)
    return int(count)
