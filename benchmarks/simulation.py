"""What a step of a simulated loop costs, compared with asyncio's own: at most three times as much.

    python -m benchmarks.simulation --runs 7

Both loops run the same programs in turn; a ratio is that of the medians.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

import click

from otpy.testing import SeededClock

STEPS = 30_000
LIMIT = 3.0


async def spin(times: int) -> None:
    """Let others run, again and again: the cheapest steps there are."""
    for _ in range(times):
        await asyncio.sleep(0)


async def bounce(incoming: asyncio.Queue[int], outgoing: asyncio.Queue[int], times: int) -> None:
    """Pass a message on, again and again: steps that another task wakes."""
    for _ in range(times):
        outgoing.put_nowait(await incoming.get())


async def spinning(tasks: int) -> None:
    """Run so many tasks that spin."""
    await asyncio.gather(*(spin(STEPS // tasks) for _ in range(tasks)))


async def bouncing(tasks: int) -> None:
    """Run so many tasks in pairs, each pair with one message."""
    rallies: list[Awaitable[None]] = []
    for _ in range(tasks // 2):
        here, there = asyncio.Queue[int](), asyncio.Queue[int]()
        here.put_nowait(1)
        rallies += [bounce(*pair, STEPS // tasks) for pair in ((here, there), (there, here))]
    await asyncio.gather(*rallies)


def seconds(factory: Callable[[], asyncio.AbstractEventLoop], main: Awaitable[None]) -> float:
    """Run `main` on a new loop and return how long that took, without opening and closing."""
    loop = factory()
    try:
        began = time.perf_counter()
        loop.run_until_complete(main)
        return time.perf_counter() - began
    finally:
        loop.close()


@click.command()
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=7,
    show_default=True,
    help="Runs of each program on each loop; their median counts.",
)
def main(runs: int) -> None:
    """Measure what a step of a simulated loop costs, beside asyncio's own loop.

    Both run the same programs in turn: tasks that spin, and tasks that pass messages. Prints one
    line for each program, and ends with status 1 if one takes more than three times as long as on
    asyncio's loop. Takes a quarter of a minute; nothing is written.
    """
    worst = 0.0
    for program in (spinning, bouncing):
        for tasks in (2, 10, 100, 1000):
            plain: list[float] = []
            simulated: list[float] = []
            for seed in range(runs):
                plain.append(seconds(asyncio.SelectorEventLoop, program(tasks)))
                simulated.append(seconds(SeededClock(seed).loop_factory, program(tasks)))
            ratio = median(simulated) / median(plain)
            worst = max(worst, ratio)
            cost = median(simulated) / STEPS * 1e6
            print(f"{program.__name__} {tasks:5} tasks: {cost:6.2f} µs a step, {ratio:.2f} times")
    print(f"worst: {worst:.2f} times, limit {LIMIT:g}")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
