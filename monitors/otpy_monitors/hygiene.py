"""The hygiene branch: chores that clean up what dead workers leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

from attrs import frozen

from otpy import Backoff, ChildSpec, SupervisorSpec
from otpy_monitors.findings import FindingHook, Sweeping, Swept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EVERY: Final = 300.0
"""Seconds between two rounds (TREE-45)."""

CLEANUP_DAEMON: Final = "cleanup-daemon"
"""Id of the hygiene daemon (TREE-45)."""


@final
@frozen
class Deletion:
    """One thing that a chore found and that may be deleted.

    Attributes:
        what: What, in one line; no other deletion of the chore has the same.
        perform: Deletes it. It may be cut at any point and done again, also after it was done, and
            looks once more whether that is still right: time has passed since it was found.
    """

    what: str
    perform: Callable[[], Awaitable[object]]


Chore: TypeAlias = Callable[[], AsyncIterator[Deletion]]
"""Finds what can be deleted, and yields it one by one. It deletes nothing itself."""


async def cleanup_daemon(
    chores: Mapping[str, Chore],
    report: FindingHook,
    *,
    every: float = EVERY,
    dry_run: bool = False,
) -> None:
    """Do all chores, one after the other, now and then every `every` seconds (TREE-45, TREE-46).

    Each deletion is reported before it begins. What fails is reported, and keeps neither the next
    deletion nor the next chore from being done: it would be an endless restart loop over one
    directory that cannot be removed. Runs until it is cancelled.

    Args:
        chores: By name, in order.
        report: Gets `Sweeping` before each deletion, and `Swept` after each chore that found
            something or failed.
        every: Seconds between two rounds.
        dry_run: Report what would be deleted, and delete nothing.

    Cancellation:
        It ends at once, between two deletions or in the middle of one; the next round does what is
        left.
    """
    while True:
        for name, chore in chores.items():
            await _do(name, chore, report, dry_run=dry_run)
        await asyncio.sleep(every)


async def _do(name: str, chore: Chore, report: FindingHook, *, dry_run: bool) -> None:
    """Do one chore to its end, and report how it came out."""
    done: list[str] = []
    failed: list[str] = []
    try:
        found = chore()
        try:
            await _delete(name, found, report, done, failed, dry_run=dry_run)
        finally:
            if isinstance(found, AsyncGenerator):  # it ends now, not when it is collected
                await cast("AsyncGenerator[Deletion]", found).aclose()
    except Exception as error:  # noqa: BLE001 - see `cleanup_daemon`
        failed.append(f"{type(error).__name__}: {error}")
    if done or failed:
        report(Swept(name, tuple(done), "; ".join(failed)))


async def _delete(
    name: str,
    found: AsyncIterator[Deletion],
    report: FindingHook,
    done: list[str],
    failed: list[str],
    *,
    dry_run: bool,
) -> None:
    seen: set[str] = set()
    async for deletion in found:
        if deletion.what in seen:  # it looks again and again, and would never end
            if not dry_run:
                failed.append(f"{deletion.what} was found again after its deletion")
            return
        seen.add(deletion.what)
        report(Sweeping(name, deletion.what, dry_run))
        if not dry_run:
            await _perform(deletion, done, failed)
        await asyncio.sleep(0)  # a chore that never waits must not hold the loop up


async def _perform(deletion: Deletion, done: list[str], failed: list[str]) -> None:
    try:
        await deletion.perform()
    except Exception as error:  # noqa: BLE001 - see `cleanup_daemon`
        failed.append(f"{deletion.what}: {type(error).__name__}: {error}")
    else:
        done.append(deletion.what)


def cleanup_spec(
    chores: Mapping[str, Chore],
    report: FindingHook,
    *,
    id: str = CLEANUP_DAEMON,
    every: float = EVERY,
    dry_run: bool = False,
) -> ChildSpec:
    """Return the spec of one cleanup daemon: permanent, with 30 s to stop (TREE-45).

    Args:
        chores: By name, in order.
        report: Gets what `cleanup_daemon` reports.
        id: Unique among the daemons of one `hygiene_supervisor`.
        every: Seconds between two rounds.
        dry_run: Report what would be deleted, and delete nothing.
    """
    return ChildSpec(
        id,
        cleanup_daemon,
        (chores, report),
        {"every": every, "dry_run": dry_run},
        shutdown=30.0,
        backoff=Backoff.exponential(0.5, max=30.0, reset_after=60.0),
    )


def hygiene_supervisor(daemons: Sequence[ChildSpec]) -> SupervisorSpec:
    """Return the spec of `HygieneSupervisor`: one_for_one over cleanup daemons (TREE-45).

    Restarts are delayed and counted as those of the other daemons; see `monitor_supervisor`.

    Args:
        daemons: Made by `cleanup_spec`. Several, if the chores of one must not wait for another's.
    """
    return SupervisorSpec("HygieneSupervisor", daemons, intensity=10, period=300)
