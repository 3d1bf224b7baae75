"""What must hold of every tree after every simulation, whatever its children do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from otpy._core.spec import BRUTAL_KILL, INFINITY
from otpy._runtime.stop import KILL_GRACE
from otpy.errors import NotRunning, OtpyError
from otpy.reports import ChildExited, ChildStarted, ChildStartFailed, ChildStopped

if TYPE_CHECKING:
    from otpy._runtime.process import Process
    from otpy._runtime.tree import AnySupervisor
    from otpy.reports import Report

_LAST_STEPS = 6  # a stop that a kill overtakes, which waits for cancellations and threads again


@final
class PromiseBroken(OtpyError, AssertionError):
    """A simulated tree broke a promise that every tree keeps."""


def check_nothing_left() -> None:
    """Check that no task but the caller's is left in the running loop.

    Raises:
        PromiseBroken: One is.
    """
    left = sorted(task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()})
    if left:
        raise PromiseBroken(f"tasks are left after the stop: {', '.join(left)}")


def check_silence(unheard: Iterable[Mapping[str, Any]]) -> None:
    """Check that the loop was told of no error that nobody else heard of.

    Args:
        unheard: What its exception handler was given.

    Raises:
        PromiseBroken: It was told of one; the error is the cause.
    """
    for context in unheard:
        error = context.get("exception")
        raise PromiseBroken(f"nobody heard of an error: {context['message']}: {error!r}") from error


def check_lives(reports: Iterable[Report]) -> None:
    """Check that each life that was reported to begin was reported to end, once.

    Raises:
        PromiseBroken: A report is missing, doubled or out of order.
    """
    begun: dict[str, ChildStarted] = {}
    for report in reports:
        if isinstance(report, ChildStarted):
            if report.path in begun:
                raise PromiseBroken(f"{report} came before the end of {begun[report.path]}")
            begun[report.path] = report
        elif isinstance(report, ChildExited | ChildStopped):
            life = begun.pop(report.path, None)
            if life is None and isinstance(report, ChildExited):
                raise PromiseBroken(f"{report} came without a life before it")
            if life is not None and life.incarnation != report.incarnation:
                raise PromiseBroken(f"{report} came for {life}")
        elif isinstance(report, ChildStartFailed) and report.path in begun:
            raise PromiseBroken(f"{report} came in the midst of {begun[report.path]}")
    if begun:
        raise PromiseBroken(f"no end was reported of {', '.join(map(str, begun.values()))}")


def longest_stop(root: AnySupervisor) -> float:
    """Return how many seconds stopping `root` may take now: the deadlines of all that runs."""
    return sum(_longest_of(process) for process in _children_of(root))


def _children_of(supervisor: AnySupervisor) -> Iterator[Process]:
    for node in supervisor.snapshot().children:
        with suppress(NotRunning):
            yield supervisor.child(node.id)


def _longest_of(process: Process) -> float:
    limit = process.spec.shutdown
    seconds = math.inf if limit is INFINITY else 0.0 if limit is BRUTAL_KILL else float(limit)
    longest = seconds + _LAST_STEPS * KILL_GRACE
    if process.supervisor is None:
        return longest
    return min(longest, longest_stop(process.supervisor))  # then all below it is killed, at once
