"""The health daemon: workers that make no progress, and a blocked event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from otpy_monitors.findings import FindingHook, LoopLag, Stalled

if TYPE_CHECKING:
    from otpy_monitors.board import Board

LAG_LIMIT: Final = 0.5
"""Seconds a timer may be late before it is reported."""


async def health_monitor(board: Board, report: FindingHook, *, interval: float = 0.25) -> None:
    """Report workers that stall, once per life, and an event loop that lags (TREE-30, TREE-43).

    Only workers that declare `stall` are judged; silence of the others means nothing (C-01). Runs
    until it is cancelled and keeps nothing worth saving.

    Args:
        board: Where to look.
        report: Gets `Stalled` and `LoopLag`.
        interval: Seconds between two looks.
    """
    loop = asyncio.get_running_loop()
    told: set[tuple[str, int, int]] = set()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        lag = loop.time() - due
        if lag > LAG_LIMIT:
            report(LoopLag(lag, LAG_LIMIT))
        workers = board.vitals()
        told &= {worker.life for worker in workers}
        for worker in workers:
            stalled = worker.stall is not None and worker.quiet >= worker.stall
            if worker.stall is not None and stalled and worker.life not in told:
                told.add(worker.life)
                report(Stalled(worker.path, worker.incarnation, worker.quiet, worker.stall))
