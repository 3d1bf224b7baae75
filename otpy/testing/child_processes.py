"""The operating system's processes that children have started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from otpy._runtime.current import CURRENT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from otpy._runtime.process import Process
    from otpy.testing.injection import Armed


@final
class ChildProcesses:
    """Knows who started which process through one event loop, from its making on.

    asyncio and anyio start all of theirs through two methods of the loop, which are wrapped until
    `forget`. `subprocess.Popen` goes other ways, and is not seen.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch `loop`."""
        self._loop = loop
        self._started: dict[Process, list[asyncio.SubprocessTransport]] = {}
        self._told: dict[Process, list[Callable[[], object]]] = {}
        self._originals: dict[str, Any] = {}
        for name in ("subprocess_exec", "subprocess_shell"):
            self._originals[name] = vars(loop).get(name)
            setattr(loop, name, self._watched(getattr(loop, name)))

    def forget(self) -> None:
        """Watch no more."""
        for name, original in self._originals.items():
            if original is None:
                delattr(self._loop, name)
            else:
                setattr(self._loop, name, original)
        self._started.clear()
        self._told.clear()

    def tell(self, process: Process, started: Callable[[], object]) -> None:
        """Call `started` after each start of a process by `process`, until that has ended."""
        self._told.setdefault(process, []).append(started)
        process.on_exit(self._ended)

    def _ended(self, process: Process, _reason: object) -> None:
        self._told.pop(process, None)
        self._started.pop(process, None)

    def kill(self, process: Process) -> bool:
        """Kill what `process` has started and still runs; whether there was any."""
        found = False
        for transport in self._started.get(process, ()):
            if transport.get_returncode() is None:
                with suppress(ProcessLookupError):
                    transport.kill()
                    found = True
        return found

    def _watched(self, start: Callable[..., Any]) -> Callable[..., Any]:
        async def started(*args: Any, **kwargs: Any) -> Any:
            pair = await start(*args, **kwargs)
            owner = CURRENT.get(None)
            if owner is not None and owner in self._told:
                self._started.setdefault(owner, []).append(pair[0])
                for told in self._told[owner]:
                    told()
            return pair

        return started


@final
class Kill:
    """One planned kill of what one process has started."""

    def __init__(self, armed: Armed, process: Process) -> None:
        """Wait for its time."""
        self._armed = armed
        self._process = process
        self._due = False
        self._processes = armed.block.processes(process.parent.tree.loop)
        self._processes.tell(process, self._try)

    def time_has_come(self) -> None:
        """Kill what runs, or else the next to be started."""
        self._due = True
        self._try()

    def _try(self) -> None:
        if self._due and self._armed.live and self._processes.kill(self._process):
            self._due = False
            self._armed.hit(self._process)
