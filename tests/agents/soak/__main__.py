"""Play soaks: `python -m tests.agents.soak --seed 1 --hours 4 --agents 200`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.agents.soak.play import Soak, play

_LAST = 60
_MEMORY = Path("/dev/shm")


def main() -> int:
    """Play one soak for each seed, and say how it went; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--of", help="show the events of this assignment")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed = False
    for seed in range(options.seed, options.seed + options.seeds):
        what = Soak(seed=seed, hours=options.hours, agents=options.agents, hosts=options.hosts)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(
            prefix="otpy-soak-", dir=_MEMORY if _MEMORY.is_dir() else None
        ) as folder:
            books = play(what, Path(folder))
        took = time.monotonic() - began
        print(
            f"seed {seed}: {len(books.plans)} assignments, "
            f"{len(books.stage.scripted.played)} attempts, {len(books.told)} events, "
            f"{books.stage.refused} starts refused, history {books.history}, {took:.1f} s"
        )
        print("  " + ", ".join(f"{name}: {times}" for name, times in books.harm.most_common()))
        if options.of:
            print("\n".join(books.last_of(options.of, 1000)))
        if books.wrong:
            failed = True
            print(f"seed {seed} FAILED")
            print("\n".join(f"  {one}" for one in books.wrong[:_LAST]))
            print("the last events:")
            print("\n".join(f"  {one}" for one in books.told[-_LAST:]))
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
