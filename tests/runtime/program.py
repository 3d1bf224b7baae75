"""Trees to be run as whole programs by `test_run.py`: `python program.py NAME LOOP`."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable

import otpy
from otpy import AutoShutdown, ChildSpec, Restart, SupervisorSpec
from otpy._runtime import run, stop
from otpy.cli.loops import loop_factory


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the test reads it


async def service(name: str) -> None:
    say(f"+{name}")
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        say(f"-{name}")


async def stubborn() -> None:
    say("+stubborn")
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            say("refused")


async def in_a_thread() -> None:
    await asyncio.to_thread(hold_on)


def hold_on() -> None:
    say("+thread")
    threading.Event().wait()


async def spin() -> None:
    say("+spin")
    while True:
        pass


async def crash() -> None:
    raise ValueError("out of paper")


async def interrupt() -> None:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


async def slow() -> None:
    try:
        await service("slow")
    finally:
        await asyncio.sleep(60)


async def work() -> None:
    say("+work")


async def never_closed() -> AsyncGenerator[int]:
    try:
        yield 1
    finally:
        await asyncio.get_running_loop().create_future()


KEPT: list[object] = []


async def leaves_a_generator() -> None:
    generator = never_closed()
    KEPT.append(generator)
    await anext(generator)
    say("+generator")


def tree(*children: ChildSpec, auto: AutoShutdown = AutoShutdown.NEVER) -> SupervisorSpec:
    return SupervisorSpec("app", children, auto_shutdown=auto)


def job(start: Callable[[], Awaitable[None]]) -> ChildSpec:
    return ChildSpec("job", start, restart=Restart.TEMPORARY, significant=True)


TREES = {
    "services": tree(ChildSpec("a", service, ("a",)), ChildSpec("b", service, ("b",))),
    "crash": tree(ChildSpec("a", service, ("a",)), ChildSpec("bad", crash)),
    "stubborn": tree(ChildSpec("a", stubborn, shutdown=0.05)),
    "thread": tree(ChildSpec("a", in_a_thread, shutdown=0.05)),
    "spin": tree(ChildSpec("a", spin)),
    "slow": tree(ChildSpec("a", slow, shutdown=60)),
    "interrupt": tree(ChildSpec("a", service, ("a",)), ChildSpec("i", interrupt)),
    "work": tree(job(work), auto=AutoShutdown.ANY_SIGNIFICANT),
    "generator": tree(job(leaves_a_generator), auto=AutoShutdown.ANY_SIGNIFICANT),
}

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    for module in (stop, run):
        setattr(module, "KILL_GRACE", 0.05)  # noqa: B010 - it is final; this is a test
    _, name, loop = sys.argv
    otpy.run(TREES[name], hooks=(), loop_factory=loop_factory(loop))
    say("returned")
