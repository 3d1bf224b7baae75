"""The sandbox `bubblewrap`: the host read-only, only declared paths writable."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final, final

from attrs import frozen

from otpy_agents.errors import SandboxUnavailable, SpawnFailed
from otpy_agents.process.process import spawn
from otpy_agents.sandbox.behaviour import Identity, Job, LeftOver, Listener, Mount, Running
from otpy_agents.sandbox.egress import way_out
from otpy_agents.sandbox.process import (
    clear_processes,
    find_processes,
    refuse_adoption,
    start,
)
from otpy_agents.sandbox.rlimits import limited, require_holdable

__all__ = ["BubblewrapSandbox"]

_PROBE_TIME: Final = 10.0


@final
@frozen
class BubblewrapSandbox:
    """Runs an attempt in namespaces of its own, made by the program `bwrap`.

    It sees the files of the host but can change only its work directory and what is declared
    writable; `/tmp` is its own and empty, and without `network` there is none. Its processes have a
    process namespace of their own: when its first process ends, or the host does, the kernel kills
    all others, whatever they did to their environment, session or signals. From outside they are
    seen with their environment, so the sweep by marker works as everywhere.

    An exit by a signal is told as 128 and the signal.
    """

    name: ClassVar[str] = "bubblewrap"
    inherits: ClassVar[bool] = True

    async def check(self) -> None:
        """Run `true` in a sandbox, which some systems and containers forbid.

        Raises:
            SandboxUnavailable: It did not succeed; the message is what `bwrap` said.
        """
        said: list[str] = []
        argv = _wrap(("true",), Path("/"), (), network=False)
        probe = spawn(argv, cwd=Path("/"), env=dict(os.environ), grace=0.0, on_line=said.append)
        try:
            async with asyncio.timeout(_PROBE_TIME), probe:
                status = await probe.wait()
        except SpawnFailed as error:
            hint = "wanted the program bwrap; install the package bubblewrap"
            raise SandboxUnavailable(self.name, hint) from error
        except TimeoutError as error:
            message = f"bwrap did not end within {_PROBE_TIME:g} s"
            raise SandboxUnavailable(self.name, message) from error
        if not status.succeeded:
            message = f"bwrap cannot work here: {said[-1] if said else status}"
            raise SandboxUnavailable(self.name, message)

    def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AbstractAsyncContextManager[Running]:
        """See `Sandbox.run`."""
        require_holdable(job, self.name)
        return self._run(job, on_stdout=on_stdout, on_stderr=on_stderr)

    @asynccontextmanager
    async def _run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        command = limited(job.launch.argv, job.limits)
        async with way_out(self.name, job) as way:
            if way is not None:
                command = await way.around(command)
            argv = _wrap(command, job.cwd, job.all_mounts, network=job.has_network)
            async with start(
                job, argv, on_stdout=on_stdout, on_stderr=on_stderr, wrapped=True
            ) as running:
                if way is not None:
                    await way.prove(running)
                yield running

    def adopt(
        self,
        identity: Identity,
        job: Job,  # noqa: ARG002 - no job is adopted
        *,
        on_stdout: Listener,  # noqa: ARG002
        on_stderr: Listener,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[Running]:
        """See `Sandbox.adopt`; always `CannotAdopt`, because it dies with its host."""
        return refuse_adoption(self.name, identity)

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """See `Sandbox.find`."""
        return await find_processes(marker)

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        """See `Sandbox.clear`."""
        return await clear_processes(marker, recorded, grace)


def _wrap(
    command: tuple[str, ...], cwd: Path, mounts: Iterable[Mount], *, network: bool
) -> tuple[str, ...]:
    """Return the command line of `bwrap`; later mounts lie over earlier ones."""
    argv = ["bwrap", "--unshare-all", "--die-with-parent"]
    if network:
        argv.append("--share-net")
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108
    # Where the host wants temporary files may be read-only in there.
    argv += ["--setenv", "TMPDIR", "/tmp"]  # noqa: S108
    for mount in mounts:
        kind = "--bind" if mount.writable else "--ro-bind"
        argv += [kind, str(mount.source), str(mount.place)]
    return (*argv, "--chdir", str(cwd), "--", *command)
