"""The protocol of a sandbox: the place of one attempt, with its limits and its certain end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from attrs import Attribute, field, frozen

from otpy_agents.errors import InvalidJob
from otpy_agents.process.orphans import Recorded
from otpy_agents.process.process import ExitStatus
from otpy_agents.sandbox.allowlist import ALLOWED_HOST, allowed_host
from otpy_agents.sandbox.launch import Launch
from otpy_agents.sandbox.output import OUTPUT_LIMIT
from otpy_agents.store.redaction import Redaction

__all__ = [
    "ContainerIdentity",
    "Egress",
    "Ended",
    "Identity",
    "Job",
    "LeftOver",
    "PROXY_VARIABLES",
    "RELAY_PORT",
    "SandboxLimits",
    "Listener",
    "Mount",
    "Running",
    "Sandbox",
]

RELAY_PORT: Final = 3128
"""The port on 127.0.0.1 at which an attempt with an `Egress` finds the way out."""

PROXY_VARIABLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
        f"http://127.0.0.1:{RELAY_PORT}",
    ),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
    # Node.js obeys the others only when told to.
    "NODE_USE_ENV_PROXY": "1",
}
"""What tells programs so."""

Listener = Callable[[str], object]
"""Called with each line, without its line feed and without secrets."""


def _absolute(_: object, attribute: Attribute[Path], value: Path | None) -> None:
    if value is not None and not value.is_absolute():
        raise InvalidJob(attribute.name, f"'{value}'", "an absolute path")


def _positive(_: object, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not value > 0:
        raise InvalidJob(attribute.name, repr(value), "a number above 0, or None")


def _not_negative(_: object, attribute: Attribute[float], value: float) -> None:
    if not value >= 0:
        raise InvalidJob(attribute.name, repr(value), "0 or more seconds")


def _startable(_: object, attribute: Attribute[Launch], value: Launch) -> None:
    if not value.argv:
        raise InvalidJob(f"{attribute.name}.argv", "no words", "a program and its arguments")


def _marked(_: object, attribute: Attribute[Mapping[str, str]], value: Mapping[str, str]) -> None:
    if not value:
        raise InvalidJob(attribute.name, "nothing", "variables that no other attempt has")


@frozen(kw_only=True)
class SandboxLimits:
    """What an attempt may use; None is no limit. Not every sandbox can hold each of them.

    Attributes:
        memory: Bytes: of all together in a container, of each process elsewhere.
        cpus: Processors' worth of time at any moment, for example 1.5; containers only.
        pids: Processes and threads; containers only.
        cpu_seconds: Seconds of processor time of each process, which then gets SIGXCPU.
        open_files: Open files of each process.
        grace: Seconds between the request to end and the kill.
    """

    memory: int | None = field(default=None, validator=_positive)
    cpus: float | None = field(default=None, validator=_positive)
    pids: int | None = field(default=None, validator=_positive)
    cpu_seconds: int | None = field(default=None, validator=_positive)
    open_files: int | None = field(default=None, validator=_positive)
    grace: float = field(default=5.0, validator=_not_negative)


@frozen
class Mount:
    """A folder or file of the host that the attempt may see.

    Attributes:
        source: Where it is on the host.
        target: Where it is for the attempt; None for the same place.
        writable: Whether the attempt may change it.
    """

    source: Path = field(validator=_absolute)
    target: Path | None = field(default=None, validator=_absolute)
    writable: bool = field(default=False, kw_only=True)

    @property
    def place(self) -> Path:
        """Where the attempt finds it."""
        return self.target if self.target is not None else self.source


def _allowable(_: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for text in value:
        if allowed_host(text) is None:
            raise InvalidJob(f"egress.{attribute.name}", repr(text), ALLOWED_HOST)


def _deaf(_: str) -> None:
    """Hear nothing."""


@frozen(kw_only=True)
class Egress:
    """The only way out of a sandbox that has no network: a proxy of ours, to the hosts of a list.

    Attributes:
        hosts: What is let through, each as `allowed_host` reads it; without a port it is 443. A
            name that leads to an address which is not public needs that address in the list too.
        folder: Where the proxy listens and the relay lies; for this attempt alone, and kept for a
            host that adopts it. It is made, and removed at the end. Its parent should be private:
            within it anybody may connect.
        on_refused: Called with half a sentence for what was refused, without secrets.
    """

    hosts: tuple[str, ...] = field(validator=_allowable)
    folder: Path = field(validator=_absolute)
    on_refused: Listener = _deaf


@frozen(kw_only=True)
class Job:
    """The job of one attempt: its command and its surroundings.

    Attributes:
        run_id: The run.
        attempt: Its number, from 1.
        launch: The command, its variables, and files that are written before the start.
        cwd: Work directory on the host; writable, and at the same place for the attempt.
        environment: The complete environment but for those of `launch` and `marker`.
        marker: Variables that everything this attempt starts carries, and labels of its container.
            What is left of it is found by them, so no other attempt may have all of them.
        limits: Its limits.
        network: Whether it reaches the network; the sandbox `process` cannot hold it off.
        egress: What it reaches of the network instead, whatever `network` says; None for nothing
            but that. The sandbox `process` cannot hold it and refuses it.
        mounts: More of the host to be seen. The work directory, `artifacts` and the folders of
            `launch.files` are seen anyway and may be written.
        artifacts: Folder for its artifacts, made if missing; the job finds it in `OTPY_ARTIFACTS`.
        output_limit: Bytes of output that are kept.
        secrets: Cleans each line of output before it is passed on.
        record: File for its exit, as in `spawn`; outside of what it may write.
    """

    run_id: str
    attempt: int
    launch: Launch = field(validator=_startable)
    cwd: Path = field(validator=_absolute)
    environment: Mapping[str, str]
    marker: Mapping[str, str] = field(validator=_marked)
    limits: SandboxLimits = field(factory=SandboxLimits)
    network: bool = True
    egress: Egress | None = None
    mounts: tuple[Mount, ...] = ()
    artifacts: Path | None = field(default=None, validator=_absolute)
    output_limit: int = field(default=OUTPUT_LIMIT, validator=_positive)
    secrets: Redaction = field(factory=lambda: Redaction({}))
    record: Path | None = field(default=None, validator=_absolute)

    @property
    def variables(self) -> dict[str, str]:
        """The environment that the command gets."""
        folder = {} if self.artifacts is None else {"OTPY_ARTIFACTS": str(self.artifacts)}
        proxy = {} if self.egress is None else PROXY_VARIABLES
        return {**self.environment, **self.launch.environment, **proxy, **folder, **self.marker}

    @property
    def has_network(self) -> bool:
        """Whether it reaches all of the network."""
        return self.network and self.egress is None

    @property
    def all_mounts(self) -> tuple[Mount, ...]:
        """The mounted parts of the host, outer folders first; `mounts` win over the others."""
        folders = {self.cwd, *(file.parent for file in self.launch.files)}
        if self.artifacts is not None:
            folders.add(self.artifacts)
        places = {folder: Mount(folder, writable=True) for folder in folders}
        places.update({mount.place: mount for mount in self.mounts})
        if self.egress is not None:
            places[self.egress.folder] = Mount(self.egress.folder)
        return tuple(places[place] for place in sorted(places))


@frozen
class ContainerIdentity:
    """A container, as the engine that runs it names it."""

    id: str


Identity = Recorded | ContainerIdentity
"""What an attempt can be found by later: plain data to be stored while it runs."""


@frozen
class LeftOver:
    """Something that an attempt, or a host that is gone, left running.

    Attributes:
        name: Short name of the program, or name of the container.
        identity: Its identity.
    """

    name: str
    identity: Identity

    def __str__(self) -> str:
        if isinstance(self.identity, ContainerIdentity):
            return f"{self.name} (container {self.identity.id[:12]})"
        return f"{self.name} (pid {self.identity.pid})"


@frozen(kw_only=True)
class Ended:
    """How an attempt ended, and what there is of it.

    Attributes:
        exit_code: As the standard library gives it (negative for a signal) or as a shell does (128
            and the signal); None if it is unknown, which is not a success (C-37).
        container_state: `State` of its container as the engine shows it; None if it had none, or
            if the engine does not answer any more.
        stdout: Standard output as far as it is kept.
        stderr: The error stream as far as it is kept.
        cut: Bytes of output that were not kept.
        left_over: Processes that it had started and left running, ended since; known in the sandbox
            `process` only, because elsewhere the kernel ends them at once.
        artifacts: Names of the files in the folder of artifacts, relative to it, sorted.
    """

    exit_code: int | None
    container_state: Mapping[str, object] | None = None
    stdout: str = ""
    stderr: str = ""
    cut: int = 0
    left_over: tuple[LeftOver, ...] = ()
    artifacts: tuple[str, ...] = ()

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended it, if the exit code tells; for example `SIGKILL`."""
        return ExitStatus.of(self.exit_code).signal if self.exit_code is not None else None


class Running(Protocol):
    """An attempt that was started, inside its block."""

    @property
    def identity(self) -> Identity:
        """Its identity, to find it after a crash of the host; to be stored at once."""
        ...

    @property
    def output_bytes(self) -> int:
        """Bytes it has written so far."""
        ...

    @property
    def quiet(self) -> float:
        """Seconds since it last wrote something, or was started."""
        ...

    @property
    def survivors(self) -> tuple[LeftOver, ...]:
        """What could not be ended in time; known when the block is left, and normally empty."""
        ...

    async def wait(self) -> Ended:
        """Wait until it has ended, and end whatever it left; may be asked again.

        Cancellation only stops the waiting.
        """
        ...

    async def stop(self) -> None:
        """Ask it to end, kill it after `limits.grace` seconds, and wait until that is done.

        Cancellation does not stop it; it cuts the grace and is delivered at the end.

        Raises:
            EngineError: The container engine refuses, or does not answer.
        """
        ...

    async def kill(self) -> None:
        """Kill it at once, also while it is being stopped, and wait until that is done.

        Cancellation is delivered at the end.

        Raises:
            EngineError: As for `stop`.
        """
        ...


class Sandbox(Protocol):
    """A kind of place for attempts; a value without state.

    Attributes:
        name: Name in commands and records.
        inherits: Whether a job's environment begins with the host's own. A container has a
            `PATH` and a `HOME` of its own.
    """

    name: ClassVar[str]
    inherits: ClassVar[bool]

    async def check(self) -> None:
        """Find out whether attempts can run in it here; nothing is started that stays.

        Raises:
            SandboxUnavailable: They cannot; the message is one line.
        """
        ...

    def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AbstractAsyncContextManager[Running]:
        """Return a block that runs one attempt; when it has been left, nothing of it is alive.

        That holds however the block is left, and for a cancellation at any point of entering,
        being in or leaving it. Leaving takes `limits.grace` and a few seconds at most; a
        cancellation meanwhile cuts the grace.

        Raises:
            InvalidJob: The sandbox cannot hold one of its limits; raised by the call itself.
            SandboxUnavailable: On entering; nothing was started.
            SpawnFailed: On entering: the command could not be started.
        """
        ...

    def adopt(
        self, identity: Identity, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AbstractAsyncContextManager[Running]:
        """Return a block that goes on with an attempt that an earlier host started.

        Listeners hear its output from the beginning. Of `job` the command does not matter.

        Raises:
            CannotAdopt: On entering: it is gone, or of a kind that dies with its host. What may be
                left of it is ended by `clear`.
            SandboxUnavailable: On entering.
        """
        ...

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """Return what there is of attempts whose marker includes this one, oldest first.

        An empty marker finds nothing.

        Raises:
            SandboxUnavailable: The sandbox does not answer.
        """
        ...

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        """End and remove whatever `find` finds and whatever of `recorded` is still there.

        Cancellation stops it in the middle and does no harm: it can be called again.

        Returns:
            What was found, oldest first.

        Raises:
            SandboxUnavailable: The sandbox does not answer.
        """
        ...
