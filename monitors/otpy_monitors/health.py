"""The health daemon: agents of a feed that make no progress, and steps that block the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from otpy_monitors.findings import FindingHook, LoopBlocked
from otpy_monitors.stalls import StallWatch

if TYPE_CHECKING:
    from otpy_monitors.activity import Activity
    from otpy_monitors.feed import Feed

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

    Args:
        feed: Where agents are heard.
        report: Gets `StallWarned`, `Stalled` and `LoopBlocked`.
        loop_watch: What tells `LoopBlocked`; None if nobody looks after the loop.

    Cancellation:
        It runs until it is cancelled, and keeps nothing worth saving.
    """
    loop = asyncio.get_running_loop()
    watch = StallWatch(feed)
    earlier = asyncio.Event()

    def hear(activity: Activity) -> None:
        if watch.hear(activity):
            earlier.set()

    with nullcontext() if loop_watch is None else loop_watch(report), feed.subscribe(hear):
        while True:
            earlier.clear()
            due = watch.due
            try:
                async with asyncio.timeout_at(due):
                    await earlier.wait()
            except TimeoutError:
                # A timer may fire within the clock's resolution before its time.
                for finding in watch.judge(loop.time() if due is None else max(due, loop.time())):
                    report(finding)
