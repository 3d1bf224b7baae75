"""A proxy that lets a sandbox out to the hosts of a list: `CONNECT`, and nothing else.

It sees no content, because the traffic is encrypted between the two ends. Names are resolved
here, and the very address that was judged is connected to, so an answer of the name service that
changes in between gains nothing.

Nothing a client does can end it or make it hold more than a little: a head that is too long or too
slow, a tunnel in which nothing happens, and too many connections are all turned away.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

from attrs import frozen

from otpy_agents.completion import to_completion
from otpy_agents.operator.server import drop
from otpy_agents.sandbox.allowlist import Allowlist, Destination, authority

__all__ = ["ConnectProxy", "ProxyLimits", "connect_proxy"]

_CHUNK: Final = 65536
_SHOWN: Final = 200  # characters of a strange request that are told
_TOLD: Final = 100  # different refusals that are told of one attempt


@frozen(kw_only=True)
class ProxyLimits:
    """The limits of one proxy for its clients.

    Attributes:
        head: Bytes of a request.
        patience: Seconds for the whole request, for each connection to a host, and for the answer.
        idle: Seconds without a byte in either direction after which a tunnel is closed. Agents
            wait for minutes for the first word of an answer.
        clients: Connections at the same time.
    """

    head: int = 8192
    patience: float = 20.0
    idle: float = 900.0
    clients: int = 128


@asynccontextmanager
async def connect_proxy(
    listening: socket.socket,
    allowed: Allowlist,
    on_refused: Callable[[str], object],
    limits: ProxyLimits | None = None,
) -> AsyncGenerator[ConnectProxy]:
    """Return a block in which a proxy serves its clients; the end of the block drops them all.

    Args:
        listening: A bound unix socket.
        allowed: The targets to let through.
        on_refused: Called with half a sentence, as `asked for a.example:443, which is not
            allowed`, for each thing that is refused, the first time; at most a hundred.
        limits: Its limits for clients; None for the defaults.
    """
    proxy = ConnectProxy(allowed, on_refused, limits or ProxyLimits())
    server = await asyncio.start_unix_server(
        proxy.on_client, sock=listening, limit=proxy.limits.head
    )
    try:
        yield proxy
    finally:
        server.close()
        await to_completion(proxy.drop_all())


@final
class ConnectProxy:
    """A proxy at work; made by `connect_proxy`.

    Attributes:
        allowed: The targets to let through from now on.
        on_refused: Is told of what is refused from now on.
        limits: Its limits for clients.
    """

    def __init__(
        self,
        allowed: Allowlist,
        on_refused: Callable[[str], object],
        limits: ProxyLimits,
    ) -> None:
        self.allowed, self.on_refused, self.limits = allowed, on_refused, limits
        self._open = True
        self._clients: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()

    def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a new client in, or turn it away."""
        if not self._open or len(self._clients) >= self.limits.clients:
            drop(writer)
        else:
            task = asyncio.create_task(self._serve(reader, writer), name="way out")
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def drop_all(self) -> None:
        """Drop all clients, and take no more in."""
        self._open = False
        clients = set(self._clients)
        for task in clients:
            task.cancel()
        if clients:
            await asyncio.wait(clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        try:
            if refusal := await self._asked(reader, writer):
                writer.write(refusal)
            await self._close(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two ends has gone, or does not go on
        except Exception as error:  # noqa: BLE001 - one client must never end the others
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a connection of a sandbox broke", "exception": error}
            )
        finally:
            drop(writer)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Serve the client's request; return the text of a refusal, or nothing."""
        try:
            async with asyncio.timeout(self.limits.patience):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _answer("431 Request too long", f"wanted {self.limits.head} bytes at most")
        line = head.partition(b"\r\n")[0].decode("latin-1")
        method, _, rest = line.partition(" ")
        asked, _, version = rest.rpartition(" ")
        if not version.startswith("HTTP/1."):
            return _answer("400 Bad request", "wanted CONNECT HOST:PORT HTTP/1.1")
        if method != "CONNECT":
            self._tell(f"asked for {_shown(asked)} without encryption, which is not allowed")
            return _answer("405 Only CONNECT", "only encrypted connections are let through")
        target = authority(asked)
        if target is None or not self.allowed.names(target):
            shown = _shown(asked) if target is None else str(target)
            self._tell(f"asked for {shown}, which is not allowed")
            return _answer("403 Forbidden", f"{shown} is not allowed")
        return await self._let_through(target, reader, writer)

    async def _let_through(
        self, target: Destination, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Connect a client with a host of the list."""
        try:
            async with asyncio.timeout(self.limits.patience):
                addresses = await _addresses(target)
        except OSError as error:
            return _answer("502 Unreachable", f"{target}: {str(error) or 'no answer'}")
        fit = [one for one in addresses if self.allowed.reaches(one, target.port)]
        if not fit:
            where = f"{target}, which leads to {', '.join(addresses[:3])}"
            self._tell(f"asked for {where}, and that is not allowed")
            return _answer("403 Forbidden", where)
        reason = ""
        for address in fit:
            try:
                async with asyncio.timeout(self.limits.patience):
                    theirs, ours = await asyncio.open_connection(address, target.port)
            except OSError as error:
                reason = str(error) or "no answer"
                continue
            try:
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                await self._tunnel((reader, ours), (theirs, writer))
                await self._close(ours)
            finally:
                drop(ours)
            return b""
        return _answer("502 Unreachable", f"{target}: {reason}")

    async def _tunnel(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Carry bytes in both directions until both have ended, or nothing happens any more."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.limits.idle) as idle:

            async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while data := await reader.read(_CHUNK):
                    idle.reschedule(loop.time() + self.limits.idle)
                    writer.write(data)
                    await writer.drain()
                writer.write_eof()

            try:
                async with asyncio.TaskGroup() as group:
                    for reader, writer in ways:
                        group.create_task(carry(reader, writer))
            except* OSError:
                pass  # one of the two ends has gone

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close a connection after its written data has gone out."""
        writer.close()
        async with asyncio.timeout(self.limits.patience):
            await writer.wait_closed()

    def _tell(self, refusal: str) -> None:
        """Tell a refusal the first time; a repeated request is nothing new."""
        if refusal not in self._told and len(self._told) < _TOLD:
            self._told.add(refusal)
            self.on_refused(refusal)


async def _addresses(target: Destination) -> list[str]:
    """Return the addresses of a host, the best first."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _answer(status: str, reason: str) -> bytes:
    body = f"{reason}\n".encode(errors="replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def _shown(text: str) -> str:
    """Return a strange request as people can be shown it."""
    return ascii(text)[1:-1][:_SHOWN]
