"""What became of each strike: follows the reports of the tree that is shaken."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, final

from attrs import define, field

from otpy._core.reason import Restart
from otpy._core.rules import Verdict, verdict
from otpy._runtime.process import live_of
from otpy.reports import (
    ChildAbandoned,
    ChildExited,
    ChildGaveUp,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    SupervisorGaveUp,
    SupervisorStopped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from otpy._core.reason import ExitReason
    from otpy._runtime.handles import Process
    from otpy._runtime.snapshot import TreeSnapshot
    from otpy.reports import Report

PATIENCE = 1.0
"""Seconds after which a worker that still runs, and is not ending, has withstood a strike."""


class StrikeOutcome(Enum):
    """What became of a worker that was struck."""

    OPEN = "open"
    """It is not known yet."""
    RESTARTED = "restarted"
    """Another life of it is ready."""
    WITHSTOOD = "still runs"
    """It dealt with the strike itself, or has not ended for another reason."""
    GONE = "gone"
    """It ended, and its restart type asks for no restart."""
    GAVE_UP = "gave up"
    """It used up its own restart limit and was removed."""
    DOWN = "down"
    """It should run and does not, at the end."""


@final
@define(eq=False)
class Strike:
    """One strike, and what became of it.

    Attributes:
        time: When, in seconds since the shaking began.
        process: The process that it hit.
        kind: The strike: a name in `strikes.KINDS`.
        exit: Why the worker ended; None while it has not.
        outcome: What became of it.
        seconds: From the strike until another life was ready; None if none was.
    """

    time: float
    process: Process
    kind: str
    exit: ExitReason | None = None
    outcome: StrikeOutcome = StrikeOutcome.OPEN
    seconds: float | None = None

    def __str__(self) -> str:
        """Return one line."""
        what = self.outcome.value
        if self.seconds is not None:
            what = f"{what} after {milliseconds(self.seconds)}"
        elif self.outcome is StrikeOutcome.GONE:
            what = f"{what}, as a {self.process.spec.restart.value} child"
        return f"{self.process.path}  {self.kind}: {what}"


def milliseconds(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds * 1000:.0f} ms"


@final
@define
class ChaosLog:
    """A report hook that knows the struck children.

    Attributes:
        say: Takes what happens, as the time and a line of text.
        began: When the shaking began, by the clock of the loop.
        strikes: All strikes so far.
        starts: How often each child, and each supervisor, was started after its first time.
        gave_up: Paths of supervisors and children that gave up, in order.
        abandoned: Paths of children that refused to end, in order.
        down: Who should run and does not, at the end.
        finished: Whether the tree was shaken to the end.
    """

    say: Callable[[float, str], object]
    began: float = 0.0
    strikes: list[Strike] = field(factory=list[Strike])
    starts: Counter[str] = field(factory=Counter[str])
    gave_up: list[str] = field(factory=list[str])
    abandoned: list[str] = field(factory=list[str])
    down: tuple[str, ...] = ()
    finished: bool = False
    _latest: dict[str, Strike] = field(factory=dict[str, Strike])
    _removed: dict[str, None] = field(factory=dict[str, None])
    _root: str = ""
    _ended: str | None = None

    def begin(self, root: str, now: float) -> None:
        """Note that the tree whose root has this path runs, and is shaken from `now` on."""
        self._root = root
        self.began = now
        self.starts = Counter(dict.fromkeys(self.starts, 0))

    def struck(self, strike: Strike) -> None:
        """Follow what becomes of `strike`."""
        self.strikes.append(strike)
        self._latest[strike.process.path] = strike

    def is_open(self, path: str) -> bool:
        """Whether it is not known yet what became of the last strike at `path`."""
        strike = self._latest.get(path)
        return strike is not None and strike.outcome is StrikeOutcome.OPEN

    @property
    def open(self) -> bool:
        """Whether that is so of any strike."""
        return any(map(self.is_open, self._latest))

    def look_again(self, strike: Strike) -> None:
        """Decide about a strike whose worker may run on, when that has had time to end."""
        alive = strike.process.alive and not live_of(strike.process).ending
        if alive and strike.outcome is StrikeOutcome.OPEN:
            self._decide(strike, StrikeOutcome.WITHSTOOD, self.began + strike.time + PATIENCE)

    def missing(self, snapshot: TreeSnapshot) -> tuple[str, ...]:
        """Return the processes that should run and do not."""
        return *_not_running(snapshot), *self._removed

    def why_ended(self) -> str | None:
        """Return why the tree ended before it was told to; None if it did not."""
        return f"{self._root} gave up" if self._root in self.gave_up else self._ended

    def finish(self, down: Collection[str], now: float) -> None:
        """The shaking is over, and those in `down` should run and do not."""
        self.down = tuple(down)
        self.finished = True
        for strike in self._latest.values():
            if strike.outcome is StrikeOutcome.OPEN:
                path = f"{strike.process.path}/"
                is_down = any(path.startswith(f"{one}/") for one in down)
                self._decide(strike, StrikeOutcome.DOWN if is_down else StrikeOutcome.GONE, now)

    # --- reports ---------------------------------------------------------------------------------

    def __call__(self, report: Report) -> None:
        """Take a report."""
        match report:
            case ChildStarted():
                self._started(report)
            case ChildExited():
                self._child_ended(report, by_itself=True)
            case ChildStopped() | ChildStartFailed():
                self._child_ended(report, by_itself=False)
            case ChildAbandoned():
                self.abandoned.append(report.path)
                self._tell(report, f"abandoned: its {report.what} refuses to end")
            case ChildGaveUp():
                self._child_gave_up(report)
            case SupervisorGaveUp():
                self.gave_up.append(report.path)
                self._tell(report, f"gave up: too many restarts, the last of {report.child}")
            case SupervisorStopped() if report.path == self._root and not self.finished:
                self._ended = str(report.reason)
            case _:
                pass

    def _started(self, report: ChildStarted) -> None:
        path = report.path
        self.starts[path] += path in self.starts
        self._removed.pop(path, None)
        strike = self._latest.get(path)
        if strike is not None and strike.exit is not None and strike.seconds is None:
            strike.seconds = report.time - self.began - strike.time
            self._decide(strike, StrikeOutcome.RESTARTED, report.time)

    def _child_ended(
        self, report: ChildExited | ChildStopped | ChildStartFailed, *, by_itself: bool
    ) -> None:
        strike = self._latest.get(report.path)
        if strike is None or strike.exit is not None:
            return
        strike.exit = report.reason
        restart = strike.process.spec.restart
        for_good = verdict(restart, report.reason) is not Verdict.RESTART
        # Who was ended with its siblings comes back with them, unless it is temporary.
        if for_good if by_itself else restart is Restart.TEMPORARY:
            self._decide(strike, StrikeOutcome.GONE, report.time)

    def _child_gave_up(self, report: ChildGaveUp) -> None:
        self.gave_up.append(report.path)
        self._removed[report.path] = None
        self._tell(report, "gave up: too many restarts of its own")
        strike = self._latest.get(report.path)
        if strike is not None and strike.outcome is StrikeOutcome.OPEN:
            self._decide(strike, StrikeOutcome.GAVE_UP, report.time)

    def _decide(self, strike: Strike, outcome: StrikeOutcome, now: float) -> None:
        strike.outcome = outcome
        self.say(now - self.began, str(strike))

    def _tell(self, report: Report, what: str) -> None:
        self.say(report.time - self.began, f"{report.path}  {what}")


def _not_running(node: TreeSnapshot) -> list[str]:
    """Return the paths of processes that do not run, without those below them."""
    found: list[str] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.state in {"running", "undefined"}:
            waiting.extend(reversed(one.children))
        else:
            found.append(one.path)
    return found
