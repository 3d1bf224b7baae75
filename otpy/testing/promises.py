"""What must hold of every tree after every simulation, whatever its children do."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from otpy import OtpyError
from otpy.reports import ChildExited, ChildStarted, ChildStartFailed, ChildStopped

if TYPE_CHECKING:
    from otpy.reports import Report


@final
class PromiseBroken(OtpyError, AssertionError):
    """A simulated tree broke a promise that every tree keeps."""


def check_nothing_left(named: Container[str] = ()) -> None:
    """Check that no task but the caller's is left in the running loop.

    Args:
        named: Paths of children that were given up, whose own tasks may be left.

    Raises:
        PromiseBroken: One is.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    left = sorted(name for name in map(asyncio.Task[Any].get_name, tasks) if name not in named)
    if left:
        raise PromiseBroken(f"tasks are left after the stop: {', '.join(left)}")


def check_silence(unheard: Iterable[Mapping[str, Any]]) -> None:
    """Check that no error reached the loop's exception handler alone.

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
