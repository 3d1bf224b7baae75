"""A child that does what a test tells it, so that the test can act as a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, cast

from anyio.abc import TaskStatus

from otpy import ChildSpec, DynamicSupervisor, Process, Restart, Supervisor

_T = TypeVar("_T")
_Job: TypeAlias = "tuple[Callable[[], Awaitable[object]], asyncio.Future[object]]"


class Actor:
    """Runs functions inside one process."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[_Job | None] = asyncio.Queue()
        self.process: Process

    async def tell(self, job: Callable[[], Awaitable[object]]) -> None:
        """Let the process do `job` without waiting for it."""
        await self.jobs.put((job, asyncio.get_running_loop().create_future()))

    async def ask(self, job: Callable[[], Awaitable[_T]]) -> _T:
        """Let the process do `job`; return what it returned, or raise what it raised."""
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        await self.jobs.put((job, done))
        return cast("_T", await done)

    async def call(self, job: Callable[[], _T]) -> _T:
        """Let the process call a plain function."""

        async def called() -> _T:
            return job()

        return await self.ask(called)

    async def end(self) -> None:
        """Let the process return, and wait for its end."""
        await self.jobs.put(None)
        await self.process.wait()


async def act(*, task_status: TaskStatus[Actor]) -> None:
    """Run an actor; the caller of a job gets what the job raises."""
    actor = Actor()
    task_status.started(actor)
    while True:
        wanted = await actor.jobs.get()
        if wanted is None:
            return
        job, done = wanted
        try:
            result = await job()
        except Exception as error:  # noqa: BLE001
            done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)


async def actor(
    supervisor: Supervisor | DynamicSupervisor,
    id: str = "actor",
    restart: Restart = Restart.TEMPORARY,
) -> Actor:
    """Start an actor under `supervisor`."""
    process = await supervisor.start_child(ChildSpec(id, act, restart=restart))
    assert process is not None
    assert isinstance(process.value, Actor)
    process.value.process = process
    return process.value
