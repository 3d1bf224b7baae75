"""Possible answers of an engine, played by a fake server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, final

import pytest

from otpy_agents.docker import engine as engine_module
from otpy_agents.docker.engine import connect
from otpy_agents.docker.frames import Frame
from otpy_agents.errors import EngineError, SandboxUnavailable
from otpy_agents.sandbox.docker import DockerSandbox

pytestmark = pytest.mark.real_time

PING = "GET /_ping"


def answer(status: int, body: object = "", *, version: str = "1.41") -> bytes:
    text = body if isinstance(body, str) else json.dumps(body)
    head = f"HTTP/1.1 {status} X\r\nApi-Version: {version}\r\nContent-Length: {len(text)}\r\n\r\n"
    return (head + text).encode()


@final
class Fake:
    """Answers each request with the bytes set for it, and hangs where there are none."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "s"
        self.answers: dict[str, bytes] = {PING: answer(200, "OK")}
        self.asked: list[str] = []
        self.cuts = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.asked.append(head.decode().split(" HTTP/", 1)[0])
                method, _, path = self.asked[-1].partition(" ")
                known = self.answers.get(f"{method} {path.partition('?')[0]}")
                if known is None:
                    await reader.read()
                    return
                writer.write(known)
                await writer.drain()
                if self.cuts and "_ping" not in path:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncGenerator[Fake]:
    """An engine with the test's answers."""
    made = Fake(tmp_path)
    server = await asyncio.start_unix_server(made.serve, made.socket)
    yield made
    server.close()


async def test_an_engine_that_does_not_answer_is_none(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check ends in time, with one line that names the place."""
    monkeypatch.setattr(engine_module, "ANSWER_TIME", 0.05)
    fake.answers.clear()
    with pytest.raises(SandboxUnavailable) as caught:
        await DockerSandbox("i", fake.socket).check()
    assert str(caught.value) == (
        f"sandbox 'docker': no container engine answers at {fake.socket}: ReadTimeout"
    )


@pytest.mark.parametrize("said", [b"what?\r\n\r\n", answer(500, {"message": "on\nfire"})])
async def test_what_is_no_healthy_engine_is_none(fake: Fake, said: bytes) -> None:
    """Another server at that address and a sick engine both give one line."""
    fake.answers[PING] = said
    with pytest.raises(SandboxUnavailable) as caught:
        await DockerSandbox("i", fake.socket).check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("version", "prefix"), [("1.41", "/v1.41"), ("", "")])
async def test_it_is_asked_in_the_version_it_speaks(fake: Fake, version: str, prefix: str) -> None:
    """Both old and new engines are asked so; one that names none gets its own default."""
    fake.answers[PING] = answer(200, "OK", version=version)
    fake.answers[f"GET {prefix}/containers/c/json"] = answer(200, {"State": {"Status": "dead"}})
    async with connect(fake.socket) as engine:
        assert await engine.state("c") == {"Status": "dead"}


async def test_what_is_not_there_is_no_error(fake: Fake) -> None:
    """Stopping, killing or removing a container that is gone or going succeeds (RUN-15)."""
    fake.answers |= {
        "GET /v1.41/containers/c/json": answer(404, {"message": "No such container"}),
        "POST /v1.41/containers/c/stop": answer(404, {"message": "No such container"}),
        "POST /v1.41/containers/c/kill": answer(409, {"message": "c is not running"}),
        "POST /v1.41/containers/d/kill": answer(500, {"message": "container is not running"}),
        "DELETE /v1.41/containers/c": answer(409, {"message": "removal is in progress"}),
    }
    async with connect(fake.socket) as engine:
        assert await engine.state("c") is None
        await engine.stop("c", 0.2)
        await engine.kill("c")
        await engine.kill("d")
        await engine.remove("c")
    assert "POST /v1.41/containers/c/stop?t=1" in fake.asked


@pytest.mark.parametrize("does", ["kill", "remove"])
async def test_what_is_refused_is_an_error(fake: Fake, does: str) -> None:
    """The error has the engine's own words, in one line."""
    refusal = answer(500, {"message": "no\n  permission"})
    fake.answers["POST /v1.41/containers/c/kill"] = refusal
    fake.answers["DELETE /v1.41/containers/c"] = refusal
    async with connect(fake.socket) as engine:
        with pytest.raises(EngineError, match="got status 500: no permission") as caught:
            await getattr(engine, does)("c")
    assert caught.value.status == 500


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("agent", "agent%3Alatest"),
        ("host:5000/agent", "host%3A5000%2Fagent%3Alatest"),
        ("agent:7", "agent%3A7"),
        ("agent@sha256:1", "agent%40sha256%3A1"),
    ],
)
async def test_one_image_is_fetched_not_all_its_tags(fake: Fake, image: str, asked: str) -> None:
    """RUN-04: an image without a tag is the latest."""
    fake.answers["POST /v1.41/images/create"] = answer(200, '{"status": "a"}\n{"status": "b"}\n')
    async with connect(fake.socket) as engine:
        await engine.pull(image)
    assert fake.asked[-1] == f"POST /v1.41/images/create?fromImage={asked}"


async def test_a_fetch_that_fails_late_has_failed(fake: Fake) -> None:
    """The engine answers 200 before the fetch has succeeded."""
    said = '{"status": "Pulling"}\n{"error": "no such manifest"}\n'
    fake.answers["POST /v1.41/images/create"] = answer(200, said)
    async with connect(fake.socket) as engine:
        with pytest.raises(EngineError, match="no such manifest"):
            await engine.pull("agent")


async def test_a_log_that_breaks_off_is_no_end(fake: Fake) -> None:
    """Frames before the break are heard, and then comes an error, not silence."""
    fake.cuts = True
    frame = b"\x01\0\0\0\0\0\0\x05hello"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n"
    fake.answers["GET /v1.41/containers/c/logs"] = head + frame + b"\r\n"
    heard: list[Frame] = []
    async with connect(fake.socket) as engine:
        with pytest.raises(EngineError, match="got no answer"):
            async for one in engine.logs("c", follow=True):
                heard.append(one)  # noqa: PERF401 - what came before the error counts
    assert heard == [Frame(1, b"hello")]


async def test_a_log_that_is_refused_is_an_error(fake: Fake) -> None:
    """The container is gone."""
    fake.answers["GET /v1.41/containers/c/logs"] = answer(404, {"message": "No such container"})
    async with connect(fake.socket) as engine:
        with pytest.raises(EngineError, match="No such container"):
            await anext(engine.logs("c", follow=True))


async def test_containers_are_found_by_all_their_labels_oldest_first(fake: Fake) -> None:
    """Each comes with its readable name."""
    listed: list[dict[str, Any]] = [
        {"Id": "b", "Names": ["/two"], "Created": 20},
        {"Id": "a", "Names": ["/one"], "Created": 10},
        {"Id": "c", "Names": None, "Created": 30},
    ]
    fake.answers["GET /v1.41/containers/json"] = answer(200, listed)
    async with connect(fake.socket) as engine:
        assert await engine.containers({"A": "1", "B": "2"}) == [
            ("a", "one"),
            ("b", "two"),
            ("c", ""),
        ]
    assert "A%3D1" in fake.asked[-1]
    assert "B%3D2" in fake.asked[-1]


@pytest.mark.parametrize("does", ["find", "clear"])
async def test_an_engine_that_fails_in_between_is_told(
    fake: Fake, does: str, tmp_path: Path
) -> None:
    """A caller that lists left-over containers must not mistake a failure for an empty list."""
    fake.answers["GET /v1.41/containers/json"] = answer(500, {"message": "ill"})
    sandbox = DockerSandbox("i", fake.socket)
    ask: Callable[[dict[str, str]], Any] = getattr(sandbox, does)
    with pytest.raises(SandboxUnavailable, match="ill"):
        await ask({"A": "1"})
