"""pykka: actors, each in a thread of its own; it has no supervisors.

A caller blocks its thread until the reply is there, so that a crowd calls one after the other.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from benchmarks.subject import Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_PYKKA: Final[Any] = import_module("pykka")  # installed on demand, unknown to type checkers


def _on_receive(_: Any, message: Any) -> Any:
    if callable(message):
        message()
    return message


# Made by hand instead of by `class`, because the base is not known to type checkers.
_Echo: Final[Any] = type("Echo", (_PYKKA.ThreadingActor,), {"on_receive": _on_receive})


@final
class _Server:
    def __init__(self, ref: Any) -> None:
        self._ref = ref

    async def call(self, request: Any) -> Any:
        return self._ref.ask(request)

    def cast(self, request: Any) -> None:
        if callable(request):  # it belongs into the thread of the loop
            request = partial(asyncio.get_running_loop().call_soon_threadsafe, request)
        self._ref.tell(request)


@final
class Pykka(Subject):
    """Actors of pykka."""

    name: ClassVar[str] = "pykka"

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[_Server]:
        """One actor."""
        ref = _Echo.start()
        yield _Server(ref)
        ref.stop()

    @asynccontextmanager
    async def servers(self, count: int, *, asynchronous: bool) -> AsyncGenerator[None]:
        """As many actors, and so threads; nobody supervises them."""
        if asynchronous:
            self._no("server with async handlers")
        refs = [_Echo.start() for _ in range(count)]
        yield
        for ref in refs:
            ref.stop()
