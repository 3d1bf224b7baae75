"""Play soaks: `python -m tests.agents.soak --seed 1 --hours 4 --agents 200`, or one for real."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.agents.soak.kills import kill_again_and_again
from tests.agents.soak.play import Soak, play
from tests.agents.soak.real import soak_for_real

_LAST = 60
_MEMORY = Path("/dev/shm")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _played(what: Soak, of: str | None) -> bool:
    """Play a soak, print its outcome, and return whether all is well."""
    place = _MEMORY if _MEMORY.is_dir() else None
    began, spent = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory(prefix="otpy-soak-", dir=place) as folder:
        books = play(what, Path(folder))
    took, spent = time.monotonic() - began, time.process_time() - spent
    _say(
        f"seed {what.seed}: {len(books.plans)} assignments, "
        f"{len(books.stage.sandbox.played)} attempts, {len(books.told)} events, "
        f"history {books.history}, "
        f"{took:.1f} s, {spent:.1f} s of them at work",
        "  " + ", ".join(f"{name}: {times}" for name, times in books.harm.most_common()),
    )
    if of is not None:
        _say(*books.last_of(of, 1000))
    if books.wrong:
        _say(f"seed {what.seed} FAILED", *(f"  {one}" for one in books.wrong[:_LAST]))
        _say("the last events:", *(f"  {one}" for one in books.told[-_LAST:]))
    return not books.wrong


def _played_for_real(seconds: float, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="otpy-soak-") as folder:
        soak = soak_for_real(Path(folder), seconds=seconds, parallel=6, chaos=0.25, seed=seed)
    _say(str(soak), *(f"  {one}" for one in soak.wrong))
    return not soak.wrong


def _killed(kills: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="otpy-kills-") as folder:
        books = kill_again_and_again(Path(folder), kills=kills, seed=seed)
    _say(str(books))
    return not books.wrong


def main() -> int:
    """Play a soak for each seed, and print its outcome; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--hours", type=float, default=4.0, help="of harm, in virtual time")
    parser.add_argument("--agents", type=int, default=200, help="at work at the same time")
    parser.add_argument("--hosts", type=int, default=3, help="one after the other")
    parser.add_argument("--of", metavar="ID", help="show the events of this assignment")
    parser.add_argument(
        "--real", type=float, metavar="MINUTES", help="real processes for so long instead"
    )
    parser.add_argument("--kills", type=int, help="kill -9 real hosts so often instead")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if options.real is not None:
        return int(not _played_for_real(options.real * 60, options.seed))
    if options.kills is not None:
        return int(not _killed(options.kills, options.seed))
    well = True
    for seed in range(options.seed, options.seed + options.seeds):
        what = Soak(seed=seed, hours=options.hours, agents=options.agents, hosts=options.hosts)
        well = _played(what, options.of) and well
    return int(not well)


if __name__ == "__main__":
    raise SystemExit(main())
