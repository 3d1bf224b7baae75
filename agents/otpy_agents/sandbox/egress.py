"""The way out of a sandbox without a network: a socket, a relay inside, and the proof of both.

The folder of an `Egress` is all that the two sides share. Our proxy listens on a socket in it; in
the sandbox the relay hands 127.0.0.1:3128 on to that socket. The relay only makes it convenient:
what holds an agent is that there is no network, and a proxy that it cannot change.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast, final

import anyio.to_thread

from otpy_agents.errors import SandboxUnavailable, SocketUnusable
from otpy_agents.operator.place import bound
from otpy_agents.sandbox.allowlist import Allowlist, Destination
from otpy_agents.sandbox.behaviour import RELAY_PORT, Egress, Job, Running
from otpy_agents.sandbox.proxy import ConnectProxy, connect_proxy

__all__ = ["WayOut", "way_out"]

_PROOF_TIME: Final = 30.0
_LOOPBACK: Final = "127.0.0.1"
_SOCKET: Final = "proxy.sock"
_RELAY: Final = files("otpy_agents.sandbox") / "relay"
_FILES: Final = ("start.sh", "relay.py", "relay.pl", "relay.js")
_PROVED: Final = b"proved\n"
_SAID: Final = 2  # lines: what the relay says, and what follows from it


@asynccontextmanager
async def way_out(sandbox: str, job: Job) -> AsyncGenerator[WayOut | None]:
    """Return a block with the listening proxy of a job; None if the job has no `egress`.

    Args:
        sandbox: Name of the sandbox, for messages.
        job: What runs in it. An attempt of an earlier host finds the proxy where it was.

    Raises:
        SandboxUnavailable: On entering: it cannot listen there.
    """
    egress = job.egress
    if egress is None:
        yield None
        return
    allowed = Allowlist.of(egress.hosts)

    def refused(what: str) -> None:
        egress.on_refused(job.secrets(what))

    async with contextlib.AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, egress.folder, ignore_errors=True)
        try:
            await anyio.to_thread.run_sync(_fill, egress)
            place = egress.folder / _SOCKET
            listening = stack.enter_context(bound(place))
            place.chmod(0o666)  # who is inside may be another user than we
        except (OSError, SocketUnusable) as error:
            reason = f"the proxy for its hosts cannot listen: {error}"
            raise SandboxUnavailable(sandbox, reason) from error
        proxy = await stack.enter_async_context(connect_proxy(listening, allowed, refused))
        way = WayOut(sandbox, egress.folder, proxy)
        stack.callback(way.close_ports)
        yield way


@final
class WayOut:
    """A proxy that listens, and the command that uses it; made by `way_out`.

    Args:
        sandbox: Name of the sandbox, for messages.
        folder: That of the `Egress`.
        proxy: The proxy.
    """

    def __init__(self, sandbox: str, folder: Path, proxy: ConnectProxy) -> None:
        self._sandbox, self._folder, self._proxy = sandbox, folder, proxy
        self._wanted, self._on_refused = proxy.allowed, proxy.on_refused
        self._ports: list[asyncio.Server] = []
        self._proved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def around(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that starts the relay, waits for the proof, and becomes `command`.

        Until then two ports of this host are open, one of which the proxy lets through.
        """
        loop = asyncio.get_running_loop()
        for protocol in (lambda: _Witness(self._on_proved), asyncio.Protocol):
            self._ports.append(await loop.create_server(protocol, _LOOPBACK, 0))
        allowed, refused = (port.sockets[0].getsockname()[1] for port in self._ports)
        entries = self._wanted.entries | {Destination(_LOOPBACK, allowed)}
        self._proxy.allowed = Allowlist(entries)
        self._proxy.on_refused = _expected
        numbers = map(str, (RELAY_PORT, allowed, refused))
        return ("/bin/sh", str(self._folder / "start.sh"), *numbers, *command)

    async def prove(self, running: Running) -> None:
        """Wait until it is proved from inside; before that `command` does not begin.

        Proved is that a port of this host which is allowed answers through the proxy, that
        another one does not, that neither does without the proxy, and that there is no network.

        Args:
            running: What runs the command of `around`.

        Raises:
            SandboxUnavailable: It is not proved, so nothing was begun.
        """
        ended = asyncio.ensure_future(running.wait())
        try:
            either: set[asyncio.Future[Any]] = {ended, self._proved}
            await asyncio.wait(either, timeout=_PROOF_TIME, return_when=asyncio.FIRST_COMPLETED)
            if self._proved.done():
                return
            reason = f"they were not within {_PROOF_TIME:g} s"
            if ended.done():
                said = ended.result().stderr.splitlines()[-_SAID:]
                reason = "; ".join(line.removeprefix("otpy: ") for line in said) or "it ended"
            message = f"the walls around its network could not be proved: {reason}"
            raise SandboxUnavailable(self._sandbox, message)
        finally:
            ended.cancel()
            await asyncio.wait({ended})

    def close_ports(self) -> None:
        """Close what only the proof needs; nothing happens if that is done."""
        self._proxy.allowed, self._proxy.on_refused = self._wanted, self._on_refused
        for port in self._ports:
            port.close()

    def _on_proved(self) -> None:
        self.close_ports()
        if not self._proved.done():
            self._proved.set_result(None)


@final
class _Witness(asyncio.Protocol):
    """The end of the allowed port: hears that it is proved, and only then lets the command begin.

    Args:
        on_proved: Called before.
    """

    def __init__(self, on_proved: Callable[[], object]) -> None:
        self._on_proved = on_proved
        self._heard = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard += data[: len(_PROVED)]
        if self._transport is None or len(self._heard) < len(_PROVED):
            return
        if self._heard == _PROVED:
            self._on_proved()
            self._transport.write(b"go\n")
        self._transport.close()


def _expected(_: str) -> None:
    """Ignore refusals of the proof's own requests."""


def _fill(egress: Egress) -> None:
    """Make the folder, or use that of an earlier host, and put the relay there.

    The folder stays the same, because a container has mounted this one.
    """
    egress.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    egress.folder.chmod(0o755)
    for name in _FILES:
        path = egress.folder / name
        # A new file: an attempt may have put a link in its place.
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            file.write(_RELAY.joinpath(name).read_bytes())
        path.chmod(0o644)
