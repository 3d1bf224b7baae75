"""The mortal pool: what becomes of a mortal that ended, or that a monitor reports.

The pool's children stand under a `DynamicSupervisor`, which restarts them; what is decided here is
what their ends mean, and what follows from findings. Monitors only report (TREE-48).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, final

import structlog
from attrs import field, frozen

from otpy import (
    GIVE_UP,
    Backoff,
    ChildSpec,
    Crashed,
    DynamicSpec,
    DynamicSupervisor,
    Intensity,
    Normal,
    OtpyError,
    Restart,
    Shutdown,
    console_logger,
)
from otpy.errors import NotFound
from otpy.reports import ChildExited, ChildGaveUp, ChildStarted, ChildStartFailed, Report
from otpy_agents.errors import LedgerError, PreflightFailed, WorkerStalled
from otpy_agents.run.process import WorkerProcess
from otpy_agents.store.records import State
from otpy_agents.tree.assignment import Assignment, Role
from otpy_agents.tree.mortal import mortal
from otpy_monitors import (
    Action,
    Finding,
    LoopLag,
    OverBudget,
    Stalled,
    Sweeping,
    Swept,
    Violated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy import Process
    from otpy_agents.tree.project import Project

POOL: Final = "MortalPool"

_MARGIN: Final = 5.0
"""Seconds beyond its grace in which a worker's process group is certainly gone."""


@final
@frozen
class Reaped:
    """Detail of the `Shutdown` of a mortal that was given up (TREE-49).

    Attributes:
        why: The reason, in one line.
    """

    why: str

    def __str__(self) -> str:
        """Return the reason."""
        return self.why


@final
@frozen
class Ending:
    """How an assignment came out.

    Attributes:
        state: Done, reaped or failed.
        reason: Why, in one line; empty if there is nothing to say.
    """

    state: State
    reason: str = field(default="")


def pool_spec(parallel: int) -> DynamicSpec:
    """Return the spec of the pool: at most `parallel` mortals at once (TREE-19)."""
    return DynamicSupervisor.spec(POOL, max_children=parallel)


def mortal_spec(project: Project, assignment: Assignment) -> ChildSpec:
    """Return the spec of the mortal, or drone, that takes `assignment` (TREE-17, TREE-18).

    Transient, with a restart window of its own: when that is used up, this one is reaped and its
    siblings work on.
    """
    if assignment.backoff is not None:
        backoff = Backoff.sequence(*assignment.backoff) if assignment.backoff else Backoff.none()
    elif assignment.role is Role.DRONE:
        backoff = Backoff.none()
    else:
        backoff = Backoff.exponential(2.0, max=60.0)
    return ChildSpec(
        assignment.id,
        mortal,
        (project, assignment),
        restart=Restart.TRANSIENT,
        shutdown=assignment.grace + _MARGIN,
        backoff=backoff,
        intensity=Intensity(assignment.restarts, assignment.within, then=GIVE_UP),
    )


@final
class MortalPool:
    """Keeps the outcomes of mortals, and acts on findings. It outlives Jake and the monitors.

    Attributes:
        endings: How assignments came out that the ledger may not know of yet, by id.
        doomed: How mortals will have come out that are being given up, by id.
        closed: Why no assignment is begun any more; empty while they are.
        version: Grows with every change.
    """

    def __init__(self, tell: Callable[..., None], warn: Callable[[str, str], None]) -> None:
        """Make a pool that knows of nothing.

        Args:
            tell: Called as `tell(name, id, **detail)` with every event.
            warn: Called as `warn(id, message)` to send a message into a worker.
        """
        self.endings: dict[str, Ending] = {}
        self.doomed: dict[str, Ending] = {}
        self.closed = ""
        self.version = 0
        self._tell = tell
        self._warn = warn
        self._supervisor: DynamicSupervisor | None = None
        self._changed = asyncio.Event()
        configured = structlog.is_configured()  # else its own default would write to stdout
        self._log = structlog.get_logger("otpy_agents") if configured else console_logger()

    def serve(self, supervisor: DynamicSupervisor) -> None:
        """Take the supervisor whose children the pool decides about; a new one after a restart."""
        self._supervisor = supervisor
        self._change()

    async def change(self, seen: int) -> None:
        """Wait until `version` is no longer `seen`."""
        while self.version == seen:
            await self._changed.wait()

    def _change(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # --- what the supervisor reports -------------------------------------------------------------

    def on_report(self, report: Report) -> None:
        """Take a report of the tree; a report hook."""
        if report.supervisor.rpartition("/")[2] != POOL:
            return
        match report:
            case ChildExited(reason=Normal()):
                self.ended(report.id, Ending(State.DONE))
            case ChildExited(reason=Shutdown(detail=Reaped() as reaped)):
                self.ended(report.id, Ending(State.REAPED, str(reaped)))
            case ChildGaveUp(reason=Crashed(error=LedgerError() as error)):  # not its own fault
                self.ended(report.id, Ending(State.FAILED, str(error)))
            case ChildGaveUp():
                why = f"restarts used up ({report.restarts}): {report.reason}"
                self.ended(report.id, Ending(State.REAPED, why))
            case ChildStartFailed(reason=Crashed(error=PreflightFailed() as error)):
                # To start it once more would count a restart for what is none (TREE-41).
                if report.context is not None:  # else Jake asked for it, and is told
                    self.doomed.setdefault(report.id, Ending(State.FAILED, str(error)))
                self._change()
            case ChildStarted() if report.id in self.doomed or self.closed:
                self.reap(report.id, self.closed)
            case _:
                self._change()

    def ended(self, assignment: str, ending: Ending) -> None:
        """Take the news of how an assignment came out.

        One that was doomed came out as that says, whatever it was that ended it in the end.
        """
        doomed = self.doomed.pop(assignment, None)
        if doomed is not None and ending.state is not State.DONE:
            ending = doomed
        self.endings[assignment] = ending
        self._tell(f"mortal.{ending.state}", assignment, reason=ending.reason)
        self._change()

    # --- what monitors report --------------------------------------------------------------------

    def on_finding(self, finding: Finding) -> None:
        """Take a finding of a monitor and act on it; never blocks, bears to hear it twice."""
        match finding:
            case Stalled():
                self._tell("monitor.stalled", _id(finding.path), detail=str(finding))
                process = self._process(finding.path)
                if process is not None and process.incarnation == finding.incarnation:
                    process.exit(Crashed(WorkerStalled(str(finding))))  # restarted by its policy
            case OverBudget():
                name = "monitor.budget_warning" if finding.warning else "monitor.over_budget"
                self._tell(name, _id(finding.path) or "list", detail=str(finding))
                if not finding.warning:
                    self._over_budget(finding)
            case Violated():
                self._tell("monitor.violated", _id(finding.path), detail=str(finding))
                self._violated(finding)
            case LoopLag():
                self._tell("monitor.loop_lag", "loop", detail=str(finding))
            case Sweeping():
                self._tell("monitor.sweeping", finding.chore, detail=str(finding))
            case Swept():
                self._tell("monitor.swept", finding.chore, detail=str(finding))
            case _:
                pass  # what monitors of a feed find; this tree shows its workers on a board

    def _over_budget(self, finding: OverBudget) -> None:
        if finding.path:
            self.reap(_id(finding.path), str(finding))
            return
        self.closed = str(finding)
        if self._supervisor is not None:
            for child in self._supervisor.snapshot().children:
                self.reap(child.id, self.closed)
        self._change()

    def _violated(self, finding: Violated) -> None:
        """Carry out what the rule asks for (TREE-47)."""
        assignment = _id(finding.path)
        process = self._process(finding.path)
        worker = process.value if process is not None else None
        match finding.rule.action:
            case Action.LOG:
                self._log.warning("violation", assignment=assignment, detail=str(finding))
            case Action.NOTIFY:
                self._tell("operator.notified", assignment, detail=str(finding))
            case Action.PAUSE:
                if isinstance(worker, WorkerProcess):  # else it has ended in the meantime
                    worker.pause()
                    resume = f"kill -CONT -- -{worker.pgid}"
                    self._tell("mortal.paused", assignment, detail=str(finding), resume=resume)
            case Action.WARN:
                try:
                    self._warn(assignment, str(finding))
                except OSError as error:  # what a worker does to its notes is no monitor's crash
                    self._tell("mortal.warning_failed", assignment, reason=str(error))
                else:
                    self._tell("mortal.warned", assignment, detail=str(finding))
            case Action.REAP:
                self.reap(assignment, str(finding))

    def reap(self, assignment: str, why: str) -> None:
        """End a mortal for good, with the reason (TREE-49).

        One that waits for its restart has no process to end. Cancelling the restart takes an
        await, which monitors must not do for us: Jake does it (`end_doomed`).
        """
        self.doomed.setdefault(assignment, Ending(State.REAPED, why))
        process = self._process(assignment)
        if process is not None:
            process.exit(Shutdown(Reaped(why)))
        self._change()

    async def end_doomed(self) -> None:
        """See to it that no doomed mortal is started again."""
        for assignment, ending in list(self.doomed.items()):
            process = self._process(assignment)
            if process is not None:
                process.exit(Shutdown(Reaped(ending.reason)))  # without effect if it ends already
            elif self._supervisor is not None:
                with contextlib.suppress(NotFound):  # it was never begun, or has just ended
                    await self._supervisor.terminate_child(assignment)
                self.ended(assignment, ending)

    def _process(self, path: str) -> Process | None:
        """Return the process of the mortal at `path`, or of that id; None if none runs."""
        try:
            return None if self._supervisor is None else self._supervisor.child(_id(path))
        except OtpyError:
            return None


def _id(path: str) -> str:
    return path.rpartition("/")[2]
