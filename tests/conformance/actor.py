"""Children for otpy that follow the script of a scenario, in each kind of child.

| kind | `start` is | ends by itself when |
|---|---|---|
| announced | a coroutine function with `task_status` | its cue comes |
| plain | a coroutine function | its cue comes |
| entered | a factory of an async context manager | it calls `exit` of its own process |
| server | a `GenServer` with plain callbacks, unless these must wait | it is cast a word |
| async_server | a `GenServer` with async callbacks | it is cast a word |
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Exit,
    GenServer,
    Ignore,
    Killed,
    Normal,
    Restart,
    Shutdown,
    Strategy,
    SupervisorSpec,
)
from otpy._core.reason import FailedToStart
from otpy.server import Init
from otpy.server import Stop as StopServer
from tests.conformance.scenario import HELD, Sup, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy import ExitReason
    from tests.conformance.scenario import Limit, Node

KINDS: Final = ("announced", "plain", "entered", "server", "async_server")
PERIOD = 1000.0  # seconds: the supervisor forgets no restart
ASKED = "asked"


class Boom(Exception):
    """A crash in the script."""


class Nope(Exception):
    """A failing start in the script."""


@final
class Cast:
    """All children of one run.

    Attributes:
        hints: A function for each living child that makes it end by itself, with a reason.
        held: The children that are held up, with a future that releases each.
        unplayed: Plain children that have started and not yet taken their first step.
    """

    def __init__(self, event: Callable[[str], None], kind: str, *, made: bool = False) -> None:
        self.hints: dict[str, Callable[[str], object]] = {}
        self.held: dict[str, asyncio.Future[None]] = {}
        self.unplayed: dict[str, Worker] = {}
        self.event = event
        self._kind = kind
        self._made = made
        self._starts: dict[str, int] = {}
        self._killed: set[str] = set()

    def spec(self, node: Node, above: str = "") -> Any:
        """Return the otpy spec of `node`."""
        path = f"{above}{node.id}"
        role: dict[str, Any] = {
            "restart": Restart(node.restart),
            "shutdown": limit(node.shutdown),
            "significant": node.significant,
        }
        if isinstance(node, Worker):
            life = Life(self, node, path)
            match self._kind:
                case "announced":
                    return ChildSpec(node.id, life.announced, **role)
                case "plain":
                    return ChildSpec(node.id, life.plain, **role)
                case "entered":
                    return ChildSpec(node.id, partial(Entered, life), **role)
                case "server":
                    return ChildSpec(node.id, Server, (life,), **role)
                case _:
                    return ChildSpec(node.id, AsyncServer, (life,), **role)
        if not above:
            role = {}
        if node.is_pool:
            return DynamicSupervisor.spec(
                node.id,
                intensity=node.intensity,
                period=PERIOD,
                auto_shutdown=AutoShutdown(node.auto_shutdown),
                **role,
            )

        def children() -> list[Any]:
            return [self.spec(child, f"{path}/") for child in node.children]

        return SupervisorSpec(
            node.id,
            children if self._made else children(),
            strategy=Strategy(node.strategy),
            intensity=node.intensity,
            period=PERIOD,
            auto_shutdown=AutoShutdown(node.auto_shutdown),
            **role,
        )

    def kill(self, process: otpy.Process) -> None:
        """Kill a child; its script then knows that it was not asked."""
        self._killed.add(process.path)
        process.kill()

    def started(self, process: otpy.Process) -> None:
        """Record that a child was started, which may not run yet."""
        life = getattr(getattr(process.spec, "start", None), "__self__", None)
        if self._kind == "plain" and isinstance(life, Life):
            self.unplayed[process.path] = life.script

    def begun(self, path: str) -> None:
        """Record that a life has begun, and has not been killed."""
        self._killed.discard(path)

    def was_killed(self, path: str) -> bool:
        """Whether the script killed the latest life."""
        return path in self._killed

    def next_start(self, script: Worker, path: str) -> str:
        """Return the result of the start that begins now."""
        count = self._starts[path] = self._starts.get(path, 0) + 1
        return script.starts[count - 1] if count <= len(script.starts) else "s"

    async def wait(self, path: str, milliseconds: int) -> None:
        """Wait for this time, or until a step releases the child, if that is `HELD`."""
        if milliseconds == HELD:
            self.held[path] = asyncio.get_running_loop().create_future()
            try:
                await self.held[path]
            finally:
                del self.held[path]
        elif milliseconds:
            await asyncio.sleep(milliseconds / 1000)


@final
class Life:
    """The script of one child, in the steps that all kinds of children share."""

    def __init__(self, cast: Cast, script: Worker, path: str) -> None:
        self.cast = cast
        self.script = script
        self.path = path

    @property
    def begins_slowly(self) -> bool:
        """Whether the next start of the child has to wait."""
        script = self.script
        count = self.cast._starts.get(self.path, 0)
        return bool(script.start_takes) or script.starts[count : count + 1] in {"w", "W"}

    async def begin_slowly(self) -> str:
        """Start as the script says, in the time that it says; return the result."""
        await self.cast.wait(self.path, self.script.start_takes)
        how = self.cast.next_start(self.script, self.path)
        if how in {"w", "W"}:
            await self.cast.wait(self.path, HELD)
        self._begin({"w": "s", "W": "f"}.get(how, how))
        return how

    def begin(self) -> str:
        """Start at once; return the result."""
        how = self.cast.next_start(self.script, self.path)
        self._begin(how)
        return how

    def _begin(self, how: str) -> None:
        match how:
            case "f" | "e" | "h":
                self.cast.event(f"fail {self.path}")
                raise Exit(Shutdown()) if how == "h" else Nope(self.path)
            case "i":
                self.cast.event(f"ignore {self.path}")
                raise Ignore
            case _:
                self.cast.begun(self.path)
                self.cast.event(f"start {self.path}")

    def die(self, word: str) -> None:
        """End by itself."""
        self.cast.event(f"die {self.path} {word}")
        raise_reason(word)

    def may_act(self) -> bool:
        """Whether the child was asked to end, was not killed, and notices requests."""
        brutal = self.script.shutdown == "brutal_kill"
        silent = self.script.ends == "silent"
        return not (brutal or silent or self.cast.was_killed(self.path))

    async def end(self) -> None:
        """End when asked, as the script says."""
        self.asked()
        await self.cast.wait(self.path, self.script.takes)
        if self.script.ends == "refuses":
            await asyncio.get_running_loop().create_future()
        self.ended()

    @property
    def ends_slowly(self) -> bool:
        """Whether the end of the child has to wait."""
        return bool(self.script.takes) or self.script.ends == "refuses"

    def asked(self) -> None:
        """Record that the child was asked to end."""
        self.cast.hints.pop(self.path, None)
        self.cast.event(f"asked {self.path}")

    def ended(self) -> None:
        """Record the end that the script wants; raise its reason."""
        self.cast.event(f"end {self.path} {self.script.ends}")

    # --- coroutine functions ---------------------------------------------------------------------

    async def announced(self, *, task_status: Any) -> None:
        """Live as a child that reports when it is ready."""
        cue: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        how = await self.begin_slowly() if self.begins_slowly else self.begin()
        if how == "d":
            cue.set_result("boom")
        task_status.started()
        await self._lives(cue)

    async def plain(self) -> None:
        """Live as a child that is ready at once."""
        self.cast.unplayed.pop(self.path, None)
        self.begin()
        await self._lives(asyncio.get_running_loop().create_future())

    async def _lives(self, cue: asyncio.Future[str]) -> None:
        def hint(word: str) -> None:
            if not cue.done():
                cue.set_result(word)

        self.cast.hints[self.path] = hint
        traps = self.script.ends != "silent"
        listener = self._listen(hint) if self.script.style == "asked" and traps else None
        try:
            word = await cue
        except asyncio.CancelledError:
            if not self.may_act():
                raise
            word = ASKED
        finally:
            self.cast.hints.pop(self.path, None)
            if listener is not None:
                listener.cancel()
        if word != ASKED:
            self.die(word)
        elif self.may_act():
            await self.end()
            if self.script.ends == "normal" and self.script.style == "asked":
                raise Exit(Normal())  # a return complies, with the requested reason
            raise_reason(self.script.ends)

    @staticmethod
    def _listen(hint: Callable[[str], None]) -> asyncio.Task[None]:
        """Wait for the request to stop, beside the cue."""

        def asked(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                hint(ASKED)

        task = asyncio.ensure_future(otpy.current().stop_requested())
        task.add_done_callback(asked)
        return task


@final
class Entered(AbstractAsyncContextManager[None]):
    """A child that is a context manager."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._word = ASKED

    async def __aenter__(self) -> None:
        """Start."""
        life = self._life
        if life.begins_slowly:
            await life.begin_slowly()
        else:
            life.begin()
        process, own = otpy.current(), copy_context()

        def hint(word: str) -> None:
            self._word = word
            own.run(process.exit, reason(word))

        life.cast.hints[life.path] = hint

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        """End."""
        life = self._life
        life.cast.hints.pop(life.path, None)
        if self._word != ASKED:
            life.cast.event(f"die {life.path} {self._word}")  # its reason is the requested one
        elif kind is None and life.may_act():
            await life.end()
            if life.script.ends == "normal":
                raise Exit(Normal())
            raise_reason(life.script.ends)


class Server(GenServer[Any, Any, Any]):
    """A child that is a server, whose callbacks are plain unless they must wait."""

    dies = False

    def init(self, life: Life) -> Any:
        """Start."""
        if life.begins_slowly:
            return self._init_slowly(life)
        life.begin()
        return self._begun(life)

    async def _init_slowly(self, life: Life) -> Init[Life]:
        await life.begin_slowly()
        return self._begun(life)

    def _begun(self, life: Life) -> Init[Life]:
        process = otpy.current()

        def hint(word: str) -> None:
            ref: otpy.server.ServerRef[str, object] = otpy.server.ServerRef(process)
            ref.cast(word)

        life.cast.hints[life.path] = hint
        return Init(life)

    def handle_cast(self, request: Any, state: Any) -> Any:
        """End by itself."""
        self.dies = True
        state.cast.hints.pop(state.path, None)
        state.cast.event(f"die {state.path} {request}")
        if request == "boom":
            raise Boom
        stop: StopServer[Any, Any] = StopServer(reason(request), state)
        return stop

    def terminate(self, reason: ExitReason, state: Life) -> Any:
        """End as asked."""
        if self.dies or not state.may_act():
            return None
        if state.ends_slowly:
            return self._terminate_slowly(state)
        state.asked()
        state.ended()
        return self._raise(state)

    async def _terminate_slowly(self, state: Life) -> None:
        await state.end()
        self._raise(state)

    @staticmethod
    def _raise(life: Life) -> None:
        if life.script.ends == "normal":
            raise Exit(Normal())
        raise_reason(life.script.ends)


@final
class AsyncServer(Server):
    """The same server, with coroutine functions for all callbacks."""

    async def init(self, life: Life) -> Init[Life]:
        """Start."""
        await asyncio.sleep(0)
        if life.begins_slowly:
            return await self._init_slowly(life)
        life.begin()
        return self._begun(life)

    async def handle_cast(self, request: Any, state: Any) -> Any:
        """End by itself."""
        return super().handle_cast(request, state)

    async def terminate(self, reason: ExitReason, state: Life) -> None:
        """End as asked."""
        slowly: Any = super().terminate(reason, state)
        if slowly is not None:
            await slowly


def limit(script: Limit) -> Any:
    """Return a shutdown limit in otpy's terms."""
    match script:
        case "brutal_kill":
            return BRUTAL_KILL
        case "infinity":
            return INFINITY
        case _:
            return float(script) / 1000


def raise_reason(word: str) -> None:
    """End the calling child with a reason."""
    if word == "normal":
        return
    if word == "boom":
        raise Boom
    raise Exit(reason(word))


def reason(word: str) -> ExitReason:
    """Return the exit reason that `word` stands for."""
    match word:
        case "normal":
            return Normal()
        case "shutdown":
            return Shutdown()
        case "killed":
            return Killed()
        case "boom":
            return Crashed(Boom())
        case _:
            return Shutdown(word.partition(":")[2])


def word_of(found: ExitReason) -> str:
    """Return the word for an exit reason."""
    match found:
        case Shutdown(FailedToStart() as failed):
            return f"failed:{failed.child_id}:{word_of(failed.reason)}"
        case Shutdown(None):
            return "shutdown"
        case Shutdown(detail):
            return f"shutdown:{detail}"
        case Crashed(Boom() | Nope() as error):
            return type(error).__name__.lower()
        case _:
            return str(found)


def describe(spec: Any) -> str:
    """Return a child spec in one line, as the trace has it."""
    shutdown = spec.shutdown
    limits = {BRUTAL_KILL: "brutal_kill", INFINITY: "infinity"}
    shown = limits[shutdown] if shutdown in limits else str(round(shutdown * 1000))
    significant = str(spec.significant).lower()
    return f"{spec.id} {spec.restart.value} {shown} {significant} {spec.type.value}"


__all__ = ["KINDS", "Boom", "Cast", "Nope", "Sup", "Worker", "describe", "reason", "word_of"]
