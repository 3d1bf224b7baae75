"""anyio: task groups, and by hand what users write around them, in as few words.

That is: the restart of a whole group, groups in groups, and a server on memory streams.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

import anyio

from benchmarks.subject import Boom, Subject
from benchmarks.subjects.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream

    from benchmarks.subject import Body


@final
class _Pool:
    def __init__(self, group: TaskGroup, body: Body) -> None:
        self._group = group
        self._body = body

    async def start(self) -> None:
        self._group.start_soon(self._body)


@final
class _Server:
    """A task that reads a stream; a reply comes by a stream of its own."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[Any](float("inf"))

    async def call(self, request: Any) -> Any:
        send, receive = anyio.create_memory_object_stream[Any](1)
        self._send.send_nowait((request, send))
        with send, receive:
            return await receive.receive()

    def cast(self, request: Any) -> None:
        self._send.send_nowait((request, None))

    async def serve(self) -> None:
        reply: MemoryObjectSendStream[Any] | None
        with self._send, self._receive:
            async for request, reply in self._receive:
                if reply is not None:
                    reply.send_nowait(request)
                elif callable(request):
                    request()


@final
class AnyioGroup(Subject):
    """Task groups of anyio."""

    name: ClassVar[str] = "anyio"

    def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody can hear anything
    ) -> AbstractAsyncContextManager[None]:
        """One group; `together`, it is made again after each crash."""
        return self._together(bodies) if together else self._each(bodies)

    @asynccontextmanager
    async def _each(self, bodies: Sequence[Body]) -> AsyncGenerator[None]:
        refusal = Refusal(self.name)
        try:
            async with anyio.create_task_group() as group:
                for body in bodies:
                    group.start_soon(refusal.run, body)
                yield
                group.cancel_scope.cancel()
        finally:
            refusal.check()

    @asynccontextmanager
    async def _together(self, bodies: Sequence[Body]) -> AsyncGenerator[None]:
        async def again_and_again() -> None:
            while True:
                try:
                    async with anyio.create_task_group() as group:
                        for body in bodies:
                            group.start_soon(body)
                except* Boom:
                    pass

        async with anyio.create_task_group() as outer:
            outer.start_soon(again_and_again)
            await asyncio.sleep(0)
            yield
            outer.cancel_scope.cancel()

    @asynccontextmanager
    async def pool(self, body: Body, *, permanent: bool) -> AsyncGenerator[_Pool]:  # noqa: ARG002
        """A group whose tasks are not restarted, which no workload of a pool but one needs."""
        async with anyio.create_task_group() as group:
            yield _Pool(group, body)
            group.cancel_scope.cancel()

    async def escalate(self, depth: int, body: Body) -> None:
        """A group in a group; each ends with the error of the one below."""

        async def level(depth: int) -> None:
            below = partial(level, depth - 1) if depth > 1 else body
            async with anyio.create_task_group() as group:
                group.start_soon(below)

        try:
            await level(depth)
        except* Boom:
            pass

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[_Server]:
        """A task and its stream."""
        server = _Server()
        async with self._each([server.serve]):
            yield server

    @asynccontextmanager
    async def servers(self, count: int, *, asynchronous: bool) -> AsyncGenerator[None]:  # noqa: ARG002
        """A task and a stream for each; handlers of both kinds are called from the task."""
        async with self._each([_Server().serve for _ in range(count)]):
            yield
