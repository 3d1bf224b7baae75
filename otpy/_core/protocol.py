"""The events that go into a machine, and the effects that come out.

These are made on hot paths, where a frozen class costs three times as much to build as a mutable
one; they never leave otpy and nobody changes them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from attrs import define, field

from otpy._core.child import Child
from otpy._core.enum_cache import cache_members

if TYPE_CHECKING:
    from otpy._core.child import Status
    from otpy._core.reason import ExitReason
    from otpy._core.spec import AnySpec, Count, SupervisorSpec

# --- events -------------------------------------------------------------------------------------


@final
@define
class Begin:
    """Start all initial children.

    Attributes:
        made: Their specs, if a function has made them; else those that the spec lists are meant.
    """

    made: tuple[AnySpec, ...] = ()


@final
@define
class InitFailed:
    """The initial children are unknown: the function that makes them ended with `reason`."""

    reason: ExitReason


@final
@define
class GoOn:
    """Go on with the starts that were put off by `Pause`."""


@final
@define
class ChildReady:
    """A child that was started is ready."""

    key: str
    incarnation: int


@final
@define
class StartFailure:
    """A child that was started ended, with `reason`, before it was ready."""

    key: str
    incarnation: int
    reason: ExitReason


@final
@define
class ChildIgnored:
    """A child that was started declined to run."""

    key: str
    incarnation: int


@final
@define
class ExitNoticed:
    """A child that had been ready has ended, with `reason`. Exactly one per incarnation.

    No event: machines are told by `exited`, and make this only where they have no time for it.
    """

    key: str
    incarnation: int
    reason: ExitReason


@final
@define
class ChildReconfigured:
    """A child, a supervisor, goes by another spec from now on, in this life."""

    key: str
    incarnation: int
    spec: SupervisorSpec


@final
@define
class TimerDue:
    """The timer with this token, set for this child, is due."""

    key: str
    token: int


@final
@define
class ShutdownAsked:
    """Stop all children in reverse, then finish with `reason`."""

    reason: ExitReason


@final
@define
class HasteAsked:
    """Time runs short in the current stop: ask all children at once, in no order."""


KILL_GRACE: Final = 1.0
"""Seconds a task has to end after each cancellation that is not its first request to stop; and
those that everything below a killed supervisor has in all."""


@final
@define
class KillAsked:
    """End as killed (SUP-719).

    Attributes:
        grace: Seconds that all children have, in all, to end when they are asked to, all at once;
            then they are killed. With 0 they are killed at once, without being asked.
    """

    grace: float = 0.0


@final
@define
class AddChild:
    """Request `ref`: start one more child."""

    ref: object
    spec: AnySpec


@final
@define
class TerminateChild:
    """Request `ref`: stop a child, or cancel its restart."""

    ref: object
    key: str


@final
@define
class RestartChild:
    """Request `ref`: start a child that is not running."""

    ref: object
    key: str


@final
@define
class DeleteChild:
    """Request `ref`: forget a child that is not running."""

    ref: object
    key: str


@final
@define
class RetryNow:
    """Request `ref`: do not wait any longer for the restart of a child."""

    ref: object
    key: str


@final
@define
class Reconfigure:
    """Request `ref`: go by another spec from now on; `made` is as in `Begin`."""

    ref: object
    spec: SupervisorSpec
    made: tuple[AnySpec, ...] = ()


@final
@define
class Query:
    """Request `ref`: answer with the child table when everything before it is dealt with.

    Attributes:
        key: The only child that is asked for; None for all.
    """

    ref: object
    key: str | None = None


Request: TypeAlias = (
    AddChild | TerminateChild | RestartChild | DeleteChild | RetryNow | Reconfigure | Query
)
Event: TypeAlias = (
    Begin
    | InitFailed
    | GoOn
    | ChildReady
    | StartFailure
    | ChildIgnored
    | ChildReconfigured
    | TimerDue
    | ShutdownAsked
    | HasteAsked
    | KillAsked
    | Request
)

# --- effects ------------------------------------------------------------------------------------


@final
@define
class Hurry:
    """A shutdown waits for this child's start: end it if it outlasts its shutdown limit.

    End it at once if its tree is stopped and has never been up: its result would be unused.
    """

    child: Child


@final
@define
class StopChild:
    """Make this child end, with `reason` if there is one; answer with exited.

    `kill` skips the asking; of a supervisor below as well, it asks what stands below that.
    """

    child: Child
    kill: bool
    reason: ExitReason | None = None


@final
@define
class Hasten:
    """Tell this child, a supervisor that was told to end, that time runs short."""

    child: Child


@final
@define
class KillChild:
    """Kill this child, and everything below it, without asking; answer with exited."""

    child: Child


@final
@define
class Later:
    """Hand `event` to this machine after `delay` seconds, unless it has ended by then."""

    event: HasteAsked | KillAsked
    delay: float


@final
@define
class Pause:
    """Hand `GoOn` to this machine in the next turn of the loop."""


@final
@define
class Remember:
    """Hand `ChildReconfigured` with `spec` to the supervisor above, if there is one."""

    spec: SupervisorSpec


@final
@define
class SetTimer:
    """Send `TimerDue` after `delay` seconds; 0 means after the callbacks that are ready to run."""

    child: Child
    token: int
    delay: float


@final
@define
class CancelTimer:
    """Forget this child's timer."""

    child: Child


class Refusal(Enum):
    """Why a request was refused."""

    ALREADY_STARTED = "already started"
    ALREADY_PRESENT = "already present"
    NOT_FOUND = "not found"
    RUNNING = "running"
    RESTARTING = "restarting"
    MAX_CHILDREN = "max children"
    START_FAILED = "start failed"
    NOT_RUNNING = "not running"


@final
@define
class RequestReply:
    """Answer request `ref`: with a child, with None, or with a refusal.

    Attributes:
        ref: The request's.
        child: The child that was started, or that stands in the way.
        refusal: Why not; None if it was done.
        reason: Why the child did not start, if that is the refusal.
        rows: Answers a `Query`: each child, its status and its process at that moment, in start
            order. What follows in the same list of effects may have changed the children.
    """

    ref: object
    child: Child | None = None
    refusal: Refusal | None = None
    reason: ExitReason | None = None
    rows: tuple[tuple[Child, Status, Any], ...] | None = None


class Fact(Enum):
    """The content of a `Tell`."""

    STARTED = "child started"
    START_FAILED = "child start failed"
    EXITED = "child exited"
    RESTARTING = "child restarting"
    STOPPED = "child stopped"
    CHILD_GAVE_UP = "child gave up"
    GAVE_UP = "supervisor gave up"
    ENDED = "supervisor stopped"


class Context(Enum):
    """The supervisor's activity when something went wrong: OTP's error context (REP-03)."""

    START_ERROR = "start_error"
    """A child did not start, at first or when restarted."""
    CHILD_TERMINATED = "child_terminated"
    """A child ended by itself, and should not have."""
    SHUTDOWN_ERROR = "shutdown_error"
    """A child that was told to end did not end as it should (SUP-704)."""
    SHUTDOWN = "shutdown"
    """The supervisor gave up."""


cache_members(Refusal, Fact, Context)


@final
@define
class Tell:
    """Something worth a report happened.

    Attributes:
        fact: What.
        child: To whom; None if to the supervisor itself.
        incarnation: To which of its lives.
        reason: Why, where there is a reason.
        context: Set if OTP would write an error report.
        delay: Seconds until a restart.
        restarts: How often the child had been restarted at that moment.
    """

    fact: Fact
    child: Child | None = None
    incarnation: int = 0
    reason: ExitReason | None = None
    context: Context | None = None
    delay: float = 0.0
    restarts: int = 0


@final
@define
class Ready:
    """All initial children have been started."""


Entry: TypeAlias = "tuple[float, str, int, ExitReason]"
"""One restart: when it was decided (monotonic seconds), the child's id, the life that ended or did
not begin, and why. No class: one is made for each restart, and most are never read."""


@final
@define
class Failure:
    """Why a supervisor ended although it was not asked to.

    Attributes:
        child_id: The child that could not be kept running, or did not start; empty if it was the
            supervisor itself that failed.
        reason: Its last exit reason.
        history: The restarts that led here, oldest first, the last 1001 at most; empty if it
            never started.
        allowed: The limit that was reached: how many restarts in how many seconds; None if it
            never started.
    """

    child_id: str
    reason: ExitReason
    history: tuple[Entry, ...] = field(default=(), kw_only=True)
    allowed: tuple[Count, float] | None = field(default=None, kw_only=True)

    @property
    def limit(self) -> str:
        """The limit that was reached, in words; empty if there was none."""
        if self.allowed is None:
            return ""
        intensity, period = self.allowed
        return f"more than {intensity} restart{'s' * (intensity != 1)} in {period:g} s"


@final
@define
class Finish:
    """Nothing runs any more; the last effect of a machine.

    Attributes:
        reason: The supervisor's own exit reason.
        failure: Set if it gave up, or could not start.
    """

    reason: ExitReason
    failure: Failure | None = None


Effect: TypeAlias = (
    Child
    | Hurry
    | StopChild
    | Hasten
    | KillChild
    | Later
    | Pause
    | Remember
    | SetTimer
    | CancelTimer
    | RequestReply
    | Tell
    | Ready
    | Finish
)
"""A `Child` means: start it; answer with ready, start failed or ignored. There is no more to say,
and a start of many children would make as many objects that say it."""
