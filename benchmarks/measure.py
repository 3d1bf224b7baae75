"""One measurement, in the process that is made for it: `python -m benchmarks.measure …`.

Prints one line of JSON: the readings, or why the subject cannot do it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.catalogue import WORKLOADS, subject_of
from benchmarks.subject import Unsupported

if TYPE_CHECKING:
    from benchmarks.meter import Reading


def measure(workload: str, subject: str, size: int, loop: str) -> Reading:
    """Run one workload once, in a new loop of the kind `loop`; what is logged goes nowhere."""
    factory = None
    if loop == "uvloop":
        factory = import_module(loop).new_event_loop  # only there need it be installed
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stderr(nowhere),
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        return runner.run(_measure(workload, subject, size))


async def _measure(workload: str, subject: str, size: int) -> Reading:
    what, who = WORKLOADS[workload], subject_of(subject)
    await what.measure(who, what.tiny)
    return await what.measure(who, size)


def main() -> None:
    """Do what the command line says."""
    # The environments of other projects need not have click.
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.measure",
        description="Measure one workload once, in this process; print one line of JSON.",
    )
    names = ", ".join(WORKLOADS)
    parser.add_argument("workload", choices=WORKLOADS, metavar="WORKLOAD", help=f"one of {names}")
    parser.add_argument("subject", metavar="SUBJECT", help="floor, otpy or another project")
    parser.add_argument("size", type=int, metavar="SIZE", help="how many children or requests")
    loops = ("asyncio", "uvloop")
    parser.add_argument("loop", choices=loops, metavar="LOOP", help=" or ".join(loops))
    told = parser.parse_args()
    logging.disable()
    try:
        print(json.dumps(measure(told.workload, told.subject, told.size, told.loop)))
    except Unsupported as why:
        print(json.dumps({"unsupported": str(why)}))


if __name__ == "__main__":
    main()
