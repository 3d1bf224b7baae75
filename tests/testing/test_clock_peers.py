"""Peers in other processes: a timeout that is longer than they take never fires."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
import anyio
import pytest

from otpy.testing import MockClock, strange_threads, virtual_loop
from tests.testing import peer
from tests.testing.delays import BRIEF, stranger

PAUSE = 0.08
"""Real seconds that a peer takes: a multiple of what the clock once waited for the unknown."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(address: tuple[str, int] | str) -> AsyncGenerator[Streams]:
    """Connect to a host and port, or to the path of a Unix socket."""
    if isinstance(address, str):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*address)
    yield reader, writer
    writer.close()
    await writer.wait_closed()


async def test_a_peer_may_speak_first(clock: MockClock) -> None:
    """A greeting arrives in time over a connection on which the test has sent nothing."""
    with peer.tcp_peer(peer.GREETS, PAUSE) as address:
        async with connected(address) as (reader, _), asyncio.timeout(5):
            assert await reader.readline() == b"hello\n"
    assert clock.now < 5


async def test_an_answer_may_come_in_parts() -> None:
    """Each part lets the clock wait for the next, whether one timeout holds for all or for each."""
    with peer.tcp_peer(peer.ANSWERS_IN_PARTS, PAUSE) as address:
        async with connected(address) as (reader, writer):
            writer.write(b"1\n2\n3\n4\n5\n")
            async with asyncio.timeout(5):
                assert await reader.readline() == b"1\n"
                assert await reader.readline() == b"2\n"
            for part in (b"3\n", b"4\n", b"5\n"):
                assert await asyncio.wait_for(reader.readline(), 5) == part


async def test_a_heart_that_beats_does_not_eat_up_the_time_of_an_answer() -> None:
    """The sleeps of other tasks do not count against a timeout around an answer in parts."""

    async def beat() -> None:
        for _ in range(1000):
            await asyncio.sleep(0.9)

    heart = asyncio.create_task(beat())
    with peer.tcp_peer(peer.ANSWERS_IN_PARTS, PAUSE) as address:
        async with connected(address) as (reader, writer):
            writer.write(b"1\n2\n3\n4\n5\n")
            async with asyncio.timeout(5):
                for part in (b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"):
                    assert await reader.readline() == part
    heart.cancel()


async def test_a_unix_socket_counts_as_tcp_does(tmp_path: Path) -> None:
    """An answer over a Unix socket is waited for, and so are its parts."""
    with peer.unix_peer(tmp_path, peer.ANSWERS_IN_PARTS, PAUSE) as address:
        async with connected(address) as (reader, writer):
            for _ in range(3):
                writer.write(b"1\n2\n")
                async with asyncio.timeout(5):
                    assert await reader.readline() == b"1\n"
                    assert await reader.readline() == b"2\n"


async def test_a_bare_socket_counts_too(tmp_path: Path) -> None:
    """A task that reads from a socket through the loop, without a transport, gets the answer."""
    with peer.unix_peer(tmp_path, peer.ANSWERS, PAUSE) as address:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as plain:
            plain.setblocking(False)
            await loop.sock_connect(plain, address)
            for _ in range(3):
                await loop.sock_sendall(plain, b"x")
                assert await asyncio.wait_for(loop.sock_recv(plain, 9), 5) == b"x"


async def test_a_peer_may_answer_who_is_still_sending(tmp_path: Path) -> None:
    """A reader added to a socket that has a writer counts as a reader from then on."""
    loop = asyncio.get_running_loop()
    with peer.unix_peer(tmp_path, peer.GREETS, PAUSE) as address:
        with socket.socket(socket.AF_UNIX) as plain:
            plain.setblocking(False)
            await loop.sock_connect(plain, address)
            loop.add_writer(plain, lambda: loop.remove_writer(plain))
            assert await asyncio.wait_for(loop.sock_recv(plain, 9), 5) == b"hello\n"


@pytest.mark.parametrize("to_one", [True, False])
async def test_a_datagram_is_answered(to_one: bool) -> None:
    """UDP is waited for as TCP is, whether the socket is connected to its peer or not."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    class Client(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            answers.put_nowait(data)

    loop = asyncio.get_running_loop()
    with peer.udp_peer(PAUSE) as address:
        transport, _ = await loop.create_datagram_endpoint(
            Client,
            remote_addr=address if to_one else None,
            local_addr=None if to_one else ("127.0.0.1", 0),
        )
        for _ in range(3):
            transport.sendto(b"x", None if to_one else address)
            assert await asyncio.wait_for(answers.get(), 5) == b"x"
        transport.close()


async def test_a_datagram_without_a_transport_is_answered() -> None:
    """A task that sends from a bare, unconnected socket gets each of the answers."""
    loop = asyncio.get_running_loop()
    with peer.udp_peer(PAUSE) as address, socket.socket(type=socket.SOCK_DGRAM) as plain:
        plain.setblocking(False)
        plain.bind(("127.0.0.1", 0))
        for _ in range(2):
            for data in (b"x", b"y"):
                await loop.sock_sendto(plain, data, address)
            for data in (b"x", b"y"):
                assert await asyncio.wait_for(loop.sock_recv(plain, 9), 5) == data


async def test_a_bare_socket_may_be_read_before_it_is_written(
    clock: MockClock, tmp_path: Path
) -> None:
    """A task that has long waited on a socket gets the answer to another task's message over it."""
    loop = asyncio.get_running_loop()
    with peer.unix_peer(tmp_path, peer.ANSWERS, PAUSE) as address:
        with socket.socket(socket.AF_UNIX) as plain:
            plain.setblocking(False)
            await loop.sock_connect(plain, address)
            reading = asyncio.ensure_future(loop.sock_recv(plain, 9))
            await asyncio.sleep(3600)
            await loop.sock_sendall(plain, b"x")
            assert await asyncio.wait_for(reading, 5) == b"x"
    assert clock.now < 3605


async def test_an_answered_command_costs_no_patience(clock: MockClock) -> None:
    """A command and an hour of sleep, repeated, take hardly longer than the commands."""
    with peer.tcp_peer(peer.ANSWERS) as address:
        async with connected(address) as (reader, writer):
            began = time.perf_counter()
            for _ in range(20):
                writer.write(b"x")
                assert await asyncio.wait_for(reader.read(9), 5) == b"x"
                await asyncio.sleep(3600)
            assert time.perf_counter() - began < 10 * clock.patience
    assert clock.now >= 20 * 3600


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_stream_that_nobody_reads_costs_no_patience(
    clock: MockClock, tmp_path: Path, encrypted: bool
) -> None:
    """Timeouts fire at once where no task waits for the peer's next message."""
    talk, context = peer.ANSWERS, None
    if encrypted:
        certificate = tmp_path / "certificate.pem"
        certify(certificate)
        talk = peer.ENCRYPTS.format(certificate=str(certificate)) + talk
        context = ssl.create_default_context(cafile=certificate)
    with peer.tcp_peer(talk) as (_, port):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        began = time.perf_counter()
        for _ in range(20):
            writer.write(b"x")
            assert await asyncio.wait_for(reader.read(9), 5) == b"x"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 3600)
        assert time.perf_counter() - began < 10 * clock.patience
        writer.transport.abort()


def certify(file: Path) -> None:
    """Write a certificate of localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*command.split(), *names.split(), "-keyout", file, "-out", f"{file}.only"],
        check=True,
        capture_output=True,
    )
    file.write_text(file.read_text() + Path(f"{file}.only").read_text())


async def test_a_peer_that_is_silent_costs_patience_once(clock: MockClock) -> None:
    """After that the clock jumps as if there were no connection."""
    with peer.tcp_peer(peer.SWALLOWS) as address:
        async with connected(address) as (_, writer):
            writer.write(b"x")
            began = time.perf_counter()
            for _ in range(1000):
                await asyncio.sleep(3600)
            assert clock.patience * 0.9 < time.perf_counter() - began < clock.patience + 1


async def test_a_timeout_that_is_really_due_is_not_put_off(clock: MockClock) -> None:
    """A peer that takes longer than the timeout is timed out exactly at the timeout."""
    clock.patience = 30
    with peer.tcp_peer(peer.SWALLOWS) as address:
        async with connected(address) as (reader, _):
            until = clock.now + PAUSE
            with pytest.raises(TimeoutError):
                async with asyncio.timeout_at(until):
                    await reader.read(9)
            assert clock.now == until


async def test_the_patience_of_a_clock_can_be_set(clock: MockClock) -> None:
    """The test sets how slow a peer may be, and the clock waits no longer than that."""
    with peer.tcp_peer(peer.ANSWERS, 2 * clock.patience) as address:
        clock.patience *= 8
        async with connected(address) as (reader, writer):
            writer.write(b"x")
            assert await asyncio.wait_for(reader.read(9), 60) == b"x"
            clock.patience = 0
            writer.write(b"x")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(9), 60)


def test_each_loop_begins_with_the_patience_of_its_clock() -> None:
    """A set patience lasts as long as the loop; the clock's own default may differ too."""
    clock = MockClock(patience=3)

    async def impatient() -> float:
        before, clock.patience = clock.patience, 0
        return before

    assert [clock.run(impatient()) for _ in range(2)] == [3, 3]
    assert clock.patience == 0
    wrongs: list[Any] = [-1, float("nan"), float("inf"), "2", None]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"patience .* got {wrong!r}"):
            MockClock(patience=wrong)
        with pytest.raises(ValueError, match=f"patience .* got {wrong!r}"):
            clock.patience = wrong


# --- what costs nothing ---------------------------------------------------------------------------


async def nothing_costs(clock: MockClock, exchange: Callable[[], object] = lambda: None) -> None:
    """After each of two hundred exchanges, sleep or time out, all in less than a second."""
    began, until = time.perf_counter(), clock.now
    for _ in range(100):
        exchange()
        await asyncio.sleep(1)
        exchange()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1)
        until += 2
        assert clock.now == until
    assert time.perf_counter() - began < 1


async def test_both_ends_in_this_loop_cost_nothing(clock: MockClock, tmp_path: Path) -> None:
    """TCP, Unix sockets by path and by pair: neither grace nor patience."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    path = str(tmp_path / "own")
    everywhere = await asyncio.start_server(swallow, None, 0, family=socket.AF_INET)
    server = await asyncio.start_unix_server(swallow, path)
    port = everywhere.sockets[0].getsockname()[1]
    ours, theirs = socket.socketpair()
    other = asyncio.create_task(swallow(*await asyncio.open_connection(sock=theirs)))
    pair = await asyncio.open_connection(sock=ours)
    async with (
        everywhere,
        server,
        connected(path) as (_, one),
        connected(("127.0.0.1", port)) as (_, two),
    ):

        def speak() -> None:
            for writer in (one, two, pair[1]):
                writer.write(b"x")

        await nothing_costs(clock, speak)
    pair[1].close()
    await other


async def test_a_reader_of_this_loop_that_pauses_costs_nothing(
    clock: MockClock, tmp_path: Path
) -> None:
    """Between two messages anyio, and so httpx, reads nothing; yet its end is of this loop."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.read(99):
            writer.write(line)
        writer.close()

    path = str(tmp_path / "own")
    async with (
        await asyncio.start_server(echo, "127.0.0.1", 0) as server,
        await asyncio.start_unix_server(echo, path),
        await anyio.connect_tcp(*server.sockets[0].getsockname()[:2]) as one,
        await anyio.connect_unix(path) as two,
    ):
        began = time.perf_counter()
        for _ in range(20):
            for client in (one, two):
                await client.send(b"x")
                assert await client.receive() == b"x"
            await asyncio.sleep(60)
            with pytest.raises(TimeoutError) as caught:
                await asyncio.wait_for(asyncio.Event().wait(), 1)
            assert not hasattr(caught.value, "__notes__")
        assert clock.now == 20 * 61
        assert time.perf_counter() - began < 1


async def test_datagrams_within_the_loop_cost_nothing(clock: MockClock) -> None:
    """A socket that takes datagrams from any sender, and one that sends to it."""
    loop = asyncio.get_running_loop()
    server, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol,
        local_addr=("0.0.0.0", 0),  # noqa: S104 - it is the point
    )
    address = ("127.0.0.1", server.get_extra_info("sockname")[1])
    client, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
    await nothing_costs(clock, lambda: client.sendto(b"x"))
    client.close()
    server.close()


@on_linux
async def test_what_the_kernel_holds_back_is_waited_for() -> None:
    """The clock waits, with both ends in the loop too: a corked socket sends a part 0.2 s late."""

    async def corked(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        writer.write(b"x")
        await ended.wait()
        writer.close()

    ended = asyncio.Event()
    async with await asyncio.start_server(corked, "127.0.0.1", 0) as server:
        async with connected(server.sockets[0].getsockname()) as (reader, _), asyncio.timeout(5):
            assert await reader.read(9) == b"x"
            ended.set()


async def test_a_listener_costs_nothing(clock: MockClock) -> None:
    """No peer outside the loop knows its address."""

    def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pytest.fail("nobody knows of it")

    async with await asyncio.start_server(ignore, "127.0.0.1", 0):
        await nothing_costs(clock)


async def test_a_signal_may_be_due(clock: MockClock) -> None:
    """The process's alarm follows real time; its handler runs before a timeout."""
    loop, alarm = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGALRM, alarm.set)
    signal.setitimer(signal.ITIMER_REAL, PAUSE)
    await asyncio.wait_for(alarm.wait(), 5)
    loop.remove_signal_handler(signal.SIGALRM)
    await nothing_costs(clock)


# --- threads --------------------------------------------------------------------------------------


def in_a_thread(work: Callable[[], object]) -> asyncio.Future[object]:
    """Do some work in a thread that hands its result to the loop itself."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[object] = loop.create_future()

    def run() -> None:
        done = work()
        loop.call_soon_threadsafe(result.set_result, done)

    threading.Thread(target=run).start()
    return result


def compute() -> int:
    """Keep the processor and the interpreter busy."""
    until = time.perf_counter() + 2 * BRIEF
    while time.perf_counter() < until:
        pass
    return 7


def sleep_long() -> int:
    """Let longer pass than the clock has patience."""
    time.sleep(0.4)
    return 7


@on_linux
@pytest.mark.parametrize("work", [compute, sleep_long])
async def test_a_thread_that_works_holds_the_clock(work: Callable[[], int]) -> None:
    """A thread that reports by `call_soon_threadsafe`, or whose future was wrapped, is in time."""
    assert await asyncio.wait_for(in_a_thread(work), 5) == 7
    with ThreadPoolExecutor(1) as pool:
        assert await asyncio.wait_for(asyncio.wrap_future(pool.submit(work)), 5) == 7


@on_linux
@pytest.mark.parametrize("work", [compute, sleep_long])
def test_a_pool_may_be_older_than_the_clock(work: Callable[[], int]) -> None:
    """Its threads wait for work when the loop begins, and hold the clock when they have some."""

    async def main() -> int:
        return await asyncio.wait_for(asyncio.wrap_future(pool.submit(work)), 5)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        wait_until_idle(*pool._threads)
        assert MockClock().run(main()) == 7


def wait_until_idle(thread: threading.Thread) -> None:
    """Wait until a thread of a pool waits for work."""
    while not strange_threads.StrangeThreads().awaits_work(thread):
        time.sleep(0.001)


@on_linux
async def test_a_thread_may_feed_a_pipe(clock: MockClock) -> None:
    """The data of a working thread arrives before a timeout."""
    out, into = os.pipe()

    def feed() -> None:
        time.sleep(0.4)
        os.write(into, b"x\n")
        os.close(into)

    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out)
    )
    threading.Thread(target=feed).start()
    async with asyncio.timeout(5):
        assert await reader.readline() == b"x\n"
    transport.close()


@on_linux
async def test_a_driver_with_a_thread_of_its_own(clock: MockClock, tmp_path: Path) -> None:
    """A database that is locked for longer than the clock has patience: aiosqlite waits for it."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as locking:
        locking.execute("create table t (x)")
        locking.commit()
        async with aiosqlite.connect(path, timeout=30) as db:
            locking.execute("begin immediate")
            threading.Timer(2 * clock.patience, locking.rollback).start()
            async with asyncio.timeout(20):
                await db.execute("insert into t values (1)")
                await db.commit()
                (row,) = await db.execute_fetchall("select * from t")
            assert row == (1,)


@on_linux
async def test_an_idle_driver_costs_hardly_anything(clock: MockClock) -> None:
    """A thread that waits for work does not make time real, not even after its command."""
    async with aiosqlite.connect(":memory:") as db:
        began = time.perf_counter()
        for _ in range(50):
            async with asyncio.timeout(5):
                await db.execute("select 1")
            await asyncio.sleep(3600)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 3600)
        assert time.perf_counter() - began < 10 * clock.patience
    assert clock.now >= 100 * 3600


@on_linux
async def test_a_thread_that_waits_for_a_lock_lets_the_clock_jump() -> None:
    """Only another thread can wake it, and that thread either works or does not."""
    lock = threading.Lock()
    thread = threading.Thread(target=lock.acquire)
    with lock:
        thread.start()
        began = time.perf_counter()
        for _ in range(100):
            await asyncio.sleep(3600)
        assert time.perf_counter() - began < 1
    thread.join()


@on_linux
@pytest.mark.parametrize("poll", [time.sleep, threading.Event().wait])
async def test_a_thread_that_polls_does_not_make_time_real_for_long(
    monkeypatch: pytest.MonkeyPatch, poll: Callable[[float], object]
) -> None:
    """A thread that sleeps again and again soon no longer counts as working."""
    monkeypatch.setattr(strange_threads, "LONGEST_SLEEP", BRIEF)
    monkeypatch.setattr(strange_threads, "LONGEST_NAP", BRIEF)
    ends = threading.Event()

    def watch() -> None:
        while not ends.is_set():
            poll(BRIEF / 4)

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    for _ in range(100):
        await asyncio.sleep(3600)
    assert time.perf_counter() - began < 2
    ends.set()
    thread.join()


def test_where_nobody_tells_what_threads_do_they_get_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On systems that cannot tell, each jump gives threads a moment to report."""
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    monkeypatch.setattr(virtual_loop, "GRACE", 10)

    async def wait() -> int:
        return await asyncio.wait_for(stranger(BRIEF), 20)

    assert MockClock().run(wait()) == 7


@on_linux
async def test_an_idle_loop_in_a_thread_is_found_to_poll(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without a client, in a thread of the test, makes time real for a while alone."""
    monkeypatch.setattr(strange_threads, "LONGEST_SLEEP", 0.3)
    ended = threading.Event()

    async def tick() -> None:
        while not ended.is_set():  # noqa: ASYNC110 - it is not an event of this loop
            await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(tick()))
    thread.start()
    began = time.perf_counter()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1000)
    assert clock.now >= 3000
    assert time.perf_counter() - began < 2
    ended.set()
    thread.join()
