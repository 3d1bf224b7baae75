"""What is measured: one way to supervise, behind one interface for all workloads.

A subject does what each method says by the means of its own project, and refuses (`Unsupported`)
what its project cannot do. Everything starts and stops with an `async with` block: entering
returns when all children exist, leaving when none does. What can be
described beforehand is described before the block is entered.
"""

# ruff: noqa: ARG002 - these methods only refuse

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    Body: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

NO_LIMIT = 10**9
"""Restarts per `PERIOD` that no workload reaches."""
PERIOD = 5
"""Seconds of the restart window."""


class Boom(Exception):
    """What children crash of."""


class Unsupported(Exception):
    """The project cannot do this; the text says why."""


class Pool(Protocol):
    """A supervisor whose children are started one by one."""

    async def start(self) -> object:
        """Start one more child."""
        ...


class Server(Protocol):
    """A server that replies to a request with the request."""

    async def call(self, request: Any) -> Any:
        """Send a request and wait for the reply."""
        ...

    def cast(self, request: Any) -> Any:
        """Send a request that gets no reply; if it is callable, the server calls it.

        May be a coroutine function.
        """
        ...


class Names(Protocol):
    """A registry."""

    def lookup(self, key: object) -> object:
        """Find what is registered."""
        ...

    def dispatch(self, key: object, fn: Callable[[Any], object]) -> None:
        """Give all that is registered under `key` to `fn`."""
        ...


class Subject:
    """One way to supervise. Whatever a subclass leaves out, its project cannot do."""

    name: ClassVar[str]

    def _no(self, what: str) -> NoReturn:
        raise Unsupported(f"{self.name} has no {what}")

    def group(
        self, bodies: Sequence[Body], *, together: bool = False, hooks: int = 0
    ) -> AbstractAsyncContextManager[object]:
        """Start `bodies` in order, restart each that ends, stop them in reverse order.

        Args:
            bodies: Coroutine functions, one for each child.
            together: Whether the end of one restarts them all.
            hooks: How many functions hear of everything that happens; with none of them, who
                does by default.
        """
        self._no("supervisor for a list of children")

    def pool(self, body: Body, *, permanent: bool) -> AbstractAsyncContextManager[Pool]:
        """Begin with no child; each is a `body`, is restarted if it is `permanent`, else dropped.

        All are stopped at the same time.
        """
        self._no("supervisor for children that come and go")

    async def escalate(self, depth: int, body: Body) -> None:
        """Run `body` below `depth` supervisors that allow no restart, until the root gives up."""
        self._no("escalation from level to level")

    def server(self) -> AbstractAsyncContextManager[Server]:
        """Run a supervised server with plain handlers."""
        self._no("request server")

    def servers(self, count: int, *, asynchronous: bool) -> AbstractAsyncContextManager[object]:
        """Run `count` supervised servers, with plain or `async` handlers, that nobody talks to."""
        self._no("request server of that kind")

    def names(self, count: int) -> AbstractAsyncContextManager[Names]:
        """Run `count` children, each registered by its number, all of them under `"all"` too."""
        self._no("registry")

    async def monitored(self, count: int, begin: Callable[[], None]) -> None:
        """Watch one process `count` times, call `begin`, end it, wait until all have heard."""
        self._no("monitors")

    async def linked(self, count: int, begin: Callable[[], None]) -> None:
        """Link `count` processes to one, call `begin`, end that one, wait until all have ended."""
        self._no("links")
