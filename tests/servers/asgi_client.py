"""A server's side of the ASGI protocol, inside the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, final

import httpx

App = Callable[[Any, Any, Any], Any]


@final
class Host:
    """`async with Host(app) as host`: the life of a server, by the lifespan protocol.

    Attributes:
        said: The lifespan messages of the application, without the common prefix.
        texts: The texts of these messages, in the same order.
        scope: The scope of the lifespan.
    """

    def __init__(self, app: App, *, keeps_state: bool = True) -> None:
        self.said: list[str] = []
        self.texts: list[str] = []
        self.scope: dict[str, Any] = {"type": "lifespan", "asgi": {"version": "3.0"}}
        if keeps_state:
            self.scope["state"] = {}
        self._app = app
        self._to_app: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._to_app.put_nowait({"type": "lifespan.startup"})
        self.task = asyncio.create_task(self._live(), name="lifespan")
        await self._news.wait()
        return self

    async def _live(self) -> None:
        try:
            await self._app(self.scope, self._to_app.get, self._hear)
        finally:
            self._news.set()

    async def _hear(self, message: dict[str, str]) -> None:
        self.said.append(message["type"].removeprefix("lifespan."))
        self.texts.append(message.get("message", ""))
        self._news.set()

    async def __aexit__(self, *_: object) -> None:
        self._to_app.put_nowait({"type": "lifespan.shutdown"})
        with suppress(Exception):
            await self.task

    async def get(self, path: str = "/") -> httpx.Response:
        """Return the answer to a request, with the state of the server in its scope."""
        state = self.scope.get("state")

        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            if state is not None:
                scope = {**scope, "state": dict(state)}
            await self._app(scope, receive, send)

        transport = httpx.ASGITransport(with_state)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)
