"""Leftovers of a test in the process: threads, child processes and open descriptors.

Child processes and descriptors are seen where there is a `/proc`, which is on Linux; elsewhere only
threads are. Not seen at all: processes that are nobody's children any more, because the child that
started them has ended.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, final

from attrs import define

from otpy._runtime.stack import stack_of_thread

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

PATIENCE = 0.5
"""Real seconds that threads and processes which are about to end get to do so."""
_PAUSE = 0.005
_PROC = Path("/proc/self")

# Python starts these once for the whole program and never ends them.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
# Opened once, by Python itself or a library, and kept.
_KEPT_OPEN = ("/dev/random", "/dev/urandom")


@final
@define
class Snapshot:
    """The resources of the process at one moment.

    Attributes:
        threads: Every thread that runs Python code.
        processes: The process ids of the children, ended but not waited for included.
        descriptors: The target of each open descriptor.
    """

    threads: set[threading.Thread]
    processes: set[int]
    descriptors: dict[int, str]

    @classmethod
    def take(cls) -> Snapshot:
        """Look around."""
        return cls(set(threading.enumerate()), _children(), _descriptors())

    def accept(self, before: Snapshot, after: Snapshot) -> None:
        """Treat the items that came between `before` and `after` as always present."""
        self.threads |= after.threads - before.threads
        self.processes |= after.processes - before.processes
        self.descriptors.update(after.descriptors.items() - before.descriptors.items())


def left_over(before: Snapshot, ignored_threads: str | None = None) -> list[str]:
    """Name the new items since `before`, one text each.

    Args:
        before: What was there and may stay.
        ignored_threads: What the names of threads begin with that may stay too.
    """
    deadline: float | None = None
    while True:
        found = _new_since(before, ignored_threads)
        if not found:
            return found
        if deadline is None:
            gc.collect()  # what only a cycle of references keeps open
            # From here on: no thread could end while a collection, or a busy machine, held it up.
            deadline = time.monotonic() + PATIENCE
        elif time.monotonic() >= deadline:
            return found
        else:
            time.sleep(_PAUSE)


def _new_since(before: Snapshot, ignored_threads: str | None) -> list[str]:
    now = Snapshot.take()
    helpers = {pid for pid in now.processes if any(name in _command(pid) for name in _HELPERS)}
    pipes = {target for pid in helpers for target in _descriptors(Path(f"/proc/{pid}")).values()}
    threads = [
        thread
        for thread in sorted(now.threads - before.threads, key=lambda thread: thread.name)
        if not (ignored_threads and thread.name.startswith(ignored_threads))
        # Made up by Python for a thread that a library started; never taken off its list.
        and type(thread).__name__ != "_DummyThread"
    ]
    descriptors = [
        f"open descriptor {number}: {target}"
        for number, target in sorted(now.descriptors.items() - before.descriptors.items())
        if target not in _KEPT_OPEN and target not in pipes
    ]
    return [
        *(_thread(thread) for thread in threads),
        *(_process(pid) for pid in sorted(now.processes - before.processes - helpers)),
        *descriptors,
    ]


def _thread(thread: threading.Thread) -> str:
    lines = stack_of_thread(thread) or ("its end",)
    return "\n  ".join([f"thread {thread.name}, which is at", *lines])


def _process(pid: int) -> str:
    command = _command(pid)
    return f"process {pid}: {command}" if command else f"process {pid}: ended, never waited for"


def _command(pid: int) -> str:
    """Return the arguments of a process, separated by spaces; empty if it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .decode(errors="replace")[:-1]
            .replace("\0", " ")
        )
    except OSError:
        return ""


def _children() -> set[int]:
    found: set[int] = set()
    for thread in _names(_PROC / "task"):
        try:
            found.update(map(int, (_PROC / "task" / thread / "children").read_text().split()))
        except OSError:  # the thread has ended meanwhile
            continue
    return found


def _descriptors(process: Path = _PROC) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in _names(process / "fd"):
        try:
            found[int(name)] = str((process / "fd" / name).readlink())
        except OSError:  # it was the one that listed them
            continue
    return found


def _names(folder: Path) -> AbstractSet[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - numbers, of which no paths are needed
    except OSError:
        return set()
