"""The floor: asyncio by hand."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

from benchmarks.floor.pool import Pool
from benchmarks.floor.server import Server
from benchmarks.floor.supervisor import GaveUp, Supervisor
from benchmarks.subject import NO_LIMIT, PERIOD, Boom, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from benchmarks.subject import Body


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _idle() -> None:
    await asyncio.get_running_loop().create_future()


@final
class Names:
    """A registry by hand: two dictionaries."""

    def __init__(self, tasks: dict[object, asyncio.Task[None]]) -> None:
        """Know `tasks` by key, and all of them under `"all"`."""
        self._by_key = tasks
        self._groups = {"all": list(tasks.values())}

    def lookup(self, key: object) -> object:
        """Find a task."""
        return self._by_key.get(key)

    def dispatch(self, key: object, fn: Callable[[Any], object]) -> None:
        """Give all tasks of a group to `fn`."""
        tasks = self._groups.get(str(key))
        if tasks:
            fn(tasks)


@final
class Floor(Subject):
    """asyncio by hand; see `benchmarks/floor`."""

    name: ClassVar[str] = "floor"

    @asynccontextmanager
    async def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody hears anything here
    ) -> AsyncGenerator[None]:
        """One task for the supervisor, one for each child."""
        supervisor = Supervisor(bodies, NO_LIMIT, PERIOD, together=together)
        task = asyncio.create_task(supervisor.run())
        await supervisor.ready
        yield
        await _cancel(task)

    @asynccontextmanager
    async def pool(self, body: Body, *, permanent: bool) -> AsyncGenerator[Pool]:
        """One task for the supervisor, one for each child."""
        pool = Pool(body, NO_LIMIT, PERIOD, permanent=permanent)
        task = asyncio.create_task(pool.run())
        yield pool
        await _cancel(task)

    async def escalate(self, depth: int, body: Body) -> None:
        """Tasks that wait for tasks; a supervisor that gives up crashes."""

        def below(depth: int) -> Body:
            return partial(self._level, below(depth - 1)) if depth else body

        with suppress(GaveUp):
            await asyncio.create_task(below(depth)())

    @staticmethod
    async def _level(body: Body) -> None:
        await Supervisor([body], 0, PERIOD).run()

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[Server]:
        """A task, a deque and a future for each reply."""
        server = Server()
        async with self.group([server.serve]):
            yield server

    @asynccontextmanager
    async def servers(self, count: int, *, asynchronous: bool) -> AsyncGenerator[None]:
        """A task and a mailbox for each."""
        all_servers = [Server() for _ in range(count)]
        bodies = [s.serve_asynchronously if asynchronous else s.serve for s in all_servers]
        async with self.group(bodies):
            yield

    @asynccontextmanager
    async def names(self, count: int) -> AsyncGenerator[Names]:
        """Two dictionaries."""
        tasks: dict[object, asyncio.Task[None]] = {
            number: asyncio.create_task(_idle()) for number in range(count)
        }
        yield Names(tasks)
        for task in tasks.values():
            await _cancel(task)

    async def monitored(self, count: int, begin: Callable[[], None]) -> None:
        """A future for each watcher, resolved by a done callback."""
        loop = asyncio.get_running_loop()
        gate: asyncio.Future[None] = loop.create_future()
        watched = asyncio.create_task(_crash_after(gate))
        heard = [loop.create_future() for _ in range(count)]
        for future in heard:
            watched.add_done_callback(future.set_result)
        begin()
        gate.set_result(None)
        for future in heard:
            await future
        watched.exception()

    async def linked(self, count: int, begin: Callable[[], None]) -> None:
        """A done callback for each, which cancels the other."""
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first = asyncio.create_task(_crash_after(gate))
        others = [asyncio.create_task(_idle()) for _ in range(count)]
        for other in others:
            first.add_done_callback(partial(_cancel_other, other))
        await asyncio.sleep(0)
        begin()
        gate.set_result(None)
        for other in others:
            with suppress(asyncio.CancelledError):
                await other
        first.exception()


async def _crash_after(gate: asyncio.Future[None]) -> None:
    await gate
    raise Boom


def _cancel_other(other: asyncio.Task[None], _: asyncio.Task[None]) -> None:
    other.cancel()
