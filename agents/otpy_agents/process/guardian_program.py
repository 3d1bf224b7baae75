"""Starts one worker, and ends all that came of it if its host dies; a program of its own.

`guardian.Guardian` runs it, and holds the other end of the socket that it watches. It loads no
module of ours and few others (`contextlib` alone takes 4 ms), because it is started with every
worker. On Linux it adopts what loses its parent below it, so it finds a daemon that changed its
session and its environment too.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False  # `typing` would take longer to load than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["END_WITHIN", "main"]

END_WITHIN = 5.0
"""Seconds after the death of its host in which nothing of a worker is left."""

_POLITE = 4.0  # of these, at most so many between SIGTERM and SIGKILL
_FREEZE = 0.2
_LOOK = 1000  # milliseconds; `_BLIND` where the end of a process cannot be polled for
_BLIND = 50
_NAP = 0.02
_LONG_NAP = 0.2  # a look costs time for each process of the machine

# By number, because loading `signal` takes half as long as all the rest.
_TERM, _KILL = 15, 9
_STOP, _CONT = (17, 19) if sys.platform == "darwin" else (19, 18)
_SHIELDED = (1, 2, 3, _TERM)  # a service manager sends its signals to everybody
_PYTHON_IGNORES = (13, 25)
_SIG_IGN = 1
_PR_SET_CHILD_SUBREAPER = 36

_now = time.monotonic  # noqa: TID251 - there is no loop here


def _settle_in() -> list[int]:
    """Adopt orphans and ignore signals; return which of them the worker has to get back."""
    try:
        # The core of `ctypes`: all of it takes 3 ms more. Some interpreters have none.
        from _ctypes import call_function, dlopen, dlsym  # noqa: PLC0415

        libc = dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]
        if sys.platform == "linux":
            call_function(dlsym(libc, "prctl"), (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        signal = dlsym(libc, "signal")
    except (ImportError, OSError):
        return [*_PYTHON_IGNORES]
    # What the host ignored, as under `nohup`, its worker ignores too.
    shielded = [one for one in _SHIELDED if call_function(signal, (one, _SIG_IGN)) != _SIG_IGN]
    return [*_PYTHON_IGNORES, *shielded]


def _started(argv: list[bytes], environment: dict[bytes, bytes], restored: list[int]) -> int:
    """Start the worker in a session of its own, found as the system would, and return its pid."""
    path = environment.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    folders = [b""] if b"/" in argv[0] else path
    refusal: OSError = FileNotFoundError(2, "No such file or directory")
    for folder in folders:
        try:
            return os.posix_spawn(
                os.path.join(folder, argv[0]),  # noqa: PTH118 - pathlib takes long to load
                argv,
                environment,
                setsid=True,
                setsigdef=restored,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refusal = error
    raise refusal


class _Guardian:
    def __init__(self, pid: int, host: int, channel: int, record: int, label: bytes) -> None:
        self._pid, self._host = pid, host
        self._channel, self._record, self._label = channel, record, label
        self._began = time.time()  # noqa: TID251 - is compared with the start of a process
        self._ended = False

    def watch(self) -> None:
        """Return when the host has gone, or wants nothing more."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        look, pidfd = _BLIND, -1
        if hasattr(os, "pidfd_open"):
            pidfd = _tried(os.pidfd_open, self._pid, otherwise=-1)
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
            look = _LOOK
        over = False
        while not over:
            found = [one for one, _ in poll.poll(look)]
            if not self._ended and self._exited():
                look = _LOOK
                if pidfd >= 0:
                    poll.unregister(pidfd)
            # The host's death has a second sign, as a child that it forked may hold the socket.
            over = self._channel in found or os.getppid() != self._host
            self._reap()

    def end(self, grace: float, *, wrapped: bool) -> None:
        """End the remaining processes: SIGTERM, a pause, SIGKILL."""
        began = _now()
        self._catch()
        asked = set[int]()
        nap = _NAP
        while (living := self._living()) and _now() - began < min(grace, _POLITE):
            if not asked and not wrapped:
                self._send_group(_TERM, _CONT)
            for pid, group in living:
                if pid not in asked and wrapped:
                    _send(pid, *(() if pid == self._pid else (_TERM,)), _CONT)
                elif pid not in asked and group != self._pid:
                    _send(pid, _TERM, _CONT)
                asked.add(pid)
            time.sleep(nap)
            nap = min(1.5 * nap, _LONG_NAP)
        while living and _now() - began < END_WITHIN:
            self._send_group(_KILL)
            for pid, _ in living:
                _send(pid, _KILL)
            time.sleep(_NAP / 2)
            living = self._living()

    def _catch(self) -> None:
        """Hold the worker: from now on it cannot end by itself any more, or it has."""
        if not self._ended:
            _send(self._pid, _STOP)
            until = _now() + _FREEZE
            while not (self._exited() or self._stopped()) and _now() < until:
                time.sleep(_NAP / 20)
            self._ended = True  # what follows is our doing

    def _exited(self) -> bool:
        """Find out whether the worker has ended by itself; if so, write down how, and tell."""
        code = _returncode(self._pid)
        if code is None:
            return False
        self._ended = True
        text = b'{"marker":%b,"pid":%d,"started":%r,"ended":%r,"returncode":%d}\n' % (
            self._label,
            self._pid,
            self._began,
            time.time(),  # noqa: TID251 - another program reads it, later
            code,
        )
        _tried(os.write, self._record, text)  # the disk may be full, or there is no file
        _tell(self._channel, f"exit {code}")
        return True

    def _stopped(self) -> bool:
        if not hasattr(os, "waitid"):
            return True
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._pid, how) is not None

    def _reap(self) -> None:
        """Let go of adopted processes that have ended, but not of the worker.

        As long as it is a zombie nobody else gets its number, by which the host signals its group.
        """
        if not hasattr(os, "waitid"):
            return
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while found := _tried(os.waitid, os.P_ALL, 0, how):
            if found.si_pid == self._pid:
                break
            os.waitpid(found.si_pid, 0)

    def _living(self) -> list[tuple[int, int]]:
        """Return pid and group of the living processes below us."""
        self._reap()
        if sys.platform != "linux":  # where nothing is adopted, the group has to do
            alive = _returncode(self._pid) is None
            return [(self._pid, self._pid)] if alive else []
        below: dict[int, list[tuple[int, int, bytes]]] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes long to load
            if name.isdigit():
                stat = _tried(_read, f"/proc/{name}/stat", otherwise=b"")
                if stat:
                    state, parent, group = stat.rpartition(b")")[2].split()[:3]
                    below.setdefault(int(parent), []).append((int(name), int(group), state))
        found: list[tuple[int, int]] = []
        parents = [os.getpid()]
        for parent in parents:
            for pid, group, state in below.get(parent, ()):
                parents.append(pid)
                if state not in b"ZX":
                    found.append((pid, group))
        return found

    def _send_group(self, *numbers: int) -> None:
        for number in numbers:
            _tried(os.killpg, self._pid, number)


def _tried(do: Callable[..., Any], *arguments: object, otherwise: Any = None) -> Any:
    """Return what `do` returns, or `otherwise` if the system refuses."""
    try:
        return do(*arguments)
    except OSError:
        return otherwise


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes long to load
        return file.read()


def _send(pid: int, *numbers: int) -> None:
    for number in numbers:
        _tried(os.kill, pid, number)


def _returncode(pid: int) -> int | None:
    """Return how a child has ended, negative for a signal; None if it has not."""
    try:
        if not hasattr(os, "waitid"):
            found, status = os.waitpid(pid, os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if found else None
        how = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # reaped: it has been told
        return 0
    if how is None:
        return None
    return how.si_status if how.si_code == os.CLD_EXITED else -how.si_status


def _tell(channel: int, line: str) -> None:
    _tried(os.write, channel, f"{line}\n".encode())  # the host may be gone


def main() -> None:
    """Guard the worker that the environment names.

    Arguments are the pid of the host, the grace in seconds, whether the worker is wrapped, and the
    descriptors: the socket, the file for the exit, and others to be held.
    """
    host, grace, wrapped = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "wrapped"
    channel, record, *held = map(int, sys.argv[4:])
    for descriptor in (channel, record, *held):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    given = os.environb
    environment = {name[1:]: text for name, text in given.items() if name.startswith(b"+")}
    argv = [given[b"@%d" % number] for number in range(int(given[b"words"]))]
    try:
        pid = _started(argv, environment, _settle_in())
    except OSError as error:
        _tell(channel, f"error {error.errno}")
        return
    _tell(channel, f"pid {pid}")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # the worker's streams are the worker's
        os.dup2(null, descriptor)
    guardian = _Guardian(pid, host, channel, record, given[b"marker"])
    guardian.watch()
    guardian.end(grace, wrapped=wrapped)
    os._exit(0)  # nothing to clean up, and quicker
