"""Children that follow the script of a scenario, for otpy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Crashed,
    Exit,
    Ignore,
    Killed,
    Normal,
    Restart,
    Shutdown,
    Strategy,
    SupervisorSpec,
)
from otpy._core.reason import FailedToStart
from tests.conformance.scenario import Sup, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy import ExitReason
    from tests.conformance.scenario import Limit, Node

PERIOD = 1000.0  # seconds: no restart is ever forgotten
ASKED = "asked"


class Boom(Exception):
    """A crash that the script wants."""


class Nope(Exception):
    """A failing start that the script wants."""


@final
class Cast:
    """All the children of one run.

    Attributes:
        cues: What each living child waits for: the reason to end with.
    """

    def __init__(self, event: Callable[[str], None]) -> None:
        self.cues: dict[str, asyncio.Future[str]] = {}
        self._event = event
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
            return ChildSpec(node.id, self.play, (node, path), **role)
        if not above:
            role = {}
        return SupervisorSpec(
            node.id,
            [self.spec(child, f"{path}/") for child in node.children],
            strategy=Strategy(node.strategy),
            intensity=node.intensity,
            period=PERIOD,
            auto_shutdown=AutoShutdown(node.auto_shutdown),
            **role,
        )

    def kill(self, process: otpy.Process) -> None:
        """Kill a child; it will know that it was not asked."""
        self._killed.add(process.path)
        process.kill()

    async def play(self, script: Worker, path: str, *, task_status: Any) -> None:
        """Live one life."""
        if script.start_takes:
            await asyncio.sleep(script.start_takes / 1000)
        how = self._next_start(script, path)
        match how:
            case "f" | "e" | "h":
                self._event(f"fail {path}")
                raise Exit(Shutdown()) if how == "h" else Nope(path)
            case "i":
                self._event(f"ignore {path}")
                raise Ignore
            case _:
                pass
        self._killed.discard(path)
        self._event(f"start {path}")
        cue = self.cues[path] = asyncio.get_running_loop().create_future()
        task_status.started()
        if how == "d":
            cue.set_result("boom")
        traps = script.ends != "silent"
        listener = self._listen(cue) if script.style == "asked" and traps else None
        try:
            word = await cue
        except asyncio.CancelledError:
            if not self._may_act(script, path):
                raise
            word = ASKED
        finally:
            if listener is not None:
                listener.cancel()
        if word != ASKED:
            self._event(f"die {path} {word}")
            raise_reason(word)
        elif self._may_act(script, path):
            await self._end(script, path)

    def _next_start(self, script: Worker, path: str) -> str:
        count = self._starts[path] = self._starts.get(path, 0) + 1
        return script.starts[count - 1] if count <= len(script.starts) else "s"

    def _listen(self, cue: asyncio.Future[str]) -> asyncio.Task[None]:
        """Wait to be asked, beside the cue."""

        def asked(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and not cue.done():
                cue.set_result(ASKED)

        task = asyncio.ensure_future(otpy.current().stop_requested())
        task.add_done_callback(asked)
        return task

    def _may_act(self, script: Worker, path: str) -> bool:
        """Whether it was asked to end, and not killed, and would notice."""
        brutal = script.shutdown == "brutal_kill"
        return not brutal and script.ends != "silent" and path not in self._killed

    async def _end(self, script: Worker, path: str) -> None:
        self._event(f"asked {path}")
        if script.takes:
            await asyncio.sleep(script.takes / 1000)
        if script.ends == "refuses":
            await asyncio.get_running_loop().create_future()
        self._event(f"end {path} {script.ends}")
        if script.ends == "normal" and script.style == "asked":
            raise Exit(Normal())  # to return is to comply: its reason would be the one requested
        raise_reason(script.ends)


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


__all__ = ["Boom", "Cast", "Nope", "Sup", "Worker", "describe", "reason", "word_of"]
