"""The health daemon: agents of a feed that make no progress, and steps that block the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeAlias

from otpy_monitors.board_health import LAG_LIMIT
from otpy_monitors.findings import FindingHook, LoopBlocked, LoopLag
from otpy_monitors.stalls import StallWatch

if TYPE_CHECKING:
    from otpy_monitors.activity import Activity
    from otpy_monitors.feed import Feed

_ON_TIME: Final = 0.05  # seconds after which a wake-up is late
_DRAIN: Final = 0.25  # seconds; enough for the readers, and less than any sensible limit

LoopWatch: TypeAlias = Callable[[Callable[[LoopBlocked], object]], AbstractContextManager[object]]
"""Watches the event loop while its context lasts, and calls what it is given, on the loop."""


async def watch_health(
    feed: Feed, report: FindingHook, *, loop_watch: LoopWatch | None = None
) -> None:
    """Report agents that stall, a warning first, and whatever blocks the loop (TREE-30, TREE-43).

    Only agents whose card declares `stall` are judged; silence of the others means nothing (C-01).
    It does not poll: it sleeps until the earliest moment at which an agent could stall, and for
    ever if none can. Killed and started again it looks at the feed once, and reports anew what
    still holds: whoever acts on a finding must bear to hear it twice.

    When it wakes up late, because the process was stopped or the loop blocked, what agents said
    meanwhile has not been read yet. So it judges nobody then: the time in which it knows of no turn
    of the loop is nobody's silence, and `LoopLag` tells of it.

    Args:
        feed: Where agents are heard.
        report: Gets `StallWarned`, `Stalled`, `LoopLag` and `LoopBlocked`.
        loop_watch: What tells `LoopBlocked`; None if nobody looks after the loop.

    Cancellation:
        It runs until it is cancelled, and keeps nothing worth saving.
    """
    loop = asyncio.get_running_loop()
    watch = StallWatch(feed)
    earlier = asyncio.Event()
    due: float | None = None
    turned = asleep = loop.time()

    def late() -> float:
        return 0.0 if due is None else loop.time() - max(due, asleep)

    def hear(activity: Activity) -> None:
        nonlocal turned
        if (
            late() <= _ON_TIME
        ):  # what is read after a late wake-up does not show when the loop stood
            turned = loop.time()
        if watch.hear(activity):
            earlier.set()

    with nullcontext() if loop_watch is None else loop_watch(report), feed.subscribe(hear):
        while True:
            earlier.clear()
            due, turned, asleep = watch.due, loop.time(), loop.time()
            try:
                async with asyncio.timeout_at(due):
                    await earlier.wait()
            except TimeoutError:
                lag = late()
                if lag > _ON_TIME:
                    await asyncio.sleep(_DRAIN)
                if lag > LAG_LIMIT:
                    report(LoopLag(lag, LAG_LIMIT))
                    watch.excuse(turned, loop.time())
                for finding in watch.judge(loop.time()):
                    report(finding)
