"""fauxtp: actors in anyio task groups, under its supervisor. Calls and casts are coroutines.

Its own registry copies all it knows for each child that starts; it is given one that does not.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import anyio

from benchmarks.subject import Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from benchmarks.subject import Body

_FAUXTP: Final[Any] = import_module("fauxtp")  # installed on demand, unknown to type checkers
_SUPERVISOR: Final[Any] = import_module("fauxtp.supervisor")


def _keep(actor: Any, body: Body) -> None:
    _FAUXTP.Actor.__init__(actor)
    actor.body = body


async def _run(actor: Any, _: Any) -> None:
    await actor.body()
    actor.stop()


async def _start_all(supervisor: Any, state: Any) -> Any:
    """Start the children, the first time; tell when they have been."""
    state = await _SUPERVISOR.Supervisor.run(supervisor, state)
    if not supervisor.ready.done():
        supervisor.ready.set_result(None)
    return state


async def _reply(_server: Any, request: Any, _ref: Any, state: Any) -> tuple[Any, Any]:
    return request, state


async def _serve_cast(_server: Any, request: Any, state: Any) -> Any:
    if callable(request):
        request()
    return state


# Made by hand instead of by `class`, because the bases are not known to type checkers.
_Child: Final[Any] = type("Child", (_FAUXTP.Actor,), {"__init__": _keep, "run": _run})
_Root: Final[Any] = type("Root", (_SUPERVISOR.Supervisor,), {"run": _start_all, "ready": None})
_Echo: Final[Any] = type(
    "Echo", (_FAUXTP.GenServer,), {"handle_call": _reply, "handle_cast": _serve_cast}
)


@final
class _Server:
    def __init__(self, pid: Any) -> None:
        self._pid = pid

    async def call(self, request: Any) -> Any:
        return await _FAUXTP.call(self._pid, request)

    async def cast(self, request: Any) -> None:
        await _FAUXTP.cast(self._pid, request)


@final
class Fauxtp(Subject):
    """Actors of fauxtp."""

    name: ClassVar[str] = "fauxtp"

    @asynccontextmanager
    async def _supervised(self, specs: list[Any], *, together: bool) -> AsyncGenerator[None]:
        strategies = _SUPERVISOR.RestartStrategy
        strategy = strategies.ONE_FOR_ALL if together else strategies.ONE_FOR_ONE
        ready = asyncio.get_running_loop().create_future()
        root: Any = type("App", (_Root,), {"ready": ready})
        async with anyio.create_task_group() as group:
            registry = await _Echo.start(task_group=group)
            await root.start_link(specs, strategy, registry, task_group=group)
            await ready
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody can hear anything
    ) -> AsyncGenerator[None]:
        """One supervisor, one actor for each child."""
        specs = [
            _SUPERVISOR.ChildSpec(_Child, f"child-{number}", (body,))
            for number, body in enumerate(bodies)
        ]
        async with self._supervised(specs, together=together):
            yield

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[_Server]:
        """A `GenServer`, whose handlers are `async`."""
        async with anyio.create_task_group() as group:
            yield _Server(await _Echo.start(task_group=group))
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def servers(self, count: int, *, asynchronous: bool) -> AsyncGenerator[None]:
        """As many of them, under a supervisor."""
        if not asynchronous:
            self._no("server with plain handlers")
        specs = [_SUPERVISOR.ChildSpec(_Echo, f"echo-{number}") for number in range(count)]
        async with self._supervised(specs, together=False):
            yield
