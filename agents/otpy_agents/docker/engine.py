"""The Docker Engine API, which podman speaks too: what sandboxes need of it, over a unix socket."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast, final

import httpx

from otpy_agents.docker.frames import Frame, LogFrames
from otpy_agents.errors import EngineError

__all__ = ["ANSWER_TIME", "DockerEngine", "connect"]

ANSWER_TIME: Final = 10.0
"""Seconds within which an engine has to answer, and to remove a container (RUN-15)."""

_START_TIME: Final = 60.0
_PULL_TIME: Final = 300.0
_HTTP_ERROR: Final = 400
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@asynccontextmanager
async def connect(socket: Path) -> AsyncGenerator[DockerEngine]:
    """Return a block with a connection to the engine behind `socket`.

    Each attempt has its own connections, so that nothing outlasts it.

    Raises:
        EngineError: On entering: nobody answers there.
    """
    # An empty context, because reading the system's certificates takes longer than all else here.
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(socket), verify=no_tls),
        base_url="http://engine",
        timeout=ANSWER_TIME,
        trust_env=False,  # a proxy of the environment is not for a socket of this machine
    ) as client:
        engine = DockerEngine(client)
        await engine.greet()
        yield engine


@final
class DockerEngine:
    """An engine that answered; made by `connect`.

    Each method raises `EngineError` if the engine refuses or does not answer in time.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._version = ""

    async def greet(self) -> None:
        """Ask for the version of the API that it speaks, and use that."""
        answer = await self._ask("GET", "/_ping")
        version = answer.headers.get("Api-Version", "")
        self._version = f"/v{version}" if version else ""

    async def has_image(self, image: str) -> bool:
        """Tell whether the image is there."""
        return await self._ask_or_none("GET", f"/images/{image}/json") is not None

    async def pull(self, image: str) -> None:
        """Fetch the image, unless five minutes pass without any progress."""
        last = image.rpartition("/")[2]
        # Without a tag the engine would fetch all of them.
        name = image if ":" in last or "@" in last else f"{image}:latest"
        asked = f"pull {name}"
        query = self._client.build_request(
            "POST",
            f"{self._version}/images/create",
            params={"fromImage": name},
            timeout=httpx.Timeout(ANSWER_TIME, read=_PULL_TIME),
        )
        async with self._streaming(query, asked) as answer:
            async for line in answer.aiter_lines():
                # It says 200 before it knows.
                reason = _message(line, "error")
                if reason is not None:
                    raise EngineError(asked, answer.status_code, reason)

    async def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Make a container and return its id."""
        answer = await self._ask(
            "POST", "/containers/create", params={"name": name}, json=body, timeout=_START_TIME
        )
        return str(_mapping(answer.text)["Id"])

    async def start(self, id: str) -> None:
        """Start a container."""
        await self._ask("POST", f"/containers/{id}/start", timeout=_START_TIME)

    async def state(self, id: str) -> Mapping[str, object] | None:
        """Return the `State` of a container; None if there is no such container."""
        answer = await self._ask_or_none("GET", f"/containers/{id}/json")
        if answer is None:
            return None
        state = _mapping(answer.text).get("State")
        return cast("Mapping[str, object]", state) if isinstance(state, dict) else {}

    async def logs(self, id: str, *, follow: bool) -> AsyncGenerator[Frame]:
        """Yield the output of a container so far, and with `follow` until it has ended."""
        query = self._client.build_request(
            "GET",
            f"{self._version}/containers/{id}/logs",
            params={"follow": str(int(follow)), "stdout": "1", "stderr": "1"},
            timeout=httpx.Timeout(ANSWER_TIME, read=None if follow else ANSWER_TIME),
        )
        frames = LogFrames()
        async with self._streaming(query, f"logs {id}") as answer:
            async for part in answer.aiter_bytes():
                for frame in frames.feed(part):
                    yield frame

    async def stop(self, id: str, grace: float) -> None:
        """Ask a container to end, kill it after `grace` seconds, and wait until it has ended."""
        seconds = str(math.ceil(grace))
        timeout = grace + ANSWER_TIME
        path = f"/containers/{id}/stop"
        await self._ask_or_none("POST", path, params={"t": seconds}, timeout=timeout)

    async def kill(self, id: str) -> None:
        """Kill a container; nothing happens if it does not run."""
        try:
            await self._ask_or_none("POST", f"/containers/{id}/kill")
        except EngineError as error:
            # Podman says 500 for a container that has ended.
            if error.status != _CONFLICT and "not running" not in str(error):
                raise

    async def remove(self, id: str) -> None:
        """Kill and remove a container with its anonymous volumes; nothing happens if it is gone."""
        try:
            await self._ask_or_none("DELETE", f"/containers/{id}", params={"force": "1", "v": "1"})
        except EngineError as error:
            if error.status != _CONFLICT:  # it is being removed already
                raise

    async def containers(self, labels: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return id and name of each container that has all these labels, oldest first."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        params = {"all": "1", "filters": json.dumps(filters)}
        answer = await self._ask("GET", "/containers/json", params=params)
        found = cast("list[dict[str, Any]]", json.loads(answer.text))
        found.sort(key=lambda one: float(one.get("Created", 0)))
        return [(str(one["Id"]), _name(one)) for one in found]

    async def _ask_or_none(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Ask; return None if the subject of the question does not exist."""
        try:
            return await self._ask(method, path, **options)
        except EngineError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        asked = f"{method} {path}"
        try:
            answer = await self._client.request(method, f"{self._version}{path}", **options)
        except httpx.HTTPError as error:
            raise EngineError(asked, None, str(error) or type(error).__name__) from error
        _accept(asked, answer)
        return answer

    @asynccontextmanager
    async def _streaming(self, query: httpx.Request, asked: str) -> AsyncGenerator[httpx.Response]:
        try:
            answer = await self._client.send(query, stream=True)
            async with aclosing(answer):
                if answer.status_code >= _HTTP_ERROR:
                    await answer.aread()
                _accept(asked, answer)
                yield answer
        except httpx.HTTPError as error:
            raise EngineError(asked, None, str(error) or type(error).__name__) from error


def _accept(asked: str, answer: httpx.Response) -> None:
    if answer.status_code >= _HTTP_ERROR:
        reason = _message(answer.text, "message") or answer.reason_phrase
        raise EngineError(asked, answer.status_code, " ".join(reason.split()))


def _mapping(text: str) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", json.loads(text))


def _message(text: str, key: str) -> str | None:
    """Return the text of a JSON object under `key`; None if it is not an object or has none."""
    try:
        value = cast("object", json.loads(text))
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    said = cast("dict[str, object]", value).get(key)
    return said if isinstance(said, str) else None


def _name(container: Mapping[str, Any]) -> str:
    names = cast("list[str]", container.get("Names") or [""])
    return names[0].removeprefix("/")
