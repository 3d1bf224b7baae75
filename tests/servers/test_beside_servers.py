"""The mock clock beside real servers and drivers: a timeout fires only when it is due.

Each test repeats as often as OTPY_TEST_REPEAT says, on an idle machine and with busy cores.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from otpy.testing import MockClock
from tests.servers.server_program import program, running

REPEAT = int(os.environ.get("OTPY_TEST_REPEAT", "100"))
BUSY = "while True: pass"

pytestmark = [pytest.mark.timeout(300)]


def driver(name: str) -> Any:
    """Return a module that may not be installed."""
    return pytest.importorskip(name)


@pytest.fixture(params=["idle", "busy"])
def load(request: pytest.FixtureRequest) -> Generator[None]:
    """Leave the cores to the test, or keep every one of them busy."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1 if request.param == "busy" else 0):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-Sc", BUSY]))
            stack.callback(process.kill)
        yield


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, int]]:
    """Run PostgreSQL; yield the folder of its Unix socket, and its port."""
    driver("asyncpg")
    initdb, server = program("initdb"), program("postgres")
    folder = tmp_path_factory.mktemp("postgres")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        # Not below the folder of pytest, which only root can read.
        folder = Path(
            subprocess.check_output(["mktemp", "-d", "-p", "/tmp"], text=True, **user).strip()
        )
    try:
        subprocess.run(
            [initdb, "-D", folder / "data", "-A", "trust", "-U", "joe", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        command = [server, "-D", str(folder / "data"), "-k", str(folder), "-F", "-p"]
        with running(lambda port: [*command, str(port)], cwd=folder, **user) as port:
            # It listens before it accepts clients.
            ready = [program("pg_isready"), "-q", "-t", "0", "-h", str(folder), "-p", str(port)]
            patience = time.monotonic() + 60
            while subprocess.run(ready, check=False).returncode:
                assert time.monotonic() < patience, "PostgreSQL is not ready"
                time.sleep(0.05)
            yield str(folder), port
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, int]]:
    """Run Redis; yield the path of its Unix socket, and its port."""
    folder = tmp_path_factory.mktemp("redis")
    path = str(folder / "redis.sock")
    command = [program("redis-server"), "--save", "", "--unixsocket", path, "--dir", str(folder)]
    with running(lambda port: [*command, "--port", str(port)]) as port:
        yield path, port


@pytest.fixture(scope="module")
def nats_server() -> Generator[int]:
    """Run NATS; yield its port."""
    command = [program("nats-server"), "-a", "127.0.0.1", "-p"]
    with running(lambda port: [*command, str(port)]) as port:
        yield port


@pytest.fixture(scope="module")
def web_server() -> Generator[str]:
    """Run a web server that sends the head of its answer 20 ms before the body; yield its URL."""
    driver("aiohttp")
    source = (
        "import asyncio, sys\n"
        "from aiohttp import web\n"
        "async def answer(request):\n"
        "    response = web.StreamResponse()\n"
        "    await response.prepare(request)\n"
        "    for part in b'one', b'two', b'three':\n"
        "        await asyncio.sleep(0.02)\n"
        "        await response.write(part)\n"
        "    return response\n"
        "app = web.Application()\n"
        "app.add_routes([web.get('/', answer)])\n"
        "web.run_app(app, host='127.0.0.1', port=int(sys.argv[1]), print=None)\n"
    )
    with running(lambda port: [sys.executable, "-c", source, str(port)]) as port:
        yield f"http://127.0.0.1:{port}/"


def again_and_again(exchange: Callable[[], Awaitable[None]]) -> None:
    """Repeat an exchange, each on a clock of its own; it ends before its five seconds are over."""

    async def once() -> None:
        async with asyncio.timeout(5):
            await exchange()
        await asyncio.sleep(3600)

    for _ in range(REPEAT):
        MockClock().run(once())


async def select(**where: Any) -> None:
    """Connect to PostgreSQL, and request an answer in many parts."""
    connection = await driver("asyncpg").connect(user="joe", database="postgres", **where)
    assert await connection.fetchval("select 1") == 1
    assert len(await connection.fetch("select * from generate_series(1, 2000)")) == 2000
    await connection.close()


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_asyncpg(postgres: tuple[str, int], way: str) -> None:
    """This covers a connection, a value and a long answer."""
    folder, port = postgres
    again_and_again(lambda: select(host=folder if way == "unix" else "127.0.0.1", port=port))


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_redis(redis_server: tuple[str, int], way: str) -> None:
    """This covers commands, and a message to a subscriber."""
    redis = driver("redis.asyncio")
    path, port = redis_server

    async def exchange() -> None:
        where = {"unix_socket_path": path} if way == "unix" else {"host": "127.0.0.1", "port": port}
        async with redis.Redis(**where) as client, client.pubsub() as subscriber:
            await client.set("a", "1")
            assert await client.get("a") == b"1"
            await subscriber.subscribe("news")
            await client.publish("news", "x")
            async for message in subscriber.listen():
                if message["type"] == "message":
                    break

    again_and_again(exchange)


@pytest.mark.usefixtures("load")
def test_nats(nats_server: int) -> None:
    """The server sends first; then come a request and its answer."""
    nats = driver("nats")

    async def exchange() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{nats_server}", allow_reconnect=False)

        async def echo(message: Any) -> None:
            await message.respond(message.data)

        await client.subscribe("echo", cb=echo)
        assert (await client.request("echo", b"x", timeout=2)).data == b"x"
        await client.close()

    again_and_again(exchange)


@pytest.mark.usefixtures("load")
def test_aiohttp(web_server: str) -> None:
    """The answer comes in parts, with aiohttp's own timeouts around it and in it."""
    aiohttp = driver("aiohttp")

    async def exchange() -> None:
        limits = aiohttp.ClientTimeout(total=4, connect=1, sock_read=1)
        async with aiohttp.ClientSession(timeout=limits) as session, session.get(web_server) as got:
            assert await got.read() == b"onetwothree"

    again_and_again(exchange)


@pytest.mark.usefixtures("load")
def test_httpx(web_server: str) -> None:
    """The exchange is the same, with httpx and its timeouts."""
    httpx = driver("httpx")

    async def exchange() -> None:
        async with httpx.AsyncClient(timeout=1, trust_env=False) as client:
            assert (await client.get(web_server)).content == b"onetwothree"

    again_and_again(exchange)


@pytest.mark.usefixtures("load")
def test_aiosqlite(tmp_path: Path) -> None:
    """The driver has a thread of its own, which waits for the disk."""
    aiosqlite = driver("aiosqlite")

    async def exchange() -> None:
        async with aiosqlite.connect(tmp_path / "a.db") as db:
            await db.execute("create table if not exists t (x)")
            await db.execute("insert into t values (1)")
            await db.commit()
            assert await db.execute_fetchall("select x from t limit 1")

    again_and_again(exchange)
