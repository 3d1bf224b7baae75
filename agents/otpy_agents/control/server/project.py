"""A project in the tree: its auditor and its loop, whose ends are halts and completions (C-29)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from anyio import sleep_forever
from anyio.to_thread import run_sync
from attrs import asdict

from otpy import AutoShutdown, ChildSpec, Restart, Strategy, SupervisorSpec
from otpy_agents.agent.runs import Runs
from otpy_agents.clock import CLOCK
from otpy_agents.completion import to_completion
from otpy_agents.control.audit import AUDIT, NOTHING, WRITTEN, AuditFile, AuditTrail
from otpy_agents.control.loop.machine import ControlLoop
from otpy_agents.control.loop.protocol import (
    AskAgent,
    ConfirmDispatch,
    ControlEvent,
    DispatchTask,
    EndLoop,
    LoopBegun,
    ProjectOutcome,
    SeekHelp,
    ValidateWork,
)
from otpy_agents.control.server.dispatcher import Dispatcher
from otpy_agents.control.server.neighbours import held
from otpy_agents.control.server.ownership import claim
from otpy_agents.control.server.performer import ERROR, Performer, Say, or_halted
from otpy_agents.control.server.settings import ControlSettings
from otpy_agents.control.state import InHand, ProjectState
from otpy_agents.control.stores import ControlStore
from otpy_agents.control.stores.behaviour import Record
from otpy_agents.errors import (
    AuditUnwritable,
    FolderTaken,
    InvalidTask,
    LedgerError,
    MissingStateField,
    ProjectHeld,
    StateError,
    StoreRefused,
    StoreUnreachable,
)
from otpy_agents.log import Stored

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = ["ControlProject"]

_KNOWN: Final = (
    *(AuditUnwritable, FolderTaken, InvalidTask, LedgerError, ProjectHeld, StateError),
    *(StoreRefused, StoreUnreachable),
)
"""What ends a loop with one line: a restart would only meet it again."""

_LONG: Final = (AskAgent, ConfirmDispatch, DispatchTask, SeekHelp, ValidateWork)
"""Effects that a halt cuts short."""


@final
class ControlProject:
    """One project that this host works on: one loop, one task after the other (CTL-04, C-20).

    Args:
        opens: Opens the store of its state and queue.
        runs: Where its dispatches are made.
        settings: What the operator decides.
        confirm: Asks the operator before a dispatch, in the mode MANUAL.
        say: Is given a tag and a line for the application log (CTL-49).

    Attributes:
        ended: How its loop ended; None as long as it goes on.
        over: Set when it has ended.
    """

    def __init__(
        self,
        opens: Callable[[], AbstractAsyncContextManager[ControlStore]],
        runs: Runs,
        settings: ControlSettings,
        confirm: Callable[[InHand], Awaitable[bool]],
        say: Say,
    ) -> None:
        self.ended: EndLoop | None = None
        self.over = asyncio.Event()
        self._opens = opens
        self._dispatcher = Dispatcher(runs, settings)
        self._settings = settings
        self._confirm = confirm
        self._say = say
        self._trail = AuditTrail()
        self._project = ""
        self._opened: ControlStore | None = None

    def spec(self) -> SupervisorSpec:
        """Return its branch, which ends with its loop, and then gives up the lease.

        The loop is transient: a halt is a normal end of it, a crash none.
        """
        return SupervisorSpec(
            "ControlProject",
            [
                ChildSpec("store", self.opened),
                ChildSpec("auditor", self._audit, restart=Restart.TRANSIENT, significant=True),
                ChildSpec(
                    "loop", self.work, restart=Restart.TRANSIENT, shutdown=30.0, significant=True
                ),
            ],
            strategy=Strategy.REST_FOR_ONE,
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
            restart=Restart.TRANSIENT,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Hold the store and its lease for the length of a block; the child `store`.

        If it cannot be had, `ended` says why, and the block finds nothing to do.
        """
        async with AsyncExitStack() as stack:
            try:
                store = await stack.enter_async_context(self._opens())
                with contextlib.suppress(MissingStateField):  # the loop halts by it (CTL-10)
                    state = await store.load()  # what is wrong is said before anything begins
                    await run_sync(claim, self._settings.folder(state.project), store)
                await stack.enter_async_context(store.lease())
                self._opened = store
            except _KNOWN as error:
                self._end(EndLoop(ProjectOutcome.BROKEN, str(error)))
            try:
                yield
            finally:
                self._opened = None

    @property
    def _store(self) -> ControlStore:
        assert self._opened is not None  # noqa: S101 - asked before
        return self._opened

    def _end(self, end: EndLoop) -> None:
        self.ended = end
        self.over.set()

    async def work(self) -> None:
        """Perform the effects of the loop until it ends; the child `loop`.

        After a crash it goes on with what was written last (CTL-62).

        Cancellation:
            What it has begun is stopped in order; the task in hand comes first the next time.
        """
        if self._opened is None:
            return
        store, settings = self._opened, self._settings
        halted = asyncio.create_task(store.halted(), name="halted")
        performer = Performer(
            store.stream, store, self._dispatcher, settings, self._confirm, self._say
        )
        try:
            await self._perform(performer, halted)
        except _KNOWN as error:
            self._end(EndLoop(ProjectOutcome.BROKEN, str(error)))
        finally:
            halted.cancel()
            await asyncio.wait({halted})

    async def _perform(self, performer: Performer, halted: asyncio.Task[ProjectState]) -> None:
        loop = ControlLoop(self._settings.rules)
        event: ControlEvent | None = LoopBegun()
        while event is not None:
            effects = loop.handle(event, CLOCK())
            event = None
            for effect in effects:
                work = performer.perform(effect)
                event = await (or_halted(work, halted) if isinstance(effect, _LONG) else work)
                if isinstance(effect, EndLoop):
                    self._end(effect)
                if event is not None:
                    break

    # --- the audit --------------------------------------------------------------------------------

    async def _audit(self, *, task_status: TaskStatus[None]) -> None:
        """Write the lines of both files, after those that a killed host has written.

        A state that does not say which project it is has no files, and the loop halts by it.

        Cancellation:
            What has happened so far is written; it ends after that.
        """
        if self._opened is None:
            task_status.started()
            return
        try:
            files = await self._mended_files()
            with held(files[AUDIT].path.parent):
                task_status.started()
                try:
                    await self._follow(files)
                except asyncio.CancelledError:
                    await to_completion(self._catch_up(files))
                    raise
        except MissingStateField:
            task_status.started()
            await sleep_forever()
        except _KNOWN as error:
            self._end(EndLoop(ProjectOutcome.BROKEN, str(error)))
            with contextlib.suppress(RuntimeError):
                task_status.started()

    async def _mended_files(self) -> dict[str, AuditFile]:
        """Bring both files in line with the log; tell which lines were altered."""
        self._project = (await self._store.load()).project
        folder = self._settings.folder(self._project)
        self._trail = AuditTrail()
        lines = await self._trail.take_all(self._store.log.read(stream=self._store.stream))
        await run_sync(_make, folder)
        files = {name: AuditFile(folder / name) for name in lines}
        for name, file in files.items():
            kept = self._trail.kept.get((self._project, name), NOTHING)
            damage = await run_sync(file.mend, lines[name], kept)
            if self._trail.heads[name] != kept:
                await self._keep(name)
            if damage is not None:
                self._say(ERROR, f"the audit was altered, and is made again: {damage}")
                await self._store.tell(Record("audit_altered", {"damage": str(damage)}))
        return files

    async def _follow(self, files: dict[str, AuditFile]) -> None:
        log, stream = self._store.log, self._store.stream
        async for event in log.follow(after=self._trail.position, stream=stream):
            await self._write(files, event)

    async def _catch_up(self, files: dict[str, AuditFile]) -> None:
        log, stream = self._store.log, self._store.stream
        async for event in log.read(after=self._trail.position, stream=stream):
            await self._write(files, event)

    async def _write(self, files: dict[str, AuditFile], event: Stored) -> None:
        """Write the line of an event, if it has one, whole or not at all."""
        if event.position > self._trail.position and (made := self._trail.take(event)):
            await to_completion(run_sync(files[made[0]].append, made[1]))
            await self._keep(made[0])

    async def _keep(self, name: str) -> None:
        """Keep where the file ends, out of the agent's reach (G-14)."""
        head = self._trail.heads[name]
        fields = {"project": self._project, "file": name, **asdict(head)}
        await self._store.tell(Record(WRITTEN, fields))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AuditUnwritable(folder, error.strerror or str(error)) from error
