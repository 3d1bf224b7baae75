"""The budget daemon: time and output, of each worker and of all together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from attrs import frozen

from otpy_monitors.findings import FindingHook, OverBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy_monitors.board import Board

WARN_AT: Final = 0.9
"""Share of a budget at which it is warned of."""


@frozen
class Spent:
    """What all workers together have used, those that have ended included.

    Attributes:
        seconds: Working time, in seconds; two workers side by side use it twice as fast.
        output_bytes: Bytes of output.
    """

    seconds: float = 0.0
    output_bytes: int = 0


async def budget_monitor(
    board: Board,
    report: FindingHook,
    *,
    spent: Callable[[], Spent],
    max_seconds: float | None = None,
    max_output_bytes: int | None = None,
    interval: float = 0.25,
) -> None:
    """Report budgets that are nearly, and then wholly, used up, once each (TREE-28, TREE-44).

    Runs until it is cancelled. Killed and started again it reports anew what still holds: whoever
    acts on a finding must bear to hear it twice.

    Args:
        board: Where to look.
        report: Gets `OverBudget`.
        spent: Returns what all workers together have used.
        max_seconds: Budget of working time of all together, in seconds; None for no limit.
        max_output_bytes: Budget of output of all together; None for no limit.
        interval: Seconds between two looks.
    """
    told: set[tuple[str, str, bool]] = set()

    def check(path: str, what: str, used: float, limit: float | None) -> None:
        if limit is None or used < WARN_AT * limit:
            return
        finding = OverBudget(path, what, used, limit, warning=used <= limit)
        key = (path, what, finding.warning)
        if key not in told:
            told.add(key)
            report(finding)

    while True:
        await asyncio.sleep(interval)
        for worker in board.vitals():
            check(worker.path, "wall seconds", worker.seconds, worker.max_seconds)
            check(worker.path, "output bytes", worker.output_bytes, worker.max_output_bytes)
        together = spent()
        check("", "wall seconds", together.seconds, max_seconds)
        check("", "output bytes", together.output_bytes, max_output_bytes)
