"""The sandbox `process`: a session of its own, limits per process, and a certain end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, final

import anyio.to_thread
from attrs import frozen

from otpy_agents.errors import CannotAdopt, InvalidJob
from otpy_agents.process import orphans
from otpy_agents.process.orphans import Orphan, Recorded
from otpy_agents.process.process import WorkerProcess, spawn
from otpy_agents.sandbox.behaviour import Ended, Identity, Job, LeftOver, Listener, Running
from otpy_agents.sandbox.output import Output
from otpy_agents.sandbox.place import artifacts_of, prepare, require_program
from otpy_agents.sandbox.rlimits import limited, require_holdable

__all__ = ["ProcessSandbox", "clear_processes", "find_processes", "refuse_adoption", "start"]


@final
@frozen
class ProcessSandbox:
    """Runs an attempt as a process of the host, in a session of its own; the default.

    It separates nothing: the attempt sees the files and the network of its user. Everything it
    starts is ended with it, as far as it can be recognised (see `orphans`). It cannot be adopted:
    when its host dies, its guardian ends it within 5 s.
    """

    name: ClassVar[str] = "process"
    inherits: ClassVar[bool] = True

    async def check(self) -> None:
        """Always possible."""

    def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AbstractAsyncContextManager[Running]:
        """See `Sandbox.run`."""
        require_holdable(job, self.name)
        if job.egress is not None:
            wanted = "None: nothing holds the rest of the network off, 'bubblewrap' and 'docker' do"
            raise InvalidJob("egress", f"hosts in the sandbox {self.name!r}", wanted)
        argv = limited(job.launch.argv, job.limits)
        return start(job, argv, on_stdout=on_stdout, on_stderr=on_stderr)

    def adopt(
        self,
        identity: Identity,
        job: Job,  # noqa: ARG002 - no job is adopted
        *,
        on_stdout: Listener,  # noqa: ARG002
        on_stderr: Listener,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[Running]:
        """See `Sandbox.adopt`; always `CannotAdopt`."""
        return refuse_adoption(self.name, identity)

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """See `Sandbox.find`."""
        return await find_processes(marker)

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        """See `Sandbox.clear`."""
        return await clear_processes(marker, recorded, grace)


@asynccontextmanager
async def start(
    job: Job,
    argv: Sequence[str],
    *,
    on_stdout: Listener,
    on_stderr: Listener,
    wrapped: bool = False,
) -> AsyncGenerator[Running]:
    """Run `argv`, which begins the command of `job` in whatever it needs around it.

    Args:
        job: The job to run.
        argv: The command line that does it.
        on_stdout: As in `Sandbox.run`.
        on_stderr: As in `Sandbox.run`.
        wrapped: As in `spawn`.
    """
    if tuple(argv) != job.launch.argv:
        require_program(job)
    await prepare(job)
    output = Output(
        limit=job.output_limit, secrets=job.secrets, on_stdout=on_stdout, on_stderr=on_stderr
    )
    worker = spawn(
        argv,
        cwd=job.cwd,
        env=job.variables,
        grace=job.limits.grace,
        on_output=(output.take_stdout, output.take_stderr),
        marker=job.marker,
        wrapped=wrapped,
        record=job.record,
        stdin=job.launch.stdin,
    )
    try:
        async with worker:
            yield _RunningProcess(job, worker, output)
    finally:
        output.finish()


@final
class _RunningProcess:
    """An attempt that is a process; see `Running`."""

    def __init__(self, job: Job, worker: WorkerProcess, output: Output) -> None:
        self._job, self._worker, self._output = job, worker, output
        self._ended: Ended | None = None
        self.identity: Identity = Recorded(worker.pid, worker.create_time)

    @property
    def output_bytes(self) -> int:
        return self._output.seen

    @property
    def quiet(self) -> float:
        return self._worker.quiet

    @property
    def survivors(self) -> tuple[LeftOver, ...]:
        return _left_over(self._worker.survivors)

    async def wait(self) -> Ended:
        await self._worker.wait()
        if self._ended is None:
            # Now, and not when the block is left: what it left may still hold its work directory.
            await self._worker.terminate_group()
            artifacts = await artifacts_of(self._job)
            self._output.finish()
            self._ended = Ended(
                exit_code=self._worker.exit_code,
                stdout=self._output.stdout,
                stderr=self._output.stderr,
                cut=self._output.cut,
                left_over=_left_over(self._worker.left_over),
                artifacts=artifacts,
            )
        return self._ended

    async def stop(self) -> None:
        await self._worker.terminate_group()

    async def kill(self) -> None:
        self._worker.kill_group()
        self._worker.cut_grace()
        await self._worker.terminate_group()


async def find_processes(marker: Mapping[str, str]) -> tuple[Identity, ...]:
    """Return the processes that carry `marker`, oldest first."""
    found = await anyio.to_thread.run_sync(orphans.find, marker)
    return tuple(Recorded(orphan.pid, orphan.create_time) for orphan in found)


async def clear_processes(
    marker: Mapping[str, str], recorded: Iterable[Identity], grace: float
) -> tuple[LeftOver, ...]:
    """End the processes that carry `marker`, and the recorded ones with their sessions."""
    known = [identity for identity in recorded if isinstance(identity, Recorded)]
    return _left_over(await orphans.end(marker, grace, recorded=known))


@asynccontextmanager
async def refuse_adoption(sandbox: str, identity: Identity) -> AsyncGenerator[Running]:
    """Raise `CannotAdopt` on entering: a process is ended by its guardian when its host dies."""
    await asyncio.sleep(0)
    raise CannotAdopt(sandbox, str(identity), "a process cannot outlive the host that reads it")
    yield  # pragma: no cover - makes this a generator


def _left_over(found: Iterable[Orphan]) -> tuple[LeftOver, ...]:
    return tuple(
        LeftOver(orphan.name, Recorded(orphan.pid, orphan.create_time)) for orphan in found
    )
