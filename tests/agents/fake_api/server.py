"""The server itself: one loopback port that speaks the APIs of all vendors, after a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, cast, final

from aiohttp import web
from attrs import frozen

from tests.agents.fake_api.anthropic import Messages
from tests.agents.fake_api.dialect import Dialect
from tests.agents.fake_api.gemini import GenerateContent
from tests.agents.fake_api.openai_chat import ChatCompletions
from tests.agents.fake_api.openai_responses import Responses
from tests.agents.fake_api.replies import Answer, Cut, Garbage, Hang, Refuse, Reply, UseTool

__all__ = ["Exchange", "FakeApi"]

_DIALECTS: Final[Sequence[Dialect]] = (
    Messages(),
    Responses(),
    ChatCompletions(),
    GenerateContent(),
)


@frozen
class Exchange:
    """One request for an answer of the model, and its reply.

    Attributes:
        dialect: Name of the API.
        path: Of the request.
        body: Its JSON document.
        headers: Its headers, names in lower case.
        reply: What was answered.
    """

    dialect: str
    path: str
    body: Mapping[str, object]
    headers: Mapping[str, str]
    reply: Reply


@final
class FakeApi:
    """A vendor on loopback that answers after a script; used by `async with`.

    The first request for an answer gets the first reply, the next one the next, and the last reply
    is repeated for ever. Other requests of a CLI, such as those for lists of models, are not
    counted and get an empty document.

    Attributes:
        url: Where it listens, without a path, for example `http://127.0.0.1:40123`.
        exchanges: The requests for an answer so far.
        strays: Other requests so far, as `METHOD path`.
    """

    def __init__(self, *script: Reply) -> None:
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.strays: list[str] = []
        self._script = script or (Answer(),)
        self._more = asyncio.Event()
        # A handler is cancelled when its client goes away, or a hanging one would never end.
        server = web.Server(self._answer, handler_cancellation=True)
        # Limits the wait for clients that stay; 0 would mean for ever.
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)

    async def __aenter__(self) -> FakeApi:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        (address,) = cast("list[tuple[str, int]]", self._runner.addresses)
        self.url = f"http://{address[0]}:{address[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    async def asked(self, times: int = 1) -> None:
        """Wait until that many requests for an answer have come."""
        while len(self.exchanges) < times:
            self._more.clear()
            await self._more.wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        dialect = next((known for known in _DIALECTS if known.understands(path)), None)
        if dialect is None or request.method != "POST":
            self.strays.append(f"{request.method} {path}")
            return web.json_response({"data": [], "models": []})
        body = await _body(request)
        reply = self._script[min(len(self.exchanges), len(self._script) - 1)]
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.exchanges.append(Exchange(dialect.name, path, body, headers, reply))
        self._more.set()
        return await _perform(request, dialect, body, reply)


async def _body(request: web.BaseRequest) -> Mapping[str, object]:
    # `request.read` refuses more than 1 MiB, which no vendor does.
    read = await request.content.read()
    found: object = json.loads(read or b"{}")
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


async def _perform(
    request: web.BaseRequest, dialect: Dialect, body: Mapping[str, object], reply: Reply
) -> web.StreamResponse:
    model = str(body.get("model") or request.path.rpartition("/")[2].partition(":")[0])
    streamed = dialect.wants_stream(request.path, body)
    if isinstance(reply, UseTool):
        await asyncio.sleep(reply.pause)
    match reply:
        case Refuse(error):
            refusal = dialect.refusal(error)
            return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
        case Hang():
            forever: asyncio.Future[web.StreamResponse]
            forever = asyncio.get_running_loop().create_future()
            return await forever
        case Garbage():
            page = "<html><body>Something went wrong on the way</body></html>"
            return web.Response(text=page, content_type="application/json")
        case Cut():
            return await _cut(request, dialect, model, streamed=streamed)
        case Answer() | UseTool() if not streamed:
            return web.json_response(dialect.document(model, reply))
        case Answer() | UseTool():
            pause = reply.pause if isinstance(reply, Answer) else 0.0
            return await _stream(request, dialect.stream(model, reply), pause)


async def _stream(
    request: web.BaseRequest, events: Sequence[str], pause: float
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await asyncio.sleep(pause)
        await response.write(event.encode())
    await response.write_eof()
    return response


async def _cut(
    request: web.BaseRequest, dialect: Dialect, model: str, *, streamed: bool
) -> web.StreamResponse:
    if streamed:
        kind, half = "text/event-stream", dialect.stream(model, Answer())[0]
    else:
        kind, half = "application/json", json.dumps(dialect.document(model, Answer()))[:40]
    response = web.StreamResponse(headers={"content-type": kind})
    await response.prepare(request)
    await response.write(half.encode())
    # The client must see the half before it sees the end.
    await asyncio.sleep(0.05)
    if request.transport is not None:
        request.transport.abort()
    return response
