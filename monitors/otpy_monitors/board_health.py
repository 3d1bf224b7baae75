"""The health daemon: workers that make no progress, and a blocked event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from attrs import define

from otpy_monitors.findings import FindingHook, LoopLag, Stalled

if TYPE_CHECKING:
    from otpy_monitors.board import Board, Vitals

LAG_LIMIT: Final = 0.5
"""Seconds a timer may be late before it is reported."""

_SAME: Final = 0.001  # seconds; two looks that take a moment each see the same silence


async def health_monitor(board: Board, report: FindingHook, *, interval: float = 0.25) -> None:
    """Report workers that stall, once per life, and an event loop that lags (TREE-30, TREE-43).

    Only workers that declare `stall` are judged; silence of the others means nothing (C-01). A look
    that comes late judges nobody, so that what lies in the pipes is read first, and the time since
    the look before counts as silence of nobody. Runs until it is cancelled and keeps nothing worth
    saving.

    Args:
        board: Where to look.
        report: Gets `Stalled` and `LoopLag`.
        interval: Seconds between two looks.
    """
    loop = asyncio.get_running_loop()
    told: set[tuple[str, int, int]] = set()
    excused: dict[tuple[str, int, int], _Excused] = {}
    looked = loop.time()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        now = loop.time()
        workers = board.vitals()
        told &= {worker.life for worker in workers}
        excused = {one.life: _excuse(one, now, excused.get(one.life)) for one in workers}
        if now - due > LAG_LIMIT:
            report(LoopLag(now - due, LAG_LIMIT))
            for excuse in excused.values():
                excuse.seconds += now - max(looked, excuse.heard)
            workers = []
        looked = now
        for worker in workers:
            quiet = worker.quiet - excused[worker.life].seconds
            stalled = worker.stall is not None and quiet >= worker.stall
            if worker.stall is not None and stalled and worker.life not in told:
                told.add(worker.life)
                report(Stalled(worker.path, worker.incarnation, quiet, worker.stall))


@define
class _Excused:
    """How much of the silence since `heard` does not count."""

    heard: float
    seconds: float = 0.0


def _excuse(worker: Vitals, now: float, before: _Excused | None) -> _Excused:
    """Return what is excused of the silence of `worker`: nothing more once it is heard again."""
    heard = now - worker.quiet
    same = before is not None and heard - before.heard < _SAME
    return before if before is not None and same else _Excused(heard)
