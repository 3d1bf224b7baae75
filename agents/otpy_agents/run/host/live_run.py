"""A run of this host: what outlives the lives of its task, and is seen from outside."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast, final

import anyio.to_thread
from attrs import frozen

from otpy import Crashed, ExitReason, Process
from otpy_agents.clock import Clock
from otpy_agents.errors import RunBroken
from otpy_agents.run.decide.result import RunResult
from otpy_agents.run.decide.state import RunState
from otpy_agents.run.host.facts import Fact, Listener, RunEnded, RunFact, RunLeft
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.gate import RunGate, Turn
from otpy_agents.run.host.job import Surroundings, record_of
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.stored_form import order_to_json
from otpy_agents.sandbox.behaviour import Identity, Sandbox
from otpy_agents.store.run_records import Lease
from otpy_agents.store.runs import RunStore

__all__ = ["LiveRun", "Site"]

FactT = TypeVar("FactT", bound=RunFact)


@final
@frozen(kw_only=True)
class Site:
    """What all runs of one host have in common.

    Attributes:
        store: Where they are stored.
        gate: The gate that lets them begin.
        around: What their attempts inherit.
        listeners: Their listeners.
        clock: Tells the time.
        turn: Asked before one goes on that has waited for its account; None: it does.
    """

    store: RunStore
    gate: RunGate
    around: Surroundings
    listeners: tuple[Listener, ...]
    clock: Clock
    turn: Turn | None = None

    def tell(self, fact: Fact) -> None:
        """Tell all listeners, whatever any of them raises."""
        for listener in self.listeners:
            try:
                listener(fact)
            except Exception as error:  # noqa: BLE001 - who listens must not disturb who runs
                context = {"message": f"listener {listener!r} raised", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)


@final
class LiveRun:
    """One run, as long as this host has to do with it.

    Args:
        id: Its id.
        site: The state shared with other runs.
        order: Its order.
        sandbox: Where its attempts are made.
        lease: The right to write to it.
        state: Where it stands, as stored.
        identities: What its attempts are found by, by their numbers, as an earlier host stored it.

    Attributes:
        clean: Takes the secrets that the order and this host know out of a text.
        lease: Of the present life of its task.
        state: As last stored.
        fresh: Whether no task has taken it up yet.
        known: Whether its beginning has been told.
        flight: The attempt that is being made; None between two.
        timer: The one timer of its task; None if it waits for nothing.
        result: How it ended; None until that is stored and told.
        error: Why this host has left it; None if it has not.
        gone: Set when it is over, and its supervisor has ended too.
    """

    def __init__(
        self,
        id: str,
        *,
        site: Site,
        order: RunOrder,
        sandbox: Sandbox,
        lease: Lease,
        state: RunState,
        identities: Mapping[int, Identity] | None = None,
    ) -> None:
        self.id = id
        self.site = site
        self.order = order
        self.sandbox = sandbox
        self.clean = site.around.redaction(order, site.around.environment)
        self.lease = lease
        self.state = state
        self.identities = identities or {}
        self.fresh = True
        self.known = False
        self.flight: Flight | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.result: RunResult | None = None
        self.error: Exception | None = None
        self.gone = asyncio.Event()
        self._task: Process | None = None
        self._answer = ""
        self._ended = asyncio.Event()
        self._birth = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether this host has done with it, one way or the other."""
        return self._ended.is_set()

    @property
    def answer(self) -> str:
        """The agent's answer in the current attempt, or else in the last one."""
        if self.flight is None:
            return self._answer
        return self.flight.answer or self.flight.transcript.answer

    @property
    def task(self) -> Process | None:
        """The present life of its task; None before the first."""
        return self._task

    @property
    def birth(self) -> asyncio.Event:
        """Is set when the next life of its task begins, or none will."""
        return self._birth

    def begin_life(self, task: Process) -> None:
        """Begin a life of its task."""
        self._task = task
        before, self._birth = self._birth, asyncio.Event()
        before.set()

    def land(self) -> None:
        """Forget the attempt: its end has been taken in, and stored."""
        if self.flight is not None:
            self._answer = self.answer
            self.flight = None

    def tell(self, kind: type[FactT], **attributes: Any) -> None:
        """Tell all listeners a fact about it."""
        fact = kind(run=self.id, at=self.site.clock(), **attributes)
        self.site.tell(cast("Fact", fact))

    # --- the end ----------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait until this host has done with it."""
        await self._ended.wait()

    def finish(self, result: RunResult) -> None:
        """Take the result: it is over, and that is stored."""
        if not self.over:
            self.result = result
            self._close()
            self.tell(RunEnded, result=result, answer=self.answer)

    def finish_as_stored(self, answer: str) -> None:
        """Finish it as it is stored: it was over before this host began, with this answer."""
        self._answer = answer
        self.finish(self.state.result())
        self.gone.set()

    def leave(self, error: Exception) -> None:
        """Stop working on it in this host."""
        if not self.over:
            self.error = error
            self._close()
            self.tell(RunLeft, error=error)

    def abandon(self, _process: Process, reason: ExitReason) -> None:
        """Leave it, since its supervisor has ended; if it is not over, something went wrong."""
        # The supervisor itself only says that it shut down; its task knows why.
        last = None if self._task is None else self._task.exit_reason
        self.leave(RunBroken(self.id, str(last if isinstance(last, Crashed) else reason)))
        self.gone.set()

    def stop_timer(self) -> None:
        """Wait for no time any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _close(self) -> None:
        self.stop_timer()
        self.site.gate.leave(self.id)
        self._ended.set()
        self._birth.set()

    # --- its folder -------------------------------------------------------------------------------

    @cached_property
    def order_json(self) -> str:
        """The order as it is stored, without secrets; it never changes."""
        return order_to_json(self.order, self.clean)

    @property
    def folder(self) -> Path:
        """Folder for private files of its attempts, writable by this user alone."""
        return self.site.store.files / self.id

    def record(self, number: int) -> Path:
        """Return the file for the exit of attempt `number`, which may not be there."""
        return record_of(self.folder_of(number))

    def folder_of(self, number: int) -> Path:
        """Return the folder of attempt `number`, whether it is there or not."""
        return self.folder / f"attempt-{number}"

    async def make_folder(self, number: int) -> Path:
        """Return the folder of attempt `number`, and make it."""
        folder = self.folder_of(number)
        await anyio.to_thread.run_sync(_make_private, folder, self.folder.parent)
        return folder

    async def remove_folder(self) -> None:
        """Remove the files that its attempts left there."""
        await anyio.to_thread.run_sync(shutil.rmtree, self.folder, True)


def _make_private(folder: Path, top: Path) -> None:
    for one in (top, folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)
