"""The operating system's processes that children have started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

from otpy._runtime.current import current_or_none

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from otpy._runtime.handles import Process

_STARTERS: Final = ("subprocess_exec", "subprocess_shell")


@final
class ChildProcesses:
    """Records the starter of each process on one event loop.

    asyncio and anyio start all of theirs through two methods of the loop, which are covered while
    somebody needs to know. `subprocess.Popen` goes other ways, and is not seen.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch `loop`; for `of`."""
        self._loop = loop
        self._users = 0
        self._started: dict[Process, list[asyncio.SubprocessTransport]] = {}
        self._told: dict[Process, list[Callable[[], object]]] = {}
        self._exec, self._shell = loop.subprocess_exec, loop.subprocess_shell
        self._covered = {name: vars(loop).get(name) for name in _STARTERS}
        for name in _STARTERS:
            setattr(loop, name, getattr(self, name))

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> ChildProcesses:
        """Return the watcher of `loop`; each caller calls `forget` when it is done."""
        watcher = cls.at(loop) or cls(loop)
        watcher._users += 1
        return watcher

    @staticmethod
    def at(loop: asyncio.AbstractEventLoop) -> ChildProcesses | None:
        """Return the watcher of `loop`, if there is one."""
        found = getattr(vars(loop).get("subprocess_exec"), "__self__", None)
        return found if isinstance(found, ChildProcesses) else None

    def forget(self) -> None:
        """Stop watching, once all callers of `of` have called this."""
        self._users -= 1
        if self._users:
            return
        for name, covered in self._covered.items():
            if covered is None:
                delattr(self._loop, name)
            else:
                setattr(self._loop, name, covered)

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        """Start a program as the loop does, and note whose it is."""
        return self._noted(await self._exec(*args, **kwargs))

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> Any:
        """Start a shell command as the loop does, and note whose it is."""
        return self._noted(await self._shell(*args, **kwargs))

    def _noted(self, pair: tuple[asyncio.SubprocessTransport, Any]) -> Any:
        owner = current_or_none()
        if owner is not None and owner.alive:
            if owner not in self._started:
                self._started[owner] = []
                owner.on_exit(self._ended)
            self._started[owner].append(pair[0])
            for told in self._told.get(owner, ()):
                told()
        return pair

    def tell(self, process: Process, started: Callable[[], object]) -> None:
        """Call `started` after each start of a process by `process`, until that has ended."""
        self._told.setdefault(process, []).append(started)
        process.on_exit(self._ended)

    def _ended(self, process: Process, _reason: object) -> None:
        self._told.pop(process, None)
        self._started.pop(process, None)

    def has(self, process: Process) -> bool:
        """Whether something that `process` has started still runs."""
        return bool(self._running(process))

    def kill(self, process: Process) -> bool:
        """Kill what `process` has started and still runs; whether there was any."""
        found = False
        for transport in self._running(process):
            with suppress(ProcessLookupError):
                transport.kill()
                found = True
        return found

    def _running(self, process: Process) -> list[asyncio.SubprocessTransport]:
        started = self._started.get(process, ())
        return [transport for transport in started if transport.get_returncode() is None]
