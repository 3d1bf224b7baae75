"""Everything that happens to a list that is worked on, told in one order."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

from attrs import field, frozen

from otpy import log_reports
from otpy.reports import (
    ChildAbandoned,
    ChildRestarting,
    ChildStarted,
    ErrorContext,
    HookFailed,
    Report,
    SupervisorGaveUp,
)
from otpy_agents.app.log_file import LogFile
from otpy_agents.tree.pool import POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otpy_agents.tree.journal import Journal, JournalEntry
    from otpy_agents.worklist.assignment import WorkList

__all__ = ["Chronicle", "Event"]

_UNTOLD: Final = frozenset({"mortal.output", "operator.command"})
_WRONG: Final = frozenset({ErrorContext.CHILD_TERMINATED, ErrorContext.START_ERROR})


@frozen(kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        name: For example `mortal.restarting`.
        id: Its subject: an assignment, a group, `Jake` or a list.
        seconds: Since the run began.
        detail: More about it, in the order to be shown.
        role: `mortal` or `drone`, if it happened to one.
    """

    name: str
    id: str
    seconds: float
    detail: Mapping[str, str | float | bool | None] = field(
        factory=dict[str, str | float | bool | None]
    )
    role: str = ""


@final
class Chronicle:
    """Takes the events of a project and the reports of its tree, and tells what came of them.

    Args:
        work: What is worked on. Its `logs` say where each event is written down.
        journal: Keeps the latest events for other terminals.
        clock: Monotonic seconds.
        listen: Called with each event; must not block. What it raises goes to the loop's
            exception handler.
        tell: Tells the event log, but for what workers write and for commands of operators, which
            are told there by who hears them.

    Attributes:
        journal: As given.
        began: When it began, by the clock.
    """

    def __init__(
        self,
        work: WorkList,
        journal: Journal,
        clock: Callable[[], float],
        listen: Callable[[Event], object],
        tell: Callable[[str, Mapping[str, Any]], object] = lambda _name, _fields: None,
    ) -> None:
        self.journal = journal
        self.began = clock()
        self._name = work.name
        self._clock = clock
        self._listen = listen
        self._tell = tell
        self._file = None if work.logs is None else LogFile(work.logs, work.name)
        self._roles = {assignment.id: assignment.role for assignment in work.assignments}
        self._restarts: Counter[str] = Counter()
        self._log = log_reports()

    def on_event(self, name: str, id: str, detail: Mapping[str, str | float | bool | None]) -> None:
        """Take an event of the project."""
        if name == "mortal.reaped" and self._restarts[id]:
            detail = {**detail, "restarts": self._restarts[id]}
        seconds = self._clock() - self.began
        role = str(self._roles.get(id, ""))
        entry = self.journal.note(name, id, seconds, detail)
        self._hand_over(Event(name=name, id=id, seconds=seconds, detail=detail, role=role))
        if name not in _UNTOLD:
            about = {"component": id, "role": role or None, "seconds": seconds}
            self._tell(name, {**entry.detail, **about})
        if self._file is not None:
            self._write(self._file, entry)

    def _hand_over(self, event: Event) -> None:
        try:
            self._listen(event)
        except Exception as error:  # noqa: BLE001 - it would come out in the middle of a mortal
            message = f"{self._listen!r} raised; it should have heard {event!r}"
            context = {"message": message, "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _write(self, file: LogFile, entry: JournalEntry) -> None:
        try:
            file.write(entry)
        except OSError as error:  # work must not suffer because nothing can be written down
            self._file = None
            self.on_event("log.unwritable", self._name, {"reason": str(error)})

    def on_report(self, report: Report) -> None:
        """Take a report of the tree; a report hook.

        The log of otpy gets what went wrong in the tree itself: the crashes of mortals are events.
        """
        mortal = report.supervisor.endswith(POOL)
        match report:
            case ChildStarted() if mortal:
                self.on_event("mortal.started", report.id, {"incarnation": report.incarnation})
            case ChildRestarting():
                name = "mortal.restarting" if mortal else report.event
                who = report.id if mortal else report.path
                self._restarts[who] += 1
                self.on_event(
                    name,
                    who,
                    {
                        "reason": str(report.reason),
                        "delay": report.delay,
                        "restarts": self._restarts[who],
                    },
                )
            case SupervisorGaveUp() | ChildAbandoned() | HookFailed():
                self._log(report)
            case _ if not mortal and getattr(report, "context", None) in _WRONG:
                self._log(report)
            case _:
                pass
