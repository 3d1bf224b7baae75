"""Search for a seed by which otpy breaks a promise.

    python -m tests.simulation.explore --seeds 0-9999
    python -m tests.simulation.explore --seconds 15
    python -m tests.simulation.explore --seeds 1000000-1999999 --tally tally.txt

The second form begins at a random seed, and prints it. It ends with status 1 and the seed if one
fails; Ctrl-C ends it with the results so far.

With `--tally` it prints nothing and plays all seeds, even after a failure: the file shows the
progress, and which seeds have failed and why.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from otpy import Process
from otpy._core.child import Child
from otpy._core.dynamic import DynamicMachine
from otpy._core.machine import SupervisorMachine
from otpy._runtime.shell import Shell
from otpy._runtime.tree import Tree
from otpy.behaviours.server import Server
from otpy.testing import SimulationFailed
from tests.simulation.play import Play

PIECE = 500
"""Seeds after which memory is looked at, and progress told."""

_KINDS: frozenset[type] = frozenset(
    {Process, Shell, Tree, Child, SupervisorMachine, DynamicMachine, Server}
)


class MemoryKept(AssertionError):
    """An object of an ended tree is still in memory."""


class Search:
    """A search over seeds.

    Attributes:
        done: The number of played seeds.
        asked: The number of requests of their users.
        steps: The number of steps and reports.
        failures: The failure of each seed; a failure of memory under the last seed of its piece.
    """

    def __init__(self, *, to_the_end: bool = False) -> None:
        self.done = self.asked = self.steps = 0
        self.failures: dict[int, str] = {}
        self._to_the_end = to_the_end
        self._objects: int | None = None
        self._began = time.perf_counter()

    def run(self, seeds: Iterable[int]) -> Iterator[int]:
        """Play the seeds in order; yield after each piece the next seed.

        Raises:
            SimulationFailed: A promise was broken, and the search stops at failures.
            MemoryKept: Memory did not return to its size before the piece; likewise.
        """
        for seed in seeds:
            try:
                self._play(seed)
                if self.done % PIECE == 0:
                    self.check_memory()
            except (SimulationFailed, MemoryKept) as failure:
                if not self._to_the_end:
                    raise
                self.failures[seed] = _first_line(failure.__cause__ or failure)
            if self.done % PIECE == 0:
                yield seed + 1

    def _play(self, seed: int) -> None:
        play = Play(seed)
        try:
            self.steps += len(play().record)
        finally:
            self.asked += play.asked
            self.done += 1

    def check_memory(self) -> None:
        """Check that no object of a tree is left, and that there are no more objects than before.

        Raises:
            MemoryKept: If there are.
        """
        gc.collect()
        objects = gc.get_objects()
        # Without `isinstance`: an abstract class caches each class it was asked about.
        kinds: list[type[object]] = [type(found) for found in objects]
        kept = Counter(kind.__name__ for kind in kinds if not _KINDS.isdisjoint(kind.__mro__))
        before, self._objects = self._objects, len(objects)
        if kept:
            raise MemoryKept(f"of trees that have ended there are still {dict(kept)}")
        if before is not None and self._objects > before + PIECE:
            raise MemoryKept(f"{self._objects} objects, and {before} a piece before")

    def __str__(self) -> str:
        """Return a summary of the search."""
        seconds = time.perf_counter() - self._began
        return f"{self.done} seeds, {self.steps} steps, {self.asked} requests in {seconds:.0f} s"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.explore")
    parser.add_argument("--seeds", metavar="A-B", help="from A to B, both included")
    parser.add_argument("--seconds", type=float, default=15.0, help="real time, without --seeds")
    parser.add_argument("--tally", metavar="FILE", type=Path, help="play all; tell how far it is")
    chosen = parser.parse_args(arguments)
    if chosen.seeds:
        first, _, last = chosen.seeds.partition("-")
        seeds: Iterable[int] = range(int(first), int(last or first) + 1)
    else:
        start = int.from_bytes(os.urandom(4), "big")
        late = time.perf_counter() + chosen.seconds
        seeds = itertools.takewhile(lambda _: time.perf_counter() < late, itertools.count(start))
        _tell(f"from seed {start}")
    if chosen.tally is not None:
        return _tally(Search(to_the_end=True), seeds, chosen.tally)
    search = Search()
    try:
        for following in search.run(seeds):
            _tell(f"{search}; next {following}")
    except (SimulationFailed, MemoryKept) as failure:
        _tell(f"{search}; the last one broke a promise\n{failure}")
        if isinstance(failure, SimulationFailed):
            seed = failure.simulation.seed
            _tell(f"again: python -m tests.simulation.explore --seeds {seed}")
        return 1
    except KeyboardInterrupt:
        _tell(f"{search}; then stopped by Ctrl-C")
        return 130
    _tell(f"{search}; all passed")
    return 0


def _tally(search: Search, seeds: Iterable[int], file: Path) -> int:
    """Play all `seeds` and keep `file` up to date."""

    def write(where: str) -> None:
        broken = f"{len(search.failures)} broke a promise" if search.failures else "none broken"
        lines = [f"{seed}: {what}\n" for seed, what in search.failures.items()]
        file.write_text(f"{search}; {broken}; {where}\n{''.join(lines)}")

    write("just begun")
    try:
        for following in search.run(seeds):
            write(f"next {following}")
    except KeyboardInterrupt:
        write("stopped by Ctrl-C")
        return 130
    write("all played")
    return 1 if search.failures else 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    sys.exit(main(sys.argv[1:]))
