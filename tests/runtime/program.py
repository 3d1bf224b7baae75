"""Trees to be run as whole programs: `python program.py NAME LOOP [IGNORED_SIGNAL …]`."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import otpy
from otpy import AutoShutdown, ChildSpec, Restart, SupervisorSpec
from otpy._runtime import leftovers, run, stop
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


async def leaves_a_task() -> None:
    task = asyncio.create_task(stubborn(), name="poller")
    await asyncio.wait([task])


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


@asynccontextmanager
async def resource() -> AsyncGenerator[None]:
    yield


class Plain(otpy.GenServer[str, str, None]):
    def init(self) -> None:
        return None


class Awaiting(otpy.GenServer[str, str, None]):
    async def init(self) -> None:
        return None


KEPT: list[object] = []


async def leaves_a_generator() -> None:
    generator = never_closed()
    KEPT.append(generator)
    await anext(generator)
    say("+generator")


def status_of_fork(job: Callable[[], int], number: int = 0) -> int:
    """Fork a child for `job`, send it a signal, and return how it ended."""
    forked = os.fork()
    if not forked:
        os._exit(job())
    os.kill(forked, number)
    return os.waitpid(forked, 0)[1]


def doze() -> int:
    time.sleep(30)
    return 0


async def forks() -> None:
    """End a child that was forked, then one of `multiprocessing`."""
    say(f"fork {status_of_fork(doze, signal.SIGTERM)}")
    worker = multiprocessing.get_context("fork").Process(target=doze)
    worker.start()
    worker.terminate()
    worker.join(5)
    say(f"worker {worker.exitcode}")


async def forks_watched() -> None:
    """Tell what a forked child does about the signal of `max_step`."""
    say(f"fork {status_of_fork(lambda: signal.getsignal(signal.SIGURG) != signal.SIG_DFL)}")


def not_ours(*_: object) -> None:
    say("theirs")


async def takes_sigterm() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, not_ours)
    say("+taken")
    await asyncio.get_running_loop().create_future()


async def borrows_sigterm() -> None:
    before = signal.signal(signal.SIGTERM, not_ours)
    say("+taken")
    await asyncio.get_running_loop().create_future()
    say(str(before))


def tree(
    *children: ChildSpec | SupervisorSpec, auto: AutoShutdown = AutoShutdown.NEVER
) -> SupervisorSpec:
    return SupervisorSpec("app", children, auto_shutdown=auto)


def job(start: Callable[[], Awaitable[None]]) -> ChildSpec:
    return ChildSpec("job", start, restart=Restart.TEMPORARY, significant=True)


TREES = {
    "services": tree(ChildSpec("a", service, ("a",)), ChildSpec("b", service, ("b",))),
    "crash": tree(ChildSpec("a", service, ("a",)), ChildSpec("bad", crash)),
    "stubborn": tree(ChildSpec("a", stubborn, shutdown=0.05)),
    "subtask": tree(ChildSpec("a", leaves_a_task, shutdown=0.05)),
    "thread": tree(ChildSpec("a", in_a_thread, shutdown=0.05)),
    "spin": tree(ChildSpec("a", spin)),
    "slow": tree(ChildSpec("a", slow, shutdown=60)),
    "interrupt": tree(ChildSpec("a", service, ("a",)), ChildSpec("i", interrupt)),
    "work": tree(job(work), auto=AutoShutdown.ANY_SIGNIFICANT),
    "forks": tree(job(forks), auto=AutoShutdown.ANY_SIGNIFICANT),
    "fork of max_step": tree(
        ChildSpec("job", forks_watched, restart=Restart.TEMPORARY, significant=True, max_step=5.0),
        auto=AutoShutdown.ANY_SIGNIFICANT,
    ),
    "taken": tree(ChildSpec("web", takes_sigterm)),
    "borrowed": tree(ChildSpec("web", borrows_sigterm)),
    "kinds": tree(
        ChildSpec("plain", service, ("plain",)),
        ChildSpec("resource", resource),
        ChildSpec("limited", service, ("limited",), max_step=60),
        ChildSpec("server", Plain),
        ChildSpec("awaiting", Awaiting),
        SupervisorSpec("inner", [ChildSpec("last", service, ("last",))]),
    ),
    "generator": tree(job(leaves_a_generator), auto=AutoShutdown.ANY_SIGNIFICANT),
}

if __name__ == "__main__":
    _, name, loop, *ignored = sys.argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number.name in ignored else usual)
    for module in (stop, leftovers, run):
        setattr(module, "KILL_GRACE", 0.05)  # noqa: B010 - it is final; this is a test
    otpy.run(TREES[name], loop_factory=loop_factory(loop))
    say("returned")
