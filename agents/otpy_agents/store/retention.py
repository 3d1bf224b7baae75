"""For how long runs are kept after their end, and how many: what `otpy-agents run` cleans up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from otpy_agents.errors import InvalidRunSetting

if TYPE_CHECKING:
    from otpy_agents.store.run_records import RunRecord
    from otpy_agents.store.runs import RunStore

__all__ = ["RETENTION_VARIABLE", "Retention", "outgrown", "retain", "seconds_of"]

RETENTION_VARIABLE: Final = "OTPY_KEEP_RUNS"
"""Environment variable that says otherwise: `30d 200MB`, one of the two, or `all`."""

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)(KB|MB|GB)", re.IGNORECASE)


def seconds_of(text: str) -> float | None:
    """Return the seconds of an age such as `30d`, `12h`, `90m` or `0s`; None if it is none."""
    found = _AGE.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _UNITS[found[2]]


@frozen(kw_only=True)
class Retention:
    """The retention of finished runs.

    Attributes:
        seconds: For how long after its end a run is kept; None for ever.
        size: Bytes that all runs may have; beyond that the oldest go first. None for no limit.
    """

    seconds: float | None = 30 * 86400.0
    size: int | None = 200 * 10**6

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Retention:
        """Return what `OTPY_KEEP_RUNS` says, or the default.

        Raises:
            InvalidRunSetting: It says nothing that is known.
        """
        text = environment.get(RETENTION_VARIABLE, "").strip()
        if not text:
            return cls()
        if text == "all":
            return cls(seconds=None, size=None)
        seconds, size = None, None
        for word in text.split():
            age, found = seconds_of(word), _SIZE.fullmatch(word)
            if age is not None:
                seconds = age
            elif found is not None:
                size = int(float(found[1]) * _SIZES[found[2].upper()])
            else:
                wanted = "an age such as 30d, a size such as 200MB, both, or all"
                raise InvalidRunSetting(RETENTION_VARIABLE, repr(text), wanted)
        return cls(seconds=seconds, size=size)


def outgrown(
    runs: Iterable[RunRecord], sizes: Mapping[str, int], retention: Retention, now: float
) -> tuple[str, ...]:
    """Return the ids of the runs that are kept no longer, those that ended first before others.

    An unfinished run stays, and so does one with a label: it belongs to a work list, whose own
    cleanup knows whether it is still needed.

    Args:
        runs: All runs.
        sizes: Bytes of each, by its id; empty if there is room enough.
        retention: The retention.
        now: Unix seconds.
    """
    over = sorted(
        (run.finished, run.id) for run in runs if run.finished is not None and not run.label
    )
    total, gone = sum(sizes.values()), list[str]()
    for finished, run in over:
        old = retention.seconds is not None and finished < now - retention.seconds
        much = retention.size is not None and total > retention.size
        if old or much:
            gone.append(run)
            total -= sizes.get(run, 0)
    return tuple(gone)


async def retain(store: RunStore, retention: Retention, now: float) -> int:
    """Delete expired runs, and return how many they were.

    Args:
        store: Of the runs.
        retention: The retention.
        now: Unix seconds.

    Raises:
        LedgerError: The store cannot be read or written.

    Cancellation:
        What was deleted is deleted; the next call does the rest.
    """
    full = retention.size is not None and await store.used() > retention.size
    sizes = await store.sizes() if full else {}
    gone = outgrown(await store.runs(), sizes, retention, now)
    return await store.forget(gone) if gone else 0
