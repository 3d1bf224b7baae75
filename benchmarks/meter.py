"""Taking time and memory inside a measured process."""

from __future__ import annotations

import gc
import resource
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Sequence

Reading: TypeAlias = dict[str, float]
"""What one process measured, by the keys of the workload's metrics."""

_MICRO = 1e6
_STATM = Path("/proc/self/statm")


@final
class Stopwatch:
    """Wall and CPU time of one stretch, `begin()` to `end()`.

    The collector runs before the stretch, not because of it; within the stretch it works as it
    does in every program.
    """

    def __init__(self) -> None:
        """Stand at zero."""
        self.wall = 0.0
        self.cpu = 0.0

    def begin(self) -> None:
        """Collect garbage, then start."""
        gc.collect()
        self.go_on()

    def go_on(self) -> None:
        """Start without collecting, for moments at which that would disturb."""
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def end(self) -> None:
        """Stop; what passed is added to what there was."""
        cpu, wall = time.process_time(), time.perf_counter()
        self.cpu += cpu - self._cpu
        self.wall += wall - self._wall

    def per(self, key: str, count: int) -> Reading:
        """Return the readings of `key`: microseconds for each of `count` things."""
        return {f"{key}.cpu": self.cpu / count * _MICRO, f"{key}.wall": self.wall / count * _MICRO}


@final
class Bytes:
    """What Python has allocated since this was made, in bytes.

    Makes everything slower until `grown()`: never take time beside it.
    """

    def __init__(self) -> None:
        """Begin to count."""
        gc.collect()
        tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]

    def grown(self) -> int:
        """Return how much more is in use now, without garbage; counting is over."""
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - self._before
        tracemalloc.stop()
        return grown


def resident() -> int:
    """Return the bytes of memory that this process holds now, as the system sees it."""
    if _STATM.exists():
        return int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def wake_ups() -> int:
    """Return how often this process has gone to sleep and was woken."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank) - 1, 0)]
