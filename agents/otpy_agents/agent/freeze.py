"""Freezes all processes of an agent at once, for an operator who cannot wait (G-10)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import psutil

from otpy_agents.agent.pause import OPERATOR
from otpy_agents.agent.state import Happening
from otpy_agents.process.orphans import Orphan, find, same_start
from otpy_agents.sandbox.marker import run_marker
from otpy_monitors import activity

if TYPE_CHECKING:
    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.post import Post

__all__ = ["freeze", "freeze_agent", "thaw", "thaw_agent"]

_ROUNDS: Final = 5

_DRAINED: Final = 0.05
"""Seconds in which the last that a stopped process has written is certainly read."""


async def freeze_agent(desk: Desk, post: Post, why: str) -> bool:
    """Stop all processes of the run of an agent; return whether there was anything to be stopped.

    Cancellation:
        They may have been stopped.
    """
    frozen = () if post.run is None else await freeze(post.run.id)
    if not frozen or not post.move(Happening.RESTED, why):
        thaw(frozen)
        return False
    post.frozen = frozen
    await asyncio.sleep(_DRAINED)  # what it had said before would count as progress
    now = asyncio.get_running_loop().time()
    desk.workplace.feed.tell(activity.RestBegan(post.key, now, why))
    desk.tell("mortal.paused", post.assignment.id, by=OPERATOR, detail=why, frozen=len(post.frozen))
    return True


def thaw_agent(desk: Desk, post: Post) -> None:
    """Let the processes of an agent go on that were stopped."""
    frozen, post.frozen = post.frozen, ()
    thaw(frozen)
    now = asyncio.get_running_loop().time()
    desk.workplace.feed.tell(activity.RestEnded(post.key, now))


async def freeze(run: str) -> tuple[Orphan, ...]:
    """Stop every process of a run (SIGSTOP), and return them; those in a container it cannot see.

    Cancellation:
        It is carried to its end first.
    """
    return await anyio.to_thread.run_sync(_freeze, run)


def _freeze(run: str) -> tuple[Orphan, ...]:
    stopped: dict[int, Orphan] = {}
    for _ in range(_ROUNDS):  # what was started while the others were being stopped
        found = [one for one in find(run_marker(run)) if one.pid not in stopped]
        if not found:
            break
        for one in found:
            _signal(one, signal.SIGSTOP)
            stopped[one.pid] = one
    return tuple(stopped.values())


def thaw(processes: Iterable[Orphan]) -> None:
    """Let processes go on (SIGCONT) that were stopped and are still there."""
    for one in processes:
        _signal(one, signal.SIGCONT)


def _signal(process: Orphan, number: signal.Signals) -> None:
    with suppress(psutil.Error, ProcessLookupError):
        if same_start(psutil.Process(process.pid).create_time(), process.create_time):
            os.kill(process.pid, number)
