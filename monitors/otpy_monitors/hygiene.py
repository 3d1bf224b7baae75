"""The hygiene branch: chores that clean up what dead workers leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from otpy import Backoff, ChildSpec, SupervisorSpec
from otpy_monitors.findings import FindingHook, Swept

if TYPE_CHECKING:
    from collections.abc import Mapping

EVERY: Final = 300.0
"""Seconds between two rounds (TREE-45)."""

Chore: TypeAlias = Callable[[], Awaitable[list[str]]]
"""Cleans something up and returns what, one line each. May be cut at any point and done again."""


async def cleanup_daemon(
    chores: Mapping[str, Chore], report: FindingHook, *, every: float = EVERY
) -> None:
    """Do all chores, one after the other, now and then every `every` seconds (TREE-45, TREE-46).

    A chore that raises is reported, and does not keep the next from being done: it would be an
    endless restart loop over one directory that cannot be removed. Runs until it is cancelled;
    chores must bear to be cut at any point and done again.

    Args:
        chores: By name, in order. Each returns what it cleaned up, one line each.
        report: Gets `Swept`, unless there was nothing to clean up.
        every: Seconds between two rounds.
    """
    while True:
        for name, chore in chores.items():
            try:
                items = await chore()
            except Exception as error:  # noqa: BLE001 - see the docstring
                report(Swept(name, error=f"{type(error).__name__}: {error}"))
            else:
                if items:
                    report(Swept(name, tuple(items)))
        await asyncio.sleep(every)


def hygiene_supervisor(
    chores: Mapping[str, Chore], report: FindingHook, *, every: float = EVERY
) -> SupervisorSpec:
    """Return the spec of `HygieneSupervisor`: one_for_one over `cleanup-daemon` (TREE-45).

    Restarts are delayed and counted as those of the other daemons; see `monitor_supervisor`.
    """
    return SupervisorSpec(
        "HygieneSupervisor",
        [
            ChildSpec(
                "cleanup-daemon",
                cleanup_daemon,
                (chores, report),
                {"every": every},
                shutdown=30.0,
                backoff=Backoff.exponential(0.5, max=30.0, reset_after=60.0),
            )
        ],
        intensity=10,
        period=300,
    )
