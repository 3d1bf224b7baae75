"""Children whose steps end just before or after their limit, by the thousand.

To run it by hand, for any time: `python -m tests.runtime.overruns --seconds 60 --loop uvloop`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import threading
import traceback
from time import perf_counter
from typing import Any

from attrs import define, field

import otpy
from otpy import ChildSpec, Crashed, GenServer, SupervisorSpec
from otpy.errors import CallFailed, StepOverran
from otpy.reports import ChildExited, Report
from otpy.server import CallResult, Reply

LIMIT = 0.004
HOME = {__name__, "logging", "random"}
LOCK = threading.Lock()
LOG = logging.getLogger("otpy.tests.overruns")


@define
class Tally:
    """What was observed."""

    overruns: int = 0
    other_ends: list[str] = field(factory=list[str])
    outside: list[str] = field(factory=list[str])
    noises: list[str] = field(factory=list[str])
    answers: int = 0
    longest_step: float = 0.0
    longest_wait: float = 0.0

    def hear(self, report: Report) -> None:
        """Count the ends, and check where each exception was raised."""
        if not isinstance(report, ChildExited) or not isinstance(report.reason, Crashed):
            return
        error = report.reason.error
        if not isinstance(error, StepOverran):
            self.other_ends.append(repr(error))
            return
        self.overruns += 1
        self.longest_step = max(self.longest_step, error.seconds)
        frames = [
            frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)
        ]
        *way, handler = frames
        step = len(way) - way[::-1].index("otpy._runtime.preemption")
        inside = [name for name in way[step:] if name != "otpy._runtime.life"]
        if handler != "otpy._runtime.preemption" or not inside or not HOME.issuperset(inside):
            self.outside.append(" > ".join(frames))

    def hear_noise(self, *args: Any) -> None:
        """Record an error that no code should raise."""
        self.noises.append(repr(args))


def busy(seconds: float) -> None:
    """Block the loop for about that long, in code of every kind."""
    end = perf_counter() + seconds
    things: dict[int, list[str]] = {}
    while perf_counter() < end:
        with LOCK:
            things[len(things) % 50] = [str(n) for n in range(20)]
        LOG.debug("busy %d", len(things))
        sorted(things, key=lambda n: -n)


def about(rng: random.Random) -> float:
    """Return seconds a little below or above the limit."""
    return rng.uniform(0.5, 1.6) * LIMIT


async def worker(rng: random.Random) -> None:
    """Take steps of about the limit, and use the tree between them."""
    while True:
        try:
            busy(about(rng))
            otpy.current().monitor().demonitor()
        finally:
            _ = [n * n for n in range(50)]
        await asyncio.sleep(rng.choice([0, 0, 0.001]))


class Busy(GenServer[float, int, int]):
    """A server whose calls take about the limit."""

    def init(self) -> int:
        return 0

    def handle_call(
        self, request: float, caller: otpy.server.Caller[int], state: int
    ) -> CallResult[int, int]:
        busy(request)
        return Reply(state + 1, state + 1)


class Calm(GenServer[str, str, None]):
    """A server that replies at once."""

    def init(self) -> None:
        return None

    def handle_call(
        self, request: str, caller: otpy.server.Caller[str], state: None
    ) -> CallResult[str, None]:
        return Reply(request, state)


async def overruns(seconds: float, seed: int) -> Tally:
    """Run the children for some seconds, and return what was observed."""
    tally, rng = Tally(), random.Random(seed)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(tally.hear_noise)
    hooks, turn = (sys.excepthook, sys.unraisablehook), sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # the watching thread runs more often
    sys.excepthook = sys.unraisablehook = tally.hear_noise
    children = [
        *(ChildSpec(f"w{n}", worker, (rng,), max_step=LIMIT) for n in range(8)),
        ChildSpec("busy", Busy, max_step=LIMIT),
        ChildSpec("calm", Calm),
    ]
    spec = SupervisorSpec("app", children, intensity=10**9)
    try:
        async with otpy.start(spec, hooks=[tally.hear]) as app:
            end = perf_counter() + seconds
            while perf_counter() < end:
                asked = perf_counter()
                await Calm.at("app/calm", root=app).call("still there", timeout=None)
                tally.answers += 1
                tally.longest_wait = max(tally.longest_wait, perf_counter() - asked)
                try:
                    await Busy.at("app/busy", root=app).call(about(rng), timeout=None)
                except (CallFailed, otpy.errors.NotRunning):
                    await asyncio.sleep(0)
            assert {child.id for child in await app.which_children()} == {c.id for c in children}
    finally:
        sys.excepthook, sys.unraisablehook = hooks
        sys.setswitchinterval(turn)
    assert not LOCK.locked()
    return tally


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    asked = parser.parse_args()
    make: Any = asyncio.new_event_loop
    if asked.loop == "uvloop":
        import uvloop  # noqa: PLC0415 - nobody else needs it

        make = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make) as runner:
        tally = runner.run(overruns(asked.seconds, asked.seed))
    sys.stdout.write(f"{sys.version_info[:3]} {asked.loop}: {tally}\n")


if __name__ == "__main__":
    main()
