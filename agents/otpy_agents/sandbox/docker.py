"""The sandbox `docker`: a fresh container for each attempt, of Docker or podman."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, final

from attrs import field, frozen

from otpy_agents.docker.engine import DockerEngine, connect
from otpy_agents.errors import CannotAdopt, EngineError, SandboxUnavailable
from otpy_agents.sandbox.behaviour import (
    ContainerIdentity,
    Identity,
    Job,
    LeftOver,
    Listener,
    Running,
    SandboxLimits,
)
from otpy_agents.sandbox.container import RunningContainer
from otpy_agents.sandbox.egress import way_out
from otpy_agents.sandbox.launch import Launch
from otpy_agents.sandbox.place import prepare

__all__ = ["DockerSandbox"]

_SCHEME: Final = "unix://"
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_.-]+")
_NANO: Final = 1_000_000_000


def _socket() -> Path:
    """Return where the engine listens, as Docker's own tools find it."""
    host = os.environ.get("DOCKER_HOST", "")
    return (
        Path(host.removeprefix(_SCHEME)) if host.startswith(_SCHEME) else Path("/run/docker.sock")
    )


@final
@frozen
class DockerSandbox:
    """Runs an attempt in a container of its own, which is removed at the end.

    Folders of the host are mounted at the same places, so that the command means the same. The
    image's own entry point is not used. The container outlives a crash of the host and can be
    adopted by the next one.

    Attributes:
        image: Image that has the agent's program; fetched if it is not there (RUN-04).
        socket: Where the engine listens; by default the unix socket of `DOCKER_HOST`, or
            `/run/docker.sock`.
        user: User inside, as `docker run --user`; None for that of the image.
        init: Whether the engine puts its own small first process before the command. Without it
            many programs do not hear a request to end.
        auto_remove: Whether the container is removed at the end (RUN-11); otherwise it is only
            ended, to be looked at, and `clear` removes it.
    """

    image: str
    socket: Path = field(factory=_socket)
    user: str | None = field(default=None, kw_only=True)
    init: bool = field(default=True, kw_only=True)
    auto_remove: bool = field(default=True, kw_only=True)

    name: ClassVar[str] = "docker"
    inherits: ClassVar[bool] = False

    async def check(self) -> None:
        """See `Sandbox.check`; the image is looked for when an attempt begins."""
        async with self._engine():
            pass

    @asynccontextmanager
    async def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        """See `Sandbox.run`; all limits hold."""
        async with self._engine() as engine, way_out(self.name, job) as way:
            await self._require_image(engine)
            await prepare(job)
            command = _fed(job.launch)
            if way is not None:
                command = await way.around(command)
            container = RunningContainer(
                engine,
                job,
                name=_name(job),
                body=self._body(job, command),
                remove=self.auto_remove,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            )
            async with container:
                if way is not None:
                    await way.prove(container)
                yield container

    @asynccontextmanager
    async def adopt(
        self, identity: Identity, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        """See `Sandbox.adopt`; also a container that has ended meanwhile is adopted."""
        if not isinstance(identity, ContainerIdentity):
            raise CannotAdopt(self.name, str(identity), "it is not a container")
        async with self._engine() as engine:
            try:
                state = await engine.state(identity.id)
            except EngineError as error:
                raise SandboxUnavailable(self.name, str(error)) from error
            if state is None or state.get("Status") == "created":
                reason = "it is gone" if state is None else "it was never started"
                raise CannotAdopt(self.name, str(identity), reason)
            container = RunningContainer(
                engine,
                job,
                id=identity.id,
                name=identity.id,
                body=None,
                remove=self.auto_remove,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            )
            # What is proved stays so: a container keeps its network, and the list is held here.
            async with way_out(self.name, job), container:
                yield container

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """See `Sandbox.find`."""
        return tuple(one.identity for one in await self._find(marker))

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        """See `Sandbox.clear`; those that run are asked to end first, all at once."""
        found = {one.identity: one for one in await self._find(marker)}
        for identity in recorded:
            if isinstance(identity, ContainerIdentity) and identity not in found:
                found[identity] = LeftOver("container", identity)
        async with self._engine() as engine:

            async def end(id: str) -> bool:
                known = await engine.state(id) is not None
                await engine.stop(id, grace)
                await engine.remove(id)
                return known

            try:
                async with asyncio.TaskGroup() as group:
                    ends = {
                        one: group.create_task(end(one.identity.id))
                        for one in found.values()
                        if isinstance(one.identity, ContainerIdentity)
                    }
            except ExceptionGroup as errors:
                raise SandboxUnavailable(self.name, str(errors.exceptions[0])) from errors
        return tuple(one for one, ended in ends.items() if ended.result())

    async def _find(self, marker: Mapping[str, str]) -> list[LeftOver]:
        if not marker:
            return []
        async with self._engine() as engine:
            try:
                found = await engine.containers(marker)
            except EngineError as error:
                raise SandboxUnavailable(self.name, str(error)) from error
        return [LeftOver(name, ContainerIdentity(number)) for number, name in found]

    @asynccontextmanager
    async def _engine(self) -> AsyncGenerator[DockerEngine]:
        async with AsyncExitStack() as stack:
            try:
                engine = await stack.enter_async_context(connect(self.socket))
            except EngineError as error:
                reason = f"no container engine answers at {self.socket}: {error.reason}"
                raise SandboxUnavailable(self.name, reason) from error
            yield engine

    async def _require_image(self, engine: DockerEngine) -> None:
        try:
            if not await engine.has_image(self.image):
                await engine.pull(self.image)
        except EngineError as error:
            reason = f"image {self.image!r} is not there and cannot be fetched: {error.reason}"
            raise SandboxUnavailable(self.name, reason) from error

    def _body(self, job: Job, argv: tuple[str, ...]) -> dict[str, Any]:
        """Return the container to create, as the engine wants it, with the command it runs."""
        limits = job.limits
        host: dict[str, Any] = {
            "Init": self.init,
            # Whatever this machine logs with elsewhere: the log is read from its beginning.
            "LogConfig": {"Type": "json-file"},
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": str(mount.source),
                    "Target": str(mount.place),
                    "ReadOnly": not mount.writable,
                }
                for mount in job.all_mounts
            ],
            "NetworkMode": "default" if job.has_network else "none",
            "Ulimits": _ulimits(limits),
        }
        if limits.memory is not None:
            # With swap it would not end but become slow.
            host |= {"Memory": limits.memory, "MemorySwap": limits.memory}
        if limits.cpus is not None:
            host["NanoCpus"] = round(limits.cpus * _NANO)
        if limits.pids is not None:
            host["PidsLimit"] = limits.pids
        body: dict[str, Any] = {
            "Image": self.image,
            "Entrypoint": list(argv[:1]),
            "Cmd": list(argv[1:]),
            "Env": [f"{name}={value}" for name, value in job.variables.items()],
            "WorkingDir": str(job.cwd),
            "Labels": {
                **job.marker,
                "otpy.run": job.run_id,
                "otpy.attempt": str(job.attempt),
                "otpy.started": datetime.now(UTC).isoformat(),  # noqa: TID251 - for people
            },
            "HostConfig": host,
        }
        if self.user is not None:
            body["User"] = self.user
        return body


def _fed(launch: Launch) -> tuple[str, ...]:
    """Return a command that has its file as standard input.

    The shell of the image opens the file and becomes the command. To attach to the container and
    feed it from here would tie its input to the life of this host.
    """
    if launch.stdin is None:
        return launch.argv
    return ("/bin/sh", "-c", 'exec "$@" <"$0"', str(launch.stdin), *launch.argv)


def _ulimits(limits: SandboxLimits) -> list[dict[str, Any]]:
    wanted = {"cpu": limits.cpu_seconds, "nofile": limits.open_files}
    return [
        {"Name": name, "Soft": value, "Hard": value}
        for name, value in wanted.items()
        if value is not None
    ]


def _name(job: Job) -> str:
    """Return a name that is new and tells people whose container it is."""
    run = _UNFIT.sub("-", job.run_id)
    return f"otpy-{run}-{job.attempt}-{uuid.uuid4().hex[:8]}"
