"""An ASGI application around another one, which runs a tree."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

if TYPE_CHECKING:
    from otpy._runtime.served_tree import ServedTree

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""Called with a scope, `receive` and `send`, as ASGI 3 has it."""

Message: TypeAlias = MutableMapping[str, Any]

_BODY: Final = b"Service Unavailable\n"
_TRY_AGAIN_LATER: Final = 1013


@final
class WrappedApp:
    """What `Lifespan.wrap` returns."""

    def __init__(self, make: Callable[[object], ServedTree], app: ASGIApp) -> None:
        """Wrap `app` with what `make` returns for it."""
        self._make = make
        self._app = app
        self._tree: ServedTree | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the tree for the lifespan of the server, and let `app` serve while it runs."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(scope, receive, send)
            return
        tree = self._tree
        if tree is None:
            msg = "the server has not run the lifespan of this application, which starts its tree"
            raise RuntimeError(msg)
        root = tree.root
        if root is None or not root.running:
            await _refuse(kind, receive, send)
            return
        state = scope.get("state", {})
        if "otpy" not in state:  # of a server that keeps no state
            scope = {**scope, "state": {**state, "otpy": root}}
        if kind != "http":
            await self._app(scope, receive, send)
            return
        tree.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            tree.request_done()

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        tree = self._tree = self._make(self._app)
        tree.counts_requests = True
        inner = _InnerLifespan(receive, send)
        try:
            await inner.hear_startup()
            async with tree as state:
                if "state" in scope:
                    scope["state"].update(state)
                await inner.run(self._app, scope)
        except Exception:
            if not inner.told_failure:
                when = "shutdown" if inner.started else "startup"
                text = traceback.format_exc()
                await send({"type": f"lifespan.{when}.failed", "message": text})
            raise
        if not inner.told_failure:
            await send(inner.last_word)


@final
class _InnerLifespan:
    """What passes between the server and the wrapped application about the lifespan.

    Attributes:
        started: Whether the server was told that the start is complete.
        told_failure: Whether the server was told that it failed.
        stopped: Whether the application has said how its stop went.
        last_word: Its message about that; the server gets it when the tree has ended.
    """

    def __init__(self, receive: Any, send: Any) -> None:
        self.started = False
        self.told_failure = False
        self.stopped = False
        self.last_word: Message = {"type": "lifespan.shutdown.complete"}
        self._receive = receive
        self._send = send
        self._startup: Message | None = None

    async def hear_startup(self) -> None:
        """Take the first message, which is for the application, when the tree is ready."""
        self._startup = await self._receive()

    async def run(self, app: ASGIApp, scope: Any) -> None:
        """Let `app` live until the server stops, or it has not started."""
        try:
            await app(scope, self._tell_app, self._hear_app)
        except Exception:
            if self.started or self.told_failure:
                raise
        if self.stopped or self.told_failure:
            return
        # It takes no part. As servers do, go on without it.
        if not self.started:
            await self._hear_app({"type": "lifespan.startup.complete"})
        await self._receive()

    async def _tell_app(self) -> Message:
        message, self._startup = self._startup, None
        return await self._receive() if message is None else message

    async def _hear_app(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.startup.complete":
                self.started = True
            case "lifespan.startup.failed":
                self.told_failure = True
            case _:
                self.last_word = message
                self.stopped = True
                return
        await self._send(message)


async def _refuse(kind: str, receive: Any, send: Any) -> None:
    """Answer that nothing is served now."""
    if kind == "websocket":
        await receive()  # the request to connect
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
        return
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_BODY))]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BODY})
