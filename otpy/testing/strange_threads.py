"""What threads do that the loop has not started: drivers of databases, above all.

Nobody tells, but on Linux the kernel does, call by call: `/proc/self/task/…/syscall`.

- A thread that waits for a lock waits for another thread. So an idle driver does, and it cannot
  wake the loop before somebody has given it work.
- A thread that waits for a socket or a pipe waits for a peer, as the loop itself may.
- Any other one works: it computes, waits for the disk or sleeps.

A thread whose time on the processor has grown since the last look may be on its way from one of
these to another, and waits for a lock for a moment: the interpreter's. It is looked at again after
a while in which the loop has let the interpreter go. One that has just been woken counts as at
work.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable
from enum import IntEnum
from threading import Thread
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST_SLEEP: Final = 10.0
"""Real seconds after which a thread that sleeps again and again, or waits for a peer again and
again and never for work, is believed to poll: as the idle loop of a server does."""
LONGEST_NAP: Final = 1.0
"""Real seconds of a new thread's life in which a lock that it waits for, but not for ever, is
believed to be a way to sleep, as that of `threading.Timer`."""

# Numbers of system calls. A lock: futex. A sleep: nanosleep, clock_nanosleep. A peer: read, readv,
# poll, ppoll, select, pselect6, epoll_wait, epoll_pwait, epoll_pwait2, recvfrom, recvmsg, accept,
# accept4, connect.
_CALLS: Final = {
    "x86_64": (
        b"202",
        {b"35", b"230"},
        {b"0", b"19", b"7", b"271", b"23", b"270", b"232", b"281", b"441", b"45", b"47", b"43"}
        | {b"288", b"42"},
    ),
    "aarch64": (
        b"98",
        {b"101", b"115"},
        {b"63", b"65", b"73", b"72", b"22", b"441", b"207", b"212", b"202", b"242", b"203"},
    ),
}
_FOR_EVER = b"0x0"


class Doing(IntEnum):
    """The activities of a thread, in rising order."""

    NOTHING = 0
    """It waits for a lock, or has ended."""
    AWAITING = 1
    """It waits for a peer, and has done something since the last look, or it may have."""
    WORK = 2
    """It works, or may be about to."""


@final
class StrangeThreads:
    """The observations of threads at the last look."""

    def __init__(self) -> None:
        """Know of no thread."""
        # By the kernel's number of the thread: its seconds on the processor.
        self._ran: dict[int, float] = {}
        self._first_seen: dict[int, float] = {}
        self._asleep_since: dict[int, float] = {}
        self._awaiting_since: dict[int, float] = {}
        self._calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None

    def look(self, threads: Iterable[Thread]) -> Doing | None:
        """Return the most that any of them does; None if that cannot be known here."""
        if self._calls is None:
            return None
        numbers = [thread.native_id for thread in threads]
        try:
            done = [self._doing(number) for number in numbers if number is not None]
        except PermissionError:
            self._calls = None
            return None
        if len(self._ran) > len(numbers):
            self._forget_all_but(numbers)
        return max(done, default=Doing.NOTHING)

    def awaits_work(self, thread: Thread) -> bool:
        """Tell whether a thread waits for a lock, and for nothing less: as in an idle pool."""
        if self._calls is None or thread.native_id is None:
            return False
        try:
            call, *arguments = _system_call(thread.native_id)
        except OSError:
            return False
        return call == self._calls[0] and arguments[3] == _FOR_EVER

    def _forget_all_but(self, numbers: Collection[int | None]) -> None:
        for known in (self._ran, self._first_seen, self._asleep_since, self._awaiting_since):
            for number in [number for number in known if number not in numbers]:
                del known[number]

    def _doing(self, number: int) -> Doing:
        assert self._calls is not None  # noqa: S101 - the caller has looked
        lock, sleeps, peers = self._calls
        try:
            # In this order: one that had not run until after it was in a call was in it all along.
            call, *arguments = _system_call(number)
            ran = time.clock_gettime(~number << 3 | 6)  # how Linux numbers a thread's clock
        except OSError as error:
            if isinstance(error, PermissionError):
                raise
            return Doing.NOTHING  # it has ended
        moved, self._ran[number] = ran != self._ran.get(number), ran
        now = time.monotonic()
        first_seen = self._first_seen.setdefault(number, now)
        if call in sleeps:
            since = self._asleep_since.setdefault(number, now)
            return Doing.WORK if now - since < LONGEST_SLEEP else Doing.NOTHING
        if call == lock:
            self._asleep_since.pop(number, None)
            if arguments[3] == _FOR_EVER:  # not that for the interpreter, which everybody waits for
                self._awaiting_since.pop(number, None)
            naps = arguments[3] != _FOR_EVER and now - first_seen < LONGEST_NAP
            return Doing.WORK if moved or naps or _is_awake(number) else Doing.NOTHING
        if call in peers:
            if now - self._awaiting_since.setdefault(number, now) >= LONGEST_SLEEP:
                return Doing.NOTHING
            return Doing.AWAITING if moved or _is_awake(number) else Doing.NOTHING
        return Doing.WORK


def _system_call(number: int) -> list[bytes]:
    """Return the call that a thread is in and its arguments, or `running`."""
    file = os.open(f"/proc/self/task/{number}/syscall", os.O_RDONLY)
    try:
        return os.read(file, 256).split()
    finally:
        os.close(file)


def _is_awake(number: int) -> bool:
    """Whether a thread that is in a call has been woken.

    From when it is woken until its processor hears of that, which takes 50 microseconds and more on
    a virtual machine, it still counts as in its call and has not run; only its state is another.
    """
    try:
        file = os.open(f"/proc/self/task/{number}/stat", os.O_RDONLY)
        try:
            state = os.read(file, 256).rpartition(b")")[2].split(None, 1)[0]
        finally:
            os.close(file)
    except OSError:
        return False  # it has ended
    return state == b"R"
