"""The proxy for sandboxes on a real socket, with well-meaning and with other clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from otpy_agents.operator.place import bound
from otpy_agents.sandbox import proxy as proxy_module
from otpy_agents.sandbox.allowlist import Allowlist, Destination
from otpy_agents.sandbox.proxy import ConnectProxy, ProxyLimits, connect_proxy

pytestmark = pytest.mark.real_time

PATIENCE = 30.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Way:
    """A proxy, with the connections that it let through and the requests that it refused."""

    def __init__(self, place: Path, port: int) -> None:
        self.place, self.port = place, port
        self.refused: list[str] = []
        self.reached = 0
        self.arrived = asyncio.Event()

    async def connect(self) -> Streams:
        return await asyncio.open_unix_connection(str(self.place))

    async def ask(self, request: bytes) -> bytes:
        """Return the whole answer to a request."""
        reader, writer = await self.connect()
        async with asyncio.timeout(PATIENCE):
            answer = b""
            with suppress(ConnectionError):
                writer.write(request)
                await writer.drain()
                answer = await reader.read()
        writer.close()
        return answer

    async def tunnel(self) -> Streams:
        """Return a connection with the allowed host."""
        reader, writer = await self.connect()
        writer.write(f"CONNECT 127.0.0.1:{self.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head == b"HTTP/1.1 200 Connected\r\n\r\n"
        return reader, writer


Host = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send all data back, and close when it has ended."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def way(
    folder: Path, host: Host = echo, limits: ProxyLimits | None = None, *more: str
) -> AsyncGenerator[Way]:
    """Open a way to one port of this machine, behind which `host` answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.reached += 1
        opened.arrived.set()
        with suppress(ConnectionError):
            await host(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    place = folder / "s"
    opened = Way(place, port)
    allowed = Allowlist.of([f"127.0.0.1:{port}", "*.example.com", *more])
    try:
        with bound(place) as listening:
            async with connect_proxy(listening, allowed, opened.refused.append, limits):
                yield opened
    finally:
        server.close()


async def test_what_is_allowed_is_let_through_whole(tmp_path: Path) -> None:
    """Data goes in both directions at once, and each direction ends by itself."""
    data = bytes(range(256)) * 20_000
    async with way(tmp_path) as out:
        reader, writer = await out.tunnel()

        async def send() -> None:
            writer.write(data)
            writer.write_eof()
            await writer.drain()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(send())
            answer = group.create_task(reader.read())
        assert answer.result() == data
        assert out.refused == []
        writer.close()


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("evil.org:443", "evil.org:443"),
        ("169.254.169.254:80", "169.254.169.254:80"),
        ("127.0.0.1:22", "127.0.0.1:22"),
        ("[::1]:443", "[::1]:443"),
        ("localhost:{port}", "localhost:{port}"),
        ("2130706433:{port}", "2130706433:{port}"),
        ("127.0.0.1:{port}@evil.org:443", "127.0.0.1:{port}@evil.org:443"),
        ("evil.org@127.0.0.1:{port}", "evil.org@127.0.0.1:{port}"),
        ("127.0.0.1:{port}#evil.org", "127.0.0.1:{port}#evil.org"),
        ("a.example.com\x00.evil.org:443", "a.example.com\\x00.evil.org:443"),
    ],
)
async def test_what_is_not_in_the_list_is_refused_and_told(
    tmp_path: Path, target: str, shown: str
) -> None:
    """ENG-12: services of the machine and of its cloud, and every trick with the form."""
    async with way(tmp_path) as out:
        wish = target.format(port=out.port)
        answer = await out.ask(f"CONNECT {wish} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        told = f"asked for {shown.format(port=out.port)}, which is not allowed"
        assert out.refused == [told]
        assert out.reached == 0


@pytest.mark.parametrize("method", ["GET", "POST", "connect", "OPTIONS"])
async def test_without_encryption_nothing_is_let_through(tmp_path: Path, method: str) -> None:
    """Not even a host of the list: the proxy would have to read the traffic."""
    async with way(tmp_path) as out:
        url = f"http://127.0.0.1:{out.port}/x"
        answer = await out.ask(f"{method} {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert out.refused == [f"asked for {url} without encryption, which is not allowed"]
        assert out.reached == 0


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"CONNECT\r\n\r\n", b"\xff\xfe \x00 x\r\n\r\n"])
async def test_what_is_no_request_is_refused(tmp_path: Path, request_: bytes) -> None:
    """The answer is a proper one."""
    async with way(tmp_path) as out:
        assert (await out.ask(request_)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], ["::ffff:10.0.0.1", "fd00::1"]]
)
async def test_a_name_of_the_list_leads_to_no_private_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    """The owner of the name could make it lead into the machine (DNS rebinding)."""

    async def resolve(_: Destination) -> list[str]:
        return addresses

    monkeypatch.setattr(proxy_module, "_addresses", resolve)
    async with way(tmp_path, echo, None, "a.example.com:80") as out:
        answer = await out.ask(b"CONNECT a.example.com:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")
        where = f"asked for a.example.com:443, which leads to {', '.join(addresses)}"
        assert out.refused == [f"{where}, and that is not allowed"]


async def test_the_address_that_was_judged_is_the_one_that_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is looked up once, and only its allowed addresses are tried."""
    asked: list[Destination] = []

    async def resolve(target: Destination) -> list[str]:
        asked.append(target)
        return ["10.255.255.1", "127.0.0.1"]

    monkeypatch.setattr(proxy_module, "_addresses", resolve)
    async with way(tmp_path) as out:
        reader, writer = await out.tunnel()
        writer.write(b"x")
        writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b"x"
        writer.close()
        assert asked == [Destination("127.0.0.1", out.port)]


async def test_a_host_that_is_not_there_is_told_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer reports a failure, not a refusal."""

    async def resolve(_: Destination) -> list[str]:
        raise OSError("no such name")

    monkeypatch.setattr(proxy_module, "_addresses", resolve)
    async with way(tmp_path) as out:
        answer = await out.ask(b"CONNECT a.example.com:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"no such name" in answer
        assert out.refused == []


async def test_an_endless_request_is_cut(tmp_path: Path) -> None:
    """A gigabyte of it costs a few kilobytes: the rest is never taken."""
    async with way(tmp_path) as out:
        reader, writer = await out.connect()
        writer.write(b"CONNECT a.example.com:443 HTTP/1.1\r\n")
        sent = 0
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                while sent < 1 << 30 and not reader.at_eof():
                    writer.write(b"X: " + b"y" * 65533)
                    await writer.drain()
                    sent += 65536
        assert sent < 1 << 24
        writer.close()


async def test_a_request_that_never_ends_is_dropped(tmp_path: Path) -> None:
    """A byte now and then does not keep a place (slow loris)."""
    async with way(tmp_path, echo, ProxyLimits(patience=0.2)) as out:
        reader, writer = await out.connect()
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"C")
                    await writer.drain()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 0.01)
        assert reader.at_eof()
        writer.close()


async def test_a_tunnel_in_which_nothing_happens_is_closed(tmp_path: Path) -> None:
    """Both ends of it are closed."""
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            closed.set()
            writer.close()

    async with way(tmp_path, silent, ProxyLimits(idle=0.2)) as out:
        reader, writer = await out.tunnel()
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                assert await reader.read() == b""
            await closed.wait()
        writer.close()


async def test_a_tunnel_in_which_something_happens_stays(tmp_path: Path) -> None:
    """Its total time has no limit: agents talk with their vendors for hours."""

    async def parrot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(99):
            writer.write(data)
        writer.close()

    loop = asyncio.get_running_loop()
    async with way(tmp_path, parrot, ProxyLimits(idle=0.5)) as out:
        reader, writer = await out.tunnel()
        until = loop.time() + 1.0
        while loop.time() < until:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        writer.close()


@pytest.mark.parametrize("size", range(50_000, 500_000, 50_000))
async def test_who_reads_late_gets_the_end_too(tmp_path: Path, size: int) -> None:
    """Data that the other end sent before it left is not lost."""

    async def speech(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * size)
        writer.close()

    loop = asyncio.get_running_loop()
    async with way(tmp_path, speech) as out:
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            await loop.sock_connect(client, str(out.place))
            wish = f"CONNECT 127.0.0.1:{out.port} HTTP/1.1\r\n\r\n"
            await loop.sock_sendall(client, wish.encode())
            client.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(PATIENCE):
                await out.arrived.wait()
            for _ in range(1000):  # turns of the loop, in which all happens that can
                await asyncio.sleep(0)
            heard = b""
            async with asyncio.timeout(PATIENCE):
                while data := await loop.sock_recv(client, 65536):
                    heard += data
    assert heard.count(b"x") == size


async def test_more_clients_than_there_are_places_are_turned_away(tmp_path: Path) -> None:
    """The clients that are served go on, and a place that gets free is given again."""
    async with way(tmp_path, echo, ProxyLimits(clients=3)) as out:
        held = [await out.tunnel() for _ in range(3)]
        busy = await out.ask(b"CONNECT a.example.com:443 HTTP/1.1\r\n\r\n")
        assert busy == b""
        for _, writer in held:
            writer.close()
        async with asyncio.timeout(PATIENCE):
            while await out.ask(b"GET / HTTP/1.1\r\n\r\n") == b"":
                pass


async def test_a_refusal_is_told_once_and_not_without_end(tmp_path: Path) -> None:
    """A client that asks a thousand times must not fill the log."""
    async with way(tmp_path) as out:
        for _ in range(3):
            await out.ask(b"CONNECT evil.org:443 HTTP/1.1\r\n\r\n")
        assert len(out.refused) == 1
        for number in range(120):
            await out.ask(f"CONNECT evil{number}.org:443 HTTP/1.1\r\n\r\n".encode())
        assert len(out.refused) == 100


async def test_when_the_block_is_left_nobody_is_connected(tmp_path: Path) -> None:
    """Tunnels end with the block, and the socket is gone."""
    async with way(tmp_path) as out:
        reader, writer = await out.tunnel()
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    assert not out.place.exists()
    writer.close()


async def test_an_error_within_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    """It is not wrapped in another error."""
    with bound(tmp_path / "s") as listening:
        with pytest.raises(ValueError, match="mine"):
            async with connect_proxy(listening, Allowlist.of([]), print) as proxy:
                assert isinstance(proxy, ConnectProxy)
                raise ValueError("mine")
