"""Finds and ends processes that belong to a work list but to no living host.

Used after an attempt (what did the worker leave behind?), by the hygiene daemon, and at boot after
the host was killed (G-03). A process is recognised by its environment marker, or by a stored pid
*and* start time; a pid alone is never trusted, because the number may have been given to a
stranger since.

Limit: a process that has left the session of its worker *and* has cleared its environment is found
only as long as the guardian of the worker lives, which adopts it (on Linux; see `guardian`). The
processes of other users cannot be looked into.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, final

import anyio.to_thread
import psutil
from attrs import frozen

__all__ = ["Orphan", "Recorded", "end", "end_found", "find", "same_start"]

KILL_WAIT: Final = 1.0
"""Seconds a process may take to vanish after SIGKILL; longer only in uninterruptible sleep."""

_ROUNDS: Final = 5
_POLL: Final = 0.02
_START_TOLERANCE: Final = 1.5
_LOOKS: Final = 1000
_NAP: Final = 0.001


@frozen
class Recorded:
    """A process as it was written down when it was started: pid and start time (Unix seconds)."""

    pid: int
    create_time: float


@frozen
class Orphan:
    """A living process that belongs to a work list.

    Attributes:
        pid: Its number.
        create_time: Its start, in Unix seconds as psutil tells it; with the pid its identity.
        group: Its process group.
        session: Its session; workers lead their own, so this is the pid of the worker unless the
            process went away from it.
        name: Short name of its program.
        assignment: Id of the assignment it was started for; empty if it has no marker.
        incarnation: Which attempt; 0 if it has no marker.
    """

    pid: int
    create_time: float
    group: int
    session: int
    name: str
    assignment: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def same_start(one: float, other: float) -> bool:
    """Tell whether two start times of one pid mean the same process.

    The kernel counts from boot; the Unix time is derived from a boot time in whole seconds that
    shifts by one when the clock is corrected. The tolerance of 1.5 s covers that.
    """
    return abs(one - other) < _START_TOLERANCE


def find(
    marker: Mapping[str, str],
    recorded: Iterable[Recorded] = (),
    *,
    sessions: Collection[int] = (),
    below: int | None = None,
) -> list[Orphan]:
    """Return every living process that carries `marker`, or was recorded and still lives.

    Reads `/proc` (about 0.01 ms for each process of the machine): call it in a thread.

    Args:
        marker: Variables that must all be in the environment; an empty marker matches nothing.
        recorded: Processes known from the ledger. If one still lives, all of its session counts.
        sessions: Sessions the caller knows to be ours right now, for example that of a worker it
            has just seen ending.
        below: A process of ours whose descendants count too, but not itself. On Linux a guardian
            keeps all it ever had, whatever they did to their session and environment.

    Returns:
        The processes found, oldest first. Never this process nor one of its ancestors; zombies do
        not count as living.
    """
    known = {entry.pid: entry.create_time for entry in recorded}
    ours = set(sessions)
    for pid, create_time in known.items():
        with contextlib.suppress(psutil.Error):
            if same_start(psutil.Process(pid).create_time(), create_time):
                ours.add(pid)
    inside = _descendants(below)
    me = psutil.Process()
    spared = {me.pid, *(parent.pid for parent in me.parents())}
    wanted = {os.fsencode(f"{name}={value}") for name, value in marker.items()}
    found: list[Orphan] = []
    # Not `process_iter`: it caches, and would show the start time of an earlier bearer of a pid.
    for pid in psutil.pids():
        if pid in spared:
            continue
        # A process may vanish, or turn out to be another user's, between any two of these reads.
        with contextlib.suppress(psutil.Error, OSError):
            if pid not in inside and not _possible(pid, wanted, ours):
                continue
            orphan = _inspect(psutil.Process(pid), marker, ours, inside)
            if orphan is not None:
                found.append(orphan)
    return sorted(found, key=lambda orphan: (orphan.create_time, orphan.pid))


def _descendants(pid: int | None) -> frozenset[int]:
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            return frozenset(one.pid for one in psutil.Process(pid).children(recursive=True))
    return frozenset()


def _possible(pid: int, wanted: AbstractSet[bytes], sessions: Collection[int]) -> bool:
    """Tell cheaply whether a process is worth a closer look, which takes six times as long."""
    if not psutil.LINUX or pid in sessions or os.getsid(pid) in sessions:
        return True
    return bool(wanted) and wanted <= set(_environment(pid).split(b"\0"))


def _environment(pid: int) -> bytes:
    """Return the environment of a process; if its program is just being loaded, wait for it.

    In that moment a process has neither words nor an environment. On a busy machine it can last,
    and who is overlooked then stays alive.
    """
    environment = _read(pid, "environ")
    for _ in range(_LOOKS):
        if environment or _read(pid, "cmdline"):
            break
        Path(f"/proc/{pid}/exe").readlink()  # raises for a zombie and for a thread of the kernel
        time.sleep(_NAP)
        environment = _read(pid, "environ")
    return environment


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - called often
        return file.read()


def _inspect(
    process: psutil.Process,
    marker: Mapping[str, str],
    sessions: Collection[int],
    inside: AbstractSet[int],
) -> Orphan | None:
    """Return the process if it is one of ours."""
    session = os.getsid(process.pid)
    member = session in sessions or process.pid in sessions or process.pid in inside
    environment: Mapping[str, str] = {}
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        if not member:
            return None
    marked = bool(marker) and marker.items() <= environment.items()
    if not (marked or member) or process.status() == psutil.STATUS_ZOMBIE:
        return None
    incarnation = environment.get("OTPY_INCARNATION", "")
    return Orphan(
        pid=process.pid,
        create_time=process.create_time(),
        group=os.getpgid(process.pid),
        session=session,
        name=process.name(),
        assignment=environment.get("OTPY_ASSIGNMENT", ""),
        incarnation=int(incarnation) if incarnation.isdecimal() else 0,
    )


async def end(
    marker: Mapping[str, str], grace: float, *, recorded: Iterable[Recorded] = ()
) -> tuple[Orphan, ...]:
    """Find and end the processes of `marker` until none is left; for boot and clean-up.

    Takes at most `grace` and a few times one second. Cancellation stops it in the middle and
    does no harm: running it again goes on with whatever still lives (TREE-46).

    Args:
        marker: As in `find`.
        grace: Seconds between SIGTERM and SIGKILL.
        recorded: As in `find`.

    Returns:
        Every process found, oldest first; those that even SIGKILL did not end are the ones a
        further `find` still shows.
    """
    stored = tuple(recorded)
    ended: list[Orphan] = []
    for _ in range(_ROUNDS):
        found = await anyio.to_thread.run_sync(find, marker, stored)
        if not found:
            break
        ended += [orphan for orphan in found if orphan not in ended]
        await end_found(found, grace)
        # Only the first round is polite: what appears later was forked by a process being ended.
        grace = 0.0
    return tuple(ended)


async def end_found(
    found: Iterable[Orphan],
    grace: float,
    *,
    group: int | None = None,
    hurry: asyncio.Future[None] | None = None,
    wrapped: bool = False,
) -> tuple[Orphan, ...]:
    """End these processes: SIGTERM, at most `grace` seconds, SIGKILL, at most one second.

    Stopped processes are woken so that they can react. Cancellation leaves the processes
    as they are at that moment.

    Args:
        found: What `find` returned; a pid that was given to another process since is left alone.
        grace: Seconds.
        group: A process group that is all ours. It is signalled as a whole, so that a process that
            forks meanwhile does not slip through, as long as one of `found` lives in it.
        hurry: When done, the rest of the grace is cut.
        wrapped: Whether the leader of `group` is only a wrapper around the others, which a SIGTERM
            would end with all inside before they could obey; it is spared by that.

    Returns:
        Those that still live, in the order given; normally none.
    """
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(contextlib.closing(_Watch(orphan))) for orphan in found]
        if grace > 0:
            inner = [watch for watch in watches if not (wrapped and watch.orphan.pid == group)]
            _send_all(inner, None if wrapped else group, signal.SIGTERM)
            _send_all(watches, group, signal.SIGCONT)
            await _all_gone(watches, grace, hurry)
        _send_all(watches, group, signal.SIGKILL)
        await _all_gone(watches, KILL_WAIT, None)
        return tuple(watch.orphan for watch in watches if not watch.gone.done())


def _send_all(watches: Iterable[_Watch], group: int | None, number: signal.Signals) -> None:
    """Signal `group` as a whole and every other process by itself, each exactly once."""
    whole = False
    for watch in watches:
        # Not what it was found in: it may have gone away from the group since.
        if watch.orphan.group != group or not watch.holds():
            watch.send(number)
        elif not whole:
            # While a member lives the number of its group cannot be given away.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(watch.orphan.group, number)
            whole = True


async def _all_gone(
    watches: Collection[_Watch], patience: float, hurry: asyncio.Future[None] | None
) -> None:
    """Wait until all have gone, `patience` seconds are over or `hurry` is done."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(_: asyncio.Future[None]) -> None:
        hurried = hurry is not None and hurry.done()
        if not over.done() and (hurried or all(watch.gone.done() for watch in watches)):
            over.set_result(None)

    awaited = [watch.gone for watch in watches]
    if hurry is not None:
        awaited.append(hurry)
    for future in awaited:
        future.add_done_callback(look)
    try:
        if watches:
            await asyncio.wait({over}, timeout=patience)
    finally:
        for future in awaited:
            future.remove_done_callback(look)


@final
class _Watch:
    """Holds on to one process, so that its end is pushed and its pid cannot be mistaken.

    `gone` is done when the process has ended, or was not the one meant.
    """

    def __init__(self, orphan: Orphan) -> None:
        self.orphan = orphan
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._pidfd = _open_pidfd(orphan.pid)
        # In this order: a descriptor opened first and an identity confirmed afterwards can only
        # mean the same process, whatever happens to the number in between.
        if not _alive(orphan):
            self.gone.set_result(None)
        elif self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._on_gone)
        else:
            self._poll()

    def holds(self) -> bool:
        """Tell whether the process is alive now and still in the group it was found in."""
        try:
            return not self.gone.done() and os.getpgid(self.orphan.pid) == self.orphan.group
        except ProcessLookupError:
            return False

    def send(self, number: signal.Signals) -> None:
        """Signal the process, if it is still the one meant."""
        if self.gone.done():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            elif _alive(self.orphan):
                os.kill(self.orphan.pid, number)

    def close(self) -> None:
        """Let go of the process."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _on_gone(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        if not self.gone.done():
            self.gone.set_result(None)

    def _poll(self) -> None:
        """Look again and again, on systems that cannot push the end of a process not our child."""
        if not _alive(self.orphan):
            self._on_gone()
        else:
            self._timer = self._loop.call_later(_POLL, self._poll)


def _open_pidfd(pid: int) -> int | None:
    """Return a descriptor for the process, or None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # ESRCH: gone, which `_alive` will find out. The others: an old kernel or a strict sandbox.
        if error.errno in {errno.ESRCH, errno.ENOSYS, errno.EPERM, errno.EINVAL}:
            return None
        raise


def _alive(orphan: Orphan) -> bool:
    """Tell whether exactly this process lives; a zombie does not."""
    try:
        process = psutil.Process(orphan.pid)
        return (
            same_start(process.create_time(), orphan.create_time)
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False
