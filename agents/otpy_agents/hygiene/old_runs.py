"""A chore for the store of runs, which would otherwise grow for ever (G-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from otpy_agents.clock import CLOCK
from otpy_monitors import Deletion

if TYPE_CHECKING:
    from otpy_agents.hygiene.leftovers import Names
    from otpy_agents.store.runs import RunStore
    from otpy_monitors import Chore

__all__ = ["KEEP_RUNS", "old_runs"]

KEEP_RUNS: Final = 30 * 86400.0
"""Seconds for which a run is kept after its end, for every client."""

_AT_ONCE: Final = 50  # runs that are named by one line, and deleted by one transaction
_DAY: Final = 86400.0


def old_runs(
    store: RunStore,
    wanted: Names,
    keep: float = KEEP_RUNS,
    clock: Callable[[], float] = CLOCK,
) -> Chore:
    """Return a chore that deletes runs that ended long ago, and the remains of their hosts.

    It covers all runs of the user, not only those of one list; but never an unfinished run, whether
    its host lives or not, because any host may resume it. Sessions and changesets are not in the
    store of runs, and stay.

    Args:
        store: Of the runs.
        wanted: Returns the labels of assignments that are still worked on; their runs stay.
        keep: Seconds for which a run is kept after its end.
        clock: Unix seconds, as the store has it.
    """

    async def old() -> list[str]:
        labels = await wanted()
        ended = await store.runs(finished_before=clock() - keep)
        return [record.id for record in ended if record.label not in labels]

    async def purge(runs: Sequence[str]) -> None:
        still = set(await old()) if runs else ()
        await store.purge(keep, only=[run for run in runs if run in still])

    async def chore() -> AsyncIterator[Deletion]:
        age = f"ended over {keep / _DAY:g} days ago"
        found = await old()
        for start in range(0, len(found), _AT_ONCE):
            runs = found[start : start + _AT_ONCE]
            yield Deletion(f"{', '.join(runs)}, which {age}", partial(purge, runs))
        rows = await store.count_old(keep)
        if rows:
            yield Deletion(f"{rows} rows of hosts and cooldowns", partial(purge, ()))

    return chore
