"""TCP connections that lead out of the loop: a peer may answer a message in real time."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

from otpy.testing import MockClock
from tests.testing.delays import BRIEF

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def answer(connection: socket.socket) -> None:
    """Send back all data, after a while."""
    while data := connection.recv(100):
        time.sleep(BRIEF)
        connection.sendall(data)


def swallow(connection: socket.socket) -> None:
    """Read everything, and never answer."""
    while connection.recv(100):
        pass


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Generator[tuple[str, int]]:
    """Serve one connection in a thread of its own; give the address."""

    def serve() -> None:
        connection = listener.accept()[0]
        with connection, suppress(ConnectionError):
            talk(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, name="peer")
        thread.start()
        yield listener.getsockname()
        thread.join()


@asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncGenerator[Streams]:
    """Connect to the server, and close the connection at the end."""
    reader, writer = await asyncio.open_connection(*address)
    yield reader, writer
    writer.close()
    await writer.wait_closed()


async def test_an_answer_under_way_does_not_lose_against_timers() -> None:
    """A peer in another thread answers before a timeout that is longer than it takes."""
    with serving(answer) as address:
        async with connected(address) as (reader, writer):
            for _ in range(3):
                writer.write(b"x")
                async with asyncio.timeout(5):
                    assert await reader.read(100) == b"x"


async def test_a_peer_that_never_answers_is_not_waited_for_long(clock: MockClock) -> None:
    """After its patience, in which time flows, the clock jumps again, exactly to the timers."""
    clock.patience = BRIEF
    with serving(swallow) as address:
        async with connected(address) as (_, writer):
            writer.write(b"x")
            began = time.perf_counter()
            await asyncio.sleep(3600)
            assert clock.now == 3600
            assert BRIEF / 2 < time.perf_counter() - began < 2


async def test_whoever_has_answered_is_not_waited_for(clock: MockClock) -> None:
    """An idle connection costs no patience, whatever it carried before."""
    with serving(answer) as address:
        async with connected(address) as (reader, writer):
            writer.write(b"x")
            await reader.read(100)
            began = time.perf_counter()
            for _ in range(5):
                await asyncio.sleep(3600)
            assert time.perf_counter() - began < clock.patience


async def test_a_connection_within_the_loop_costs_nothing(clock: MockClock) -> None:
    """The loop has received its own messages before the clock would jump."""

    async def swallow_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(swallow_all, "127.0.0.1")
    async with server, connected(server.sockets[0].getsockname()) as (_, writer):
        for _ in range(5):
            expected = clock.now + 3600
            writer.write(b"x")
            await asyncio.sleep(3600)
            assert clock.now == expected
