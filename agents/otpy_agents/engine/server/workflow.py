"""A workflow in the tree: its machine, and the workers that perform its effects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Final, Protocol, cast, final

import otpy
from otpy import (
    AutoShutdown,
    ChildSpec,
    DynamicSupervisor,
    ExitReason,
    Process,
    Restart,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from otpy_agents.clock import CLOCK
from otpy_agents.completion import to_completion
from otpy_agents.engine.events import (
    ApprovalDenied,
    ApprovalGranted,
    EngineEvent,
    FailureCause,
    StepStarted,
    WorkItem,
)
from otpy_agents.engine.workflow.machine import WorkflowMachine, WorkflowRules
from otpy_agents.engine.workflow.protocol import (
    AlarmRang,
    ApplyChanges,
    ApprovalSaid,
    CloseTree,
    DispatchStep,
    EndWorkflow,
    OpenTree,
    RebaseStep,
    RunGates,
    SetAlarm,
    SettleStep,
    StepBroken,
    StopStep,
    StopWanted,
    TellEvents,
    WorkflowBegun,
    WorkflowEffect,
    WorkflowNews,
)
from otpy_agents.engine.workflow.state import WorkflowState, told
from otpy_agents.errors import AgentsError, LedgerError
from otpy_agents.log import Append, EventLog, Stored
from otpy_agents.store.lock import HostLock

__all__ = ["EngineWorkflow", "StepJobs", "load_state"]

_POOL: Final = "workers"
_SAID: Final = frozenset({"approval_granted", "approval_denied"})


class StepJobs(Protocol):
    """Performs the effects of one workflow's machine on its steps."""

    def know(self, step: str, item: WorkItem) -> None:
        """Learn the item of a step; called before anything else for it."""
        ...

    async def open_tree(self, effect: OpenTree) -> WorkflowNews:
        """Make a work tree."""
        ...

    async def dispatch(self, effect: DispatchStep) -> WorkflowNews:
        """Have a worker make an attempt; cancelled, it is stopped in order."""
        ...

    async def count_late(self, effect: StopStep) -> None:
        """Count a failure of the agent whose attempt was stopped, if any was."""
        ...

    async def run_gates(self, effect: RunGates) -> WorkflowNews:
        """Run the gates."""
        ...

    async def apply(self, effect: ApplyChanges) -> WorkflowNews:
        """Apply the changes, whole or not at all."""
        ...

    async def rebase(self, effect: RebaseStep) -> WorkflowNews:
        """Move the changes to the new HEAD."""
        ...

    async def settle(self, effect: SettleStep) -> WorkflowNews:
        """End the remains of a step, and look in git whether it was applied."""
        ...

    async def close_tree(self, effect: CloseTree) -> None:
        """Let a work tree go."""
        ...

    async def close(self) -> None:
        """Let all of them go."""
        ...


async def load_state(log: EventLog, stream: str) -> WorkflowState | None:
    """Return where a workflow stands by its events; None if it has not begun."""
    events = [cast("EngineEvent", one.event) async for one in log.read(stream=stream)]
    return told(events)


@final
class EngineWorkflow:
    """One workflow that this host works on.

    Args:
        name: Its id.
        log: The event log.
        begun: Its first event there.
        rules: The rules for it.
        jobs: Makes what does its steps.
        lock: Says that it is worked on; held, and given back when it has ended.
        listen: Called with each event that is told.

    Attributes:
        over: Is how it ended, as soon as it has.
    """

    def __init__(
        self,
        name: str,
        log: EventLog,
        begun: Stored,
        rules: WorkflowRules,
        jobs: StepJobs,
        lock: HostLock,
        listen: Callable[[EngineEvent], object],
    ) -> None:
        self.name = name
        self.over: asyncio.Future[EndWorkflow] = asyncio.get_running_loop().create_future()
        self._log, self._stream, self._listen = log, begun.stream, listen
        self._rules, self._jobs, self._lock = rules, jobs, lock
        self._heard = begun.position
        self._stopped: StopWanted | None = None
        self._crash: Exception | None = None
        self._inbox: asyncio.Queue[WorkflowNews] = asyncio.Queue()
        self._alarms: dict[str | None, asyncio.TimerHandle] = {}
        self._at_work: dict[str, Process] = {}
        self._count = 0
        self._items: tuple[WorkItem, ...] = ()

    def spec(self) -> SupervisorSpec:
        """Return its branch, which ends with it.

        What drives it is transient: a failure of the workflow is a normal end, a crash is none.
        After a crash nothing of the life before is at work.
        """
        return SupervisorSpec(
            self.name,
            [
                DynamicSupervisor.spec(_POOL),
                ChildSpec("approvals", self._approvals),
                ChildSpec(
                    "course", self.work, restart=Restart.TRANSIENT, shutdown=30.0, significant=True
                ),
            ],
            strategy=Strategy.ONE_FOR_ALL,
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
            restart=Restart.TRANSIENT,
        )

    def stop(self, reason: str) -> None:
        """Have what runs stopped in order, and the workflow end as failed."""
        self._stopped = StopWanted(FailureCause.STOPPED, reason)
        self._inbox.put_nowait(self._stopped)

    @property
    def is_ours(self) -> bool:
        """Whether other programs are to leave it alone."""
        return self._lock.is_held

    def give_up(self) -> None:
        """Take in that its branch has ended; the next command settles its unfinished effects."""
        if not self.over.done():
            why = "its branch was ended" if self._crash is None else f"it crashed: {self._crash!r}"
            line = f"{self.name}: {why}; the next command of the engine settles it"
            self.over.set_result(EndWorkflow(FailureCause.ERROR, line))
        self._crash = None

    def close(self) -> None:
        """Leave it to be settled, if it has not ended; nothing of it is at work."""
        self._lock.release()

    async def work(self) -> None:
        """Perform the effects of the machine until the workflow has ended; the child `course`.

        Cancellation:
            Nothing is decided. The next life settles what was at work, or the next command does.
        """
        if self.over.done():
            return
        try:
            await self._drive()
        except LedgerError as error:  # a restart would only meet it again
            self.over.set_result(EndWorkflow(FailureCause.ERROR, str(error)))
        except Exception as error:
            self._crash = error
            raise
        finally:
            for alarm in self._alarms.values():
                alarm.cancel()

    async def _drive(self) -> None:
        state = await load_state(self._log, self._stream)
        assert state is not None  # noqa: S101 - it is begun before it is worked on
        self._at_work, self._inbox = {}, asyncio.Queue()  # news of an earlier life is of no use
        if self._stopped is not None:
            self._inbox.put_nowait(self._stopped)
        machine = WorkflowMachine(self._rules)
        for name, step in state.steps.items():
            self._jobs.know(name, state.started.items[step.item])
        self._items = state.started.items
        news: WorkflowNews = WorkflowBegun(state)
        while not self.over.done():
            for effect in machine.handle(news, CLOCK()):
                await self._perform(effect, machine)
            if not self.over.done():
                news = await self._inbox.get()

    async def _perform(self, effect: WorkflowEffect, machine: WorkflowMachine) -> None:
        match effect:
            case TellEvents():
                await self._log.append(Append(self._stream, effect.events))
                for event in effect.events:
                    self._listen(event)
                    if isinstance(event, StepStarted):
                        self._jobs.know(event.step_id, self._items[event.item])
            case SetAlarm():
                self._set_alarm(effect)
            case StopStep():
                await self._stop(effect)
            case CloseTree():
                with contextlib.suppress(AgentsError):  # hygiene deletes it, or the next command
                    await to_completion(self._jobs.close_tree(effect))
            case EndWorkflow():
                with contextlib.suppress(AgentsError):
                    await to_completion(self._jobs.close())
                if machine.state.is_over:  # else the next command settles it
                    self._lock.remove()
                self.over.set_result(effect)
            case OpenTree():
                await self._begin("tree", effect.step, partial(self._jobs.open_tree, effect))
            case DispatchStep():
                await self._begin("worker", effect.step, partial(self._jobs.dispatch, effect))
            case RunGates():
                await self._begin("gates", effect.step, partial(self._jobs.run_gates, effect))
            case ApplyChanges():
                await self._begin("apply", effect.step, partial(self._jobs.apply, effect))
            case RebaseStep():
                await self._begin("rebase", effect.step, partial(self._jobs.rebase, effect))
            case SettleStep():
                await self._begin("settle", effect.step, partial(self._jobs.settle, effect))

    # --- what is at work --------------------------------------------------------------------------

    async def _begin(
        self, kind: str, step: str, job: Callable[[], Awaitable[WorkflowNews]]
    ) -> None:
        """Have a temporary child do something for a step; its news comes to the inbox."""
        parent = cast("Supervisor", otpy.current().parent)
        pool = cast("DynamicSupervisor", parent.child(_POOL).supervisor)
        self._count += 1
        news: list[WorkflowNews] = []

        async def work() -> None:
            try:
                news.append(await job())
            except (AgentsError, OSError) as error:
                news.append(StepBroken(step, str(error)))

        name = f"{step}-{kind}-{self._count}"
        child = ChildSpec(name, work, restart=Restart.TEMPORARY, shutdown=30.0)
        process = cast("Process", await pool.start_child(child))
        self._at_work[step] = process

        def on_exit(_: Process, reason: ExitReason) -> None:
            # However it ended, the step must not wait for ever; but what was stopped has no say.
            if self._at_work.get(step) is process:
                ended = StepBroken(step, f"what worked on it ended: {reason}")
                self._inbox.put_nowait(news[0] if news else ended)

        process.on_exit(on_exit)

    async def _stop(self, effect: StopStep) -> None:
        """Stop the work on a step, in order, and ignore its result."""
        process = self._at_work.pop(effect.step, None)
        if process is not None:
            process.exit()
            await process.wait()
        if effect.late:
            await self._jobs.count_late(effect)

    def _set_alarm(self, effect: SetAlarm) -> None:
        before = self._alarms.pop(effect.step, None)
        if before is not None:
            before.cancel()
        if effect.at is not None:
            delay = max(effect.at - CLOCK(), 0.0)
            ring = partial(self._inbox.put_nowait, AlarmRang(effect.step))
            loop = asyncio.get_running_loop()
            # A loop keeps what was cancelled until its time comes, and with it its context.
            self._alarms[effect.step] = loop.call_later(delay, ring, context=Context())

    async def _approvals(self) -> None:
        """Hand on what persons say about its steps, from whatever process."""
        async for stored in self._log.follow(after=self._heard, stream=self._stream):
            self._heard = stored.position
            if stored.name not in _SAID:
                continue
            event = stored.event
            if isinstance(event, ApprovalGranted | ApprovalDenied) and event.step_id:
                yes = isinstance(event, ApprovalGranted)
                self._inbox.put_nowait(ApprovalSaid(event.step_id, yes, event.reason))
                self._listen(event)
