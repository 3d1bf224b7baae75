"""What one change costs Jake in lists of different lengths.

A list of programs that do nothing is worked off as `otpy-agents up` does it, two at a time. What
is measured is the processor time from one end to another, guardians and programs not counted; the
shortest list is the floor. Opening a list, which looks at all of it, is shown beside.

    python -m benchmarks.lists --length 100 --length 10000
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from attrs import frozen

from otpy_agents import open_app

WARM_UP = 10
CHANGES = 50


@frozen
class Run:
    """One run over a list.

    Attributes:
        opened: Seconds until the first program was done.
        change: Milliseconds of processor time from one end to the next.
    """

    opened: float
    change: float


async def _run(length: int, folder: Path) -> Run:
    """Work off the first assignments of a list, and leave it."""
    os.environ["OTPY_STATE"] = str(folder / "runs.sqlite3")
    file = folder / "list.toml"
    tables = (f'[[assignment]]\nid = "a{number}"\nargv = ["true"]\n' for number in range(length))
    file.write_text("[list]\nparallel = 2\n" + "".join(tables), encoding="utf-8")
    ends: list[float] = []
    began, enough = time.perf_counter(), asyncio.Event()
    opened = 0.0

    def listen(event: object) -> None:
        nonlocal opened
        if getattr(event, "name", "") == "mortal.done":
            opened = opened or time.perf_counter() - began
            ends.append(time.process_time())
            if len(ends) > WARM_UP + CHANGES:
                enough.set()

    async with open_app(file, listen=listen):
        await enough.wait()
    return Run(opened, (ends[WARM_UP + CHANGES] - ends[WARM_UP]) / CHANGES * 1000)


@click.command()
@click.option("--length", "lengths", multiple=True, type=click.IntRange(100))
@click.option("--runs", default=3, show_default=True, help="Runs of each length, in turns.")
def main(lengths: tuple[int, ...], runs: int) -> None:
    """Measure what one change costs in lists of 100, 1,000 and 10,000 assignments."""
    wanted = sorted(set(lengths or (100, 1_000, 10_000)))
    found: dict[int, list[Run]] = {length: [] for length in wanted}
    for _ in range(runs):
        for length in wanted:
            with TemporaryDirectory() as folder:
                found[length].append(asyncio.run(_run(length, Path(folder))))
    floor = statistics.median(run.change for run in found[wanted[0]])
    for length, measured in found.items():
        change = statistics.median(run.change for run in measured)
        opened = statistics.median(run.opened for run in measured)
        print(
            f"{length:>7,} assignments: {change:5.1f} ms of processor time a change,"
            f" {change / floor:.2f} of the shortest list; first end after {opened:.2f} s"
        )


if __name__ == "__main__":
    main()
