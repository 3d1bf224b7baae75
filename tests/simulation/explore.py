"""Search for a seed by which otpy breaks a promise.

    python -m tests.simulation.explore --seeds 0-9999
    python -m tests.simulation.explore --seconds 15

The second form begins at a seed drawn by chance, and says which. Ends with status 1 and the seed if
one fails; Ctrl-C ends it with what was done so far.
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

_KINDS = (Process, Shell, Tree, Child, SupervisorMachine, DynamicMachine, Server)


class MemoryKept(AssertionError):
    """Something of trees that have ended is still there."""


class Search:
    """A search over seeds.

    Attributes:
        done: How many seeds have passed.
        asked: How often their users asked for something.
        steps: How many steps and reports there were.
    """

    def __init__(self) -> None:
        self.done = self.asked = self.steps = 0
        self._objects: int | None = None

    def run(self, seeds: Iterable[int]) -> Iterator[int]:
        """Play one seed after the other; yield after each piece the seed that comes next.

        Raises:
            SimulationFailed: A promise was broken.
            MemoryKept: Memory did not return to where it was before the piece.
        """
        for seed in seeds:
            play = Play(seed)
            self.steps += len(play().record)
            self.asked += play.asked
            self.done += 1
            del play
            if self.done % PIECE == 0:
                self.check_memory()
                yield seed + 1

    def check_memory(self) -> None:
        """Check that nothing of any tree is left, and that there are no more objects than before.

        Raises:
            MemoryKept: There are.
        """
        gc.collect()
        objects = gc.get_objects()
        kept = Counter(type(found).__name__ for found in objects if isinstance(found, _KINDS))
        if kept:
            raise MemoryKept(f"of trees that have ended there are still {dict(kept)}")
        if self._objects is not None and len(objects) > self._objects + PIECE:
            raise MemoryKept(f"{len(objects)} objects, and {self._objects} a piece before")
        self._objects = len(objects)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.explore")
    parser.add_argument("--seeds", metavar="A-B", help="from A to B, both included")
    parser.add_argument("--seconds", type=float, default=15.0, help="real time, without --seeds")
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()
    if chosen.seeds:
        first, _, last = chosen.seeds.partition("-")
        seeds: Iterable[int] = range(int(first), int(last or first) + 1)
    else:
        start = int.from_bytes(os.urandom(4), "big")
        late = began + chosen.seconds
        seeds = itertools.takewhile(lambda _: time.perf_counter() < late, itertools.count(start))
        _tell(f"from seed {start}")
    search = Search()
    try:
        for following in search.run(seeds):
            _tell(f"{_told(search, began)}; next {following}")
    except (SimulationFailed, MemoryKept) as failure:
        _tell(f"{_told(search, began)}; then came\n{failure}")
        if isinstance(failure, SimulationFailed):
            seed = failure.simulation.seed
            _tell(f"again: python -m tests.simulation.explore --seeds {seed}")
        return 1
    except KeyboardInterrupt:
        _tell(f"{_told(search, began)}; then stopped by Ctrl-C")
        return 130
    _tell(f"{_told(search, began)}; all passed")
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _told(search: Search, began: float) -> str:
    seconds = time.perf_counter() - began
    return f"{search.done} seeds, {search.steps} steps, {search.asked} requests in {seconds:.0f} s"


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    sys.exit(main(sys.argv[1:]))
