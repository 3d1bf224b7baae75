"""How long it takes to hear of an end, and to find a process by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.meter import Stopwatch
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Subject


async def measure_signals(subject: Subject, size: int) -> Reading:
    """End a process that is watched `size` times, and one that is linked to `size` others."""
    monitors, links = Stopwatch(), Stopwatch()
    await subject.monitored(size, monitors.begin)
    monitors.end()
    await subject.linked(size, links.begin)
    links.end()
    return monitors.per("monitor", size) | links.per("link", size)


async def measure_names(subject: Subject, size: int) -> Reading:
    """Look every one of `size` processes up, several times, and dispatch to all of them."""
    looking, dispatching, rounds = Stopwatch(), Stopwatch(), 10
    heard = 0

    def hear(members: list[Any]) -> None:
        nonlocal heard
        heard += len(members)

    async with subject.names(size) as names:
        lookup = names.lookup
        looking.begin()
        for _ in range(rounds):
            for key in range(size):
                lookup(key)
        looking.end()
        dispatching.begin()
        for _ in range(rounds):
            names.dispatch("all", hear)
        dispatching.end()
    if heard != size * rounds:
        raise RuntimeError(f"dispatch reached {heard}, wanted {size * rounds}")
    return looking.per("lookup", size * rounds) | dispatching.per("dispatch", size * rounds)


SIGNALS = Workload(
    "signals",
    measure_signals,
    size=10_000,
    short=1_000,
    tiny=10,
    metrics=(
        Metric("monitor", "notice of an end, per monitor"),
        Metric("link", "end of a linked process, per link"),
    ),
)
NAMES = Workload(
    "names",
    measure_names,
    size=1_000,
    short=500,
    tiny=10,
    metrics=(
        Metric("lookup", "registry lookup"),
        Metric("dispatch", "registry dispatch, per entry"),
    ),
)
