"""What an ended server leaves behind: nothing that needs the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, TypeAlias

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor, GenServer, Normal, Process, Restart
from otpy.errors import CallFailed
from otpy.server import NoReply, Reply
from otpy.server import Stop as StopServer
from otpy.testing import settled
from tests.runtime.children import Boom

End: TypeAlias = Callable[[Any, Process], Awaitable[None]]


class Plain(GenServer[Any, Any, Any]):
    """A server that ends in any way; its state refers to the server itself."""

    def init(self, *, traps: bool) -> Any:
        if traps:
            self.trap_exit()
        return self

    def handle_call(self, request: Any, caller: Any, state: Any) -> Any:
        if request == "echo":
            return Reply(request, state)
        if request == "stop":
            return StopServer(Normal(), state, reply=request)
        if request == "kill":
            otpy.current().kill()
        if request == "crash":
            raise Boom
        return NoReply(state) if request in ("kill", "later") else None

    def handle_cast(self, request: Any, state: Any) -> Any:
        raise Boom


class Slow(Plain):
    """The same server, with a task."""

    async def handle_call(self, request: Any, caller: Any, state: Any) -> Any:
        await asyncio.sleep(0)
        return super().handle_call(request, caller, state)

    async def handle_cast(self, request: Any, state: Any) -> Any:
        await asyncio.sleep(0)
        return super().handle_cast(request, state)


class Failing(Plain):
    """A server that also crashes in `terminate`."""

    def terminate(self, reason: Any, state: Any) -> None:
        raise Boom


class SlowlyFailing(Slow):
    """The same server, with a task."""

    async def terminate(self, reason: Any, state: Any) -> None:
        await asyncio.sleep(0)
        raise Boom


async def stopped(ref: Any, process: Process) -> None:
    """Stop the server after one answer."""
    assert await ref.call("echo") == "echo"
    with suppress(CallFailed):
        await ref.stop()


async def crashed(ref: Any, process: Process) -> None:
    """Crash the server while no caller waits."""
    ref.cast("crash")


async def killed_unasked(ref: Any, process: Process) -> None:
    """Kill the server before any call."""
    process.kill()


async def watched(ref: Any, process: Process) -> None:
    """Kill the server while a monitor watches it."""
    monitor = process.monitor()
    process.kill()
    await monitor


async def suspended(ref: Any, process: Process) -> None:
    """Kill the server while messages wait."""
    await ref.suspend()
    ref.cast("crash")
    asked = asyncio.create_task(ref.call("later"))
    await asyncio.sleep(0)
    process.kill()
    await asyncio.wait([asked])
    assert isinstance(asked.exception(), CallFailed)


async def owing(ref: Any, process: Process) -> None:
    """Kill the server while it owes an answer."""
    asked = asyncio.create_task(ref.call("later"))
    await settled(process.root)
    process.kill()
    await asyncio.wait([asked])
    assert isinstance(asked.exception(), CallFailed)


def asked(request: str) -> End:
    """Return an end that a request brings about."""

    async def end(ref: Any, process: Process) -> None:
        with suppress(CallFailed):
            await ref.call(request)

    return end


ENDS: dict[str, End] = {
    **{end.__name__: end for end in (stopped, crashed, killed_unasked, watched, suspended, owing)},
    **{f"asked to {request}": asked(request) for request in ("stop", "kill", "crash", "err")},
}


@pytest.fixture
def nothing_collected() -> Generator[None]:
    """Disable the garbage collector."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("traps", [False, True])
@pytest.mark.parametrize("server", [Plain, Slow, Failing, SlowlyFailing])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_an_ended_server_is_freed_at_once(
    server: type[Plain], end: End, traps: bool, nothing_collected: None
) -> None:
    """This holds for each kind of end, with or without a caller, a task or trapped exits."""
    pool = DynamicSupervisor.spec("pool", intensity=0)
    spec = ChildSpec("s", server, kwargs={"traps": traps}, restart=Restart.TEMPORARY)
    async with otpy.start(pool, hooks=()) as sup:
        process = await sup.start_child(spec)
        assert process is not None
        callbacks = weakref.ref(await server.at(process).get_state())
        await end(server.at(process), process)
        await process.wait()
        left = weakref.ref(process)
        del process
        await settled(sup)
        assert left() is None
        assert callbacks() is None
