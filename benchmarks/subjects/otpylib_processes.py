"""otpylib: processes with mailboxes on asyncio, and its static supervisor.

Its children are modules that start a process; here, the cheapest: a process that runs the body.
One caller is a process itself; a crowd is not, and so gets a process for each call from otpylib.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from benchmarks.subject import NO_LIMIT, PERIOD, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from benchmarks.subject import Body

# Installed on demand, and so unknown to type checkers.
_BACKEND: Final[Any] = import_module("otpylib.runtime.backends.asyncio_backend.backend")
_RUNTIME: Final[Any] = import_module("otpylib.runtime")
_PROCESS: Final[Any] = import_module("otpylib.process")
_SUPERVISOR: Final[Any] = import_module("otpylib.supervisor")
_GEN_SERVER: Final[Any] = import_module("otpylib.gen_server")
_MODULE: Final[Any] = import_module("otpylib.module")


@final
class _Child:
    """What the supervisor takes for a module: something with `start_link`."""

    def __init__(self, body: Body) -> None:
        self._body = body

    async def start_link(self, *, init_arg: object, name: str | None) -> Any:
        return await _PROCESS.spawn(self._body, name=name, mailbox=init_arg is not None)


async def _init(_: Any, given: Any) -> Any:
    return given


async def _terminate(_: Any, _reason: object, _state: object) -> None:
    pass


async def _handle_call(_: Any, request: Any, _caller: object, state: Any) -> Any:
    return _GEN_SERVER.Reply(payload=request), state


async def _handle_cast(_: Any, request: Any, state: Any) -> Any:
    if callable(request):
        request()
    return _GEN_SERVER.NoReply(), state


async def _handle_info(_: Any, _message: object, state: Any) -> Any:
    return _GEN_SERVER.NoReply(), state


def _module(name: str, behavior: Any, **callbacks: Any) -> Any:
    callbacks |= {"init": _init, "terminate": _terminate, "__module__": __name__}
    return _MODULE.OTPModule(name, (), callbacks, behavior=behavior, version="1.0.0")


_Root: Final[Any] = _module("Root", _MODULE.SUPERVISOR)
_Echo: Final[Any] = _module(
    "Echo",
    _MODULE.GEN_SERVER,
    handle_call=_handle_call,
    handle_cast=_handle_cast,
    handle_info=_handle_info,
)


async def _wait() -> None:
    await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def _running() -> AsyncGenerator[None]:
    """Run otpylib's runtime, and be one of its processes."""
    backend = _BACKEND.AsyncIOBackend()
    await backend.initialize()
    _RUNTIME.set_runtime(backend)
    token = _BACKEND._current_process.set(await backend.spawn(_wait))
    try:
        yield
    finally:
        _BACKEND._current_process.reset(token)
        await backend.shutdown()
        _RUNTIME.reset_runtime()


@final
class _Server:
    def __init__(self) -> None:
        self._process = asyncio.current_task()

    async def call(self, request: Any) -> Any:
        if asyncio.current_task() is not self._process:
            _BACKEND._current_process.set(None)
        return await _GEN_SERVER.call("echo", request)

    async def cast(self, request: Any) -> None:
        await _GEN_SERVER.cast("echo", request)


@final
class Otpylib(Subject):
    """Processes of otpylib."""

    name: ClassVar[str] = "otpylib"

    @asynccontextmanager
    async def _supervised(self, modules: Sequence[Any], *, together: bool) -> AsyncGenerator[None]:
        strategy = _SUPERVISOR.ONE_FOR_ALL if together else _SUPERVISOR.ONE_FOR_ONE
        options = _SUPERVISOR.options(NO_LIMIT, PERIOD, strategy)
        specs = [
            _SUPERVISOR.child_spec(id=f"child-{number}", module=module)
            for number, module in enumerate(modules)
        ]
        async with _running():
            root = await _SUPERVISOR.start_link(_Root, init_arg=(specs, options))
            yield
            here, *processes = _RUNTIME.get_runtime()._processes.values()
            tasks = [process.task for process in processes if process is not here]
            await _PROCESS.send(root, _SUPERVISOR.SHUTDOWN)
            await asyncio.wait(tasks)

    @asynccontextmanager
    async def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody can hear anything
    ) -> AsyncGenerator[None]:
        """One supervisor, one process for each child."""
        async with self._supervised([_Child(body) for body in bodies], together=together):
            yield

    async def escalate(self, depth: int, body: Body) -> None:
        """Supervisors in supervisors."""
        module, given = _Child(body), None
        options = _SUPERVISOR.options(0, PERIOD)
        for _ in range(depth):
            spec = _SUPERVISOR.child_spec(id="child", module=module, args=given)
            module, given = _Root, ([spec], options)
        async with _running():
            root = await _SUPERVISOR.start_link(_Root, init_arg=given)
            process = _RUNTIME.get_runtime()._processes.get(root)
            if process is not None:  # it did not give up already
                await asyncio.wait([process.task])

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[_Server]:
        """A generic server, whose handlers are `async`."""
        async with _running():
            await _GEN_SERVER.start_link(_Echo, name="echo")
            yield _Server()

    @asynccontextmanager
    async def servers(self, count: int, *, asynchronous: bool) -> AsyncGenerator[None]:
        """As many of them, under a supervisor."""
        if not asynchronous:
            self._no("server with plain handlers")
        async with self._supervised([_Echo] * count, together=False):
            yield
