"""Freezing all processes of an agent on the spot, for an operator who cannot wait (G-10)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import anyio.to_thread
import psutil

from otpy_agents.run.marker import run_marker
from otpy_agents.run.orphans import Orphan, find, same_start

__all__ = ["freeze", "thaw"]

_ROUNDS: Final = 5


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
