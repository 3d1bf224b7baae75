"""A server as one writes it by hand: a task, a deque of messages, a future for each reply."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, final


@final
class Server:
    """Replies to each request with the request."""

    __slots__ = ("_messages", "_waker")

    def __init__(self) -> None:
        """Have no message; the mailbox is made with the first."""
        self._messages: deque[tuple[asyncio.Future[Any] | None, Any]] | None = None
        self._waker: asyncio.Future[None] | None = None

    async def call(self, request: Any) -> Any:
        """Send a request and wait for the reply."""
        future = asyncio.get_running_loop().create_future()
        self._post(future, request)
        return await future

    def cast(self, request: Any) -> None:
        """Send a request that gets no reply."""
        self._post(None, request)

    def _post(self, future: asyncio.Future[Any] | None, request: Any) -> None:
        if self._messages is None:
            self._messages = deque()
        self._messages.append((future, request))
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def serve(self) -> None:
        """Be the body of the server's task, with plain handlers."""
        while True:
            future, request = await self._next()
            if future is None:
                self.handle_cast(request)
            elif not future.done():
                future.set_result(self.handle_call(request))

    async def serve_asynchronously(self) -> None:
        """Be the body of the server's task, with `async` handlers."""
        while True:
            future, request = await self._next()
            if future is None:
                self.handle_cast(request)
            elif not future.done():
                future.set_result(await self.handle_call_asynchronously(request))

    async def _next(self) -> tuple[asyncio.Future[Any] | None, Any]:
        while not self._messages:
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker
            self._waker = None
        return self._messages.popleft()

    @staticmethod
    def handle_call(request: Any) -> Any:
        """Serve a call."""
        return request

    async def handle_call_asynchronously(self, request: Any) -> Any:
        """Serve a call."""
        return request

    @staticmethod
    def handle_cast(request: Any) -> None:
        """Serve a cast."""
        if callable(request):
            request()
