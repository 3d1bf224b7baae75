"""The health daemon: agents of a feed that make no progress, and steps that block the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from otpy import observe
from otpy_monitors.findings import FindingHook, LoopLag, LoopStalled
from otpy_monitors.stalls import StallWatch

if TYPE_CHECKING:
    from otpy_monitors.activity import Activity
    from otpy_monitors.feed import Feed

LAG_LIMIT: Final = 0.5
"""Seconds a timer may be late before it is reported."""

_ON_TIME: Final = 0.05  # seconds after which a wake-up is late
_DRAIN: Final = 0.25  # seconds; enough for the readers, and less than any sensible limit


async def watch_health(feed: Feed, report: FindingHook) -> None:
    """Report agents that stall, a warning first, and a loop that lags (TREE-30, TREE-43).

    Only agents whose card declares `stall` are judged; silence of the others means nothing (C-01).
    It does not poll: it sleeps until the earliest moment at which an agent could stall, and for
    ever if none can. After a kill and a restart it looks at the feed once, and reports again
    what still holds: the hook must accept a repeated finding.

    When it wakes up late, because the process was stopped or the loop blocked, what agents said
    meanwhile has not been read yet. So it judges nobody then: the time in which it knows of no turn
    of the loop is nobody's silence, and `LoopLag` tells of it.

    Args:
        feed: Where agents are heard.
        report: Gets `StallWarned`, `Stalled` and `LoopLag`.

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

    with feed.subscribe(hear):
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


async def watch_blocks(report: FindingHook) -> None:
    """Report steps that block the event loop, with the child they belong to (AIO-01).

    Args:
        report: Gets `LoopStalled`, when the loop turns again.

    Cancellation:
        It runs until it is cancelled; its thread ends with it.
    """

    def blocked(fact: observe.LoopBlocked) -> None:
        report(LoopStalled(fact.path, fact.incarnation, fact.seconds, fact.stack))

    await observe.watch_loop(blocked)
