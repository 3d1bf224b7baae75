"""Programs that log, for `test_log_programs.py`: `python log_program.py NAME`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import structlog

import otpy
from otpy import ChildSpec, Crashed, Normal, Restart, Shutdown, SupervisorSpec
from otpy._runtime import stop
from otpy._runtime.shells import shell_of
from otpy.reports import (
    ChildAbandoned,
    ChildExited,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    ErrorContext,
    HookFailed,
    MailboxGrown,
    MessageUnhandled,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the test reads it


class Mute(Exception):
    """An error without text, which ends a program that asks for it."""

    def __str__(self) -> str:
        raise SystemExit(3)


def crash(error: Exception) -> Crashed:
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 - for its traceback
        return Crashed(raised)


def reports() -> list[Report]:
    """Return one report of each class, with every field set."""
    child: dict[str, Any] = {"path": "app/c", "time": 0.0, "incarnation": 2, "restarts": 1}
    reason, bad = crash(ValueError("paper")), ErrorContext.CHILD_TERMINATED
    stack = ("outer (file.py:1)", "inner (file.py:2)")
    failed = crash(ValueError("ink")).error
    return [
        ChildStarted(**child),
        ChildStartFailed(**child, reason=reason, context=ErrorContext.START_ERROR),
        ChildExited(**child, reason=reason, context=bad),
        ChildRestarting(**child, reason=reason, delay=2.5),
        ChildStopped(**child, reason=reason, context=ErrorContext.SHUTDOWN_ERROR),
        ChildAbandoned(**child, what="task", stack=stack),
        ChildGaveUp(**child, reason=reason),
        MailboxGrown(**child, waiting=1000, dropped=3),
        MessageUnhandled(**child, message="'what ever'"),
        SupervisorGaveUp(path="app", time=0.0, child="app/c", reason=reason),
        HookFailed(path="app", time=0.0, hook="<function hook>", error=failed),
        SupervisorStopped(path="app", time=0.0, reason=Normal()),
    ]


def all_reports() -> None:
    hook = otpy.log_reports()
    for report in reports():
        hook(report)


def to_stderr() -> None:
    all_reports()


def to_stderr_verbosely() -> None:
    hook = otpy.log_reports(otpy.console_logger(verbose=True))
    for report in reports():
        hook(report)


def to_structlog() -> None:
    structlog.configure()
    all_reports()


def to_json() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ]
    )
    all_reports()


def to_structlog_on_logging() -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    all_reports()


def to_logging() -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
    all_reports()


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail_again() -> None:
    if otpy.current().incarnation > 1:
        await forever()
    await asyncio.sleep(0.02)
    raise ValueError("bad luck")


async def refuse_to_end() -> None:
    while True:
        try:
            await forever()
        except asyncio.CancelledError:
            continue


async def abandons() -> None:
    """Log that a child was abandoned, and what happens afterwards."""
    stuck = ChildSpec("stuck", refuse_to_end, shutdown=0.01, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [stuck])) as root:
        setattr(stop, "KILL_GRACE", 0.01)  # noqa: B010 - it is final; this is a test
        await root.terminate_child("stuck")
        await root.start_child(ChildSpec("bad", fail_again))
        await root.wait_for_restart("bad", after=1)
        os._exit(0)  # a normal exit would wait for it


async def crashes_mutely() -> None:
    """Log an error that has no text, and what happens afterwards."""

    async def mute() -> None:
        raise Mute

    children = [ChildSpec("mute", mute, restart=Restart.TEMPORARY), ChildSpec("bad", fail_again)]
    async with otpy.start(SupervisorSpec("app", children)) as root:
        await root.wait_for_restart("bad", after=1)


async def crashes_often(hooks: list[Callable[[Report], object]] | None = None) -> None:
    """Crash 300 times while no process reads the stderr of the program, and then say so."""
    done = asyncio.Event()

    async def fail() -> None:
        if otpy.current().incarnation > 300:
            done.set()
            await forever()
        await asyncio.sleep(0)
        raise ValueError("x" * 1_000)

    spec = SupervisorSpec("app", [ChildSpec("bad", fail)], intensity=10_000)
    async with otpy.start(spec, hooks=hooks):
        await done.wait()
        say("300 crashes")
        await asyncio.to_thread(sys.stdin.read)


async def crashes_often_and_logs_all() -> None:
    await crashes_often([otpy.log_reports(limit=None)])


async def fills_the_disk() -> None:
    """Fill stderr while a child crashes, and empty it before the program ends."""
    good = os.dup(2)
    full = os.open("/dev/full", os.O_WRONLY)
    async with otpy.start(SupervisorSpec("app", [ChildSpec("bad", fail_again)])) as root:
        os.dup2(full, 2)
        await root.wait_for_restart("bad", after=1)
        os.dup2(good, 2)
        await asyncio.sleep(0.2)
        say("now")


async def configures_later() -> None:
    """Configure the log only after the tree has started."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("bad", fail_again)])) as root:
        logging.basicConfig(stream=sys.stdout)
        await root.wait_for_restart("bad", after=1)


async def ends() -> None:
    """Crash once, stop, and write nothing else to stdout."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("bad", fail_again)])) as root:
        await root.wait_for_restart("bad", after=1)
        shell_of(root).shut_down(Shutdown())
    say("ended")


if __name__ == "__main__":
    program = globals()[sys.argv[1]]
    if inspect.iscoroutinefunction(program):
        asyncio.run(program())
    else:
        program()
