"""The callbacks of a `GenServer`, subject to faults."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

from otpy.behaviours.gen_server import GenServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._core.reason import ExitReason
    from otpy.behaviours.callbacks import Callbacks
    from otpy.behaviours.mailbox import Caller


@final
class FaultyCallbacks(GenServer[Any, Any, Any]):
    """Hands everything on to a server's own callbacks, as far as it comes to that."""

    def __init__(
        self,
        own: Callbacks,
        message: Callable[[], object],
        clean_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Call `message` before each message is served, and `clean_up` after `terminate`."""
        self._callbacks = own
        self._message = message
        self._clean_up = clean_up

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Begin, as the server does."""
        return self._callbacks.init(*args, **kwargs)

    def handle_call(self, request: Any, caller: Caller[Any], state: Any) -> Any:
        """Serve a call, as the server does."""
        self._message()
        return self._callbacks.handle_call(request, caller, state)

    def handle_cast(self, request: Any, state: Any) -> Any:
        """Serve a cast, as the server does."""
        self._message()
        return self._callbacks.handle_cast(request, state)

    def handle_info(self, message: object, state: Any) -> Any:
        """Take another message, as the server does."""
        self._message()
        return self._callbacks.handle_info(message, state)

    def handle_continue(self, value: Any, state: Any) -> Any:
        """Go on, as the server does."""
        return self._callbacks.handle_continue(value, state)

    async def terminate(self, reason: ExitReason, state: Any) -> None:
        """Clean up, as the server does, and then as was planned."""
        done: Any = self._callbacks.terminate(reason, state)
        if inspect.isawaitable(done):
            await done
        await self._clean_up()
