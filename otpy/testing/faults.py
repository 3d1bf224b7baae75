"""What can go wrong with a child, as values: the parts of a `FaultPlan`.

Every fault but `clock_jump` has a `path`, which may be a pattern: `*` is any text within one
segment, `**` as a segment of its own any number of segments. Only workers can be hit: a supervisor
fails by its children. A pattern is short for the same fault at each path that it stands for: what
is said below of one child holds for each of them apart.

| argument | says | counted |
|---|---|---|
| `nth` of a start, a stop or a clean-up | the first that is hit | over all lives of that path |
| `nth` of an await or a message | the one that is hit | in each life separately |
| `after` | seconds of a life until awaits or messages count | in each life separately |
| `times` | in how many lives it hits, each at most once; None is every life | over all lives |

So by default a fault hits one life, and the child that is started again is healthy. With `after`,
the await that is in progress then is the first.

Awaits are the moments in which the child's own task really waits, or yields to the loop; what
tasks of its own do is not counted. What it waits for then is cancelled, as by any end of a wait;
an await that somebody else cancels at the same moment is left to that, and the next one is hit.
"""

from __future__ import annotations

import inspect
import math
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from attrs import field, frozen

from otpy._core.checks import check_kind, check_number, is_number, refuse
from otpy.testing.planned_error import text_of, value_of

if TYPE_CHECKING:
    from collections.abc import Callable

Kind: TypeAlias = Literal[
    "crash",
    "hang",
    "slow_ready",
    "ignore_cancellation",
    "return_early",
    "cancel",
    "kill_process",
    "clock_jump",
]
Point: TypeAlias = Literal["start", "await", "message", "cleanup", "stop", "time"]


def _value_of(error: BaseException | None) -> object:
    return None if error is None else value_of(error)


@final
@frozen(repr=False)
class Fault:
    """One thing that goes wrong; made by the functions of this module.

    Faults are equal if all they say is equal; exceptions are compared by type and arguments. The
    `repr` is the call that makes the fault.

    Attributes:
        kind: Name of the function that made it.
        path: The child it concerns, maybe a pattern; empty for `clock_jump`.
        at: Where in a life it strikes.
        error: The exception of a crash.
        seconds: How long, or how far.
        nth: Which time.
        after: Seconds from the beginning of a life, or for `clock_jump` of the first tree.
        times: How many lives; None is every life.
    """

    kind: Kind
    path: str
    at: Point
    error: BaseException | None = field(default=None, eq=_value_of)
    seconds: float = 0.0
    nth: int = 1
    after: float | None = None
    times: int | None = 1

    def __repr__(self) -> str:
        """Return the call that makes it, without defaults."""
        shown: list[str] = []
        factory: Callable[..., Fault] = globals()[self.kind]
        for name, parameter in inspect.signature(factory).parameters.items():
            value: Any = getattr(self, name)
            if parameter.default is parameter.empty:
                shown.append(text_of(value))
            elif value != parameter.default:
                shown.append(f"{name}={value!r}")
        return f"faults.{self.kind}({', '.join(shown)})"


def crash(
    path: str,
    error: BaseException,
    *,
    at: Literal["start", "await", "message", "cleanup"] = "await",
    nth: int = 1,
    after: float | None = None,
    times: int | None = 1,
) -> Fault:
    """Let a child raise `error`, as if its own code had.

    A copy is raised each time, so that the plan stays a value. `SystemExit`, exception groups,
    `otpy.Exit` and, at the start, `otpy.Ignore` have the meaning they always have.

    Args:
        path: Which child.
        error: What it raises; `cancel` is for `CancelledError`.
        at: "start": in place of all its code. "await": out of what it waits for; one that waits
            for its own task group has the error in one more task of that group. "message": in the
            callback of a `GenServer` that was to serve a call, a cast or an info. "cleanup": at
            the end of its clean-up, which is a server's `terminate`, and otherwise when its code
            has ended in whatever way; a life that never was ready has none.
        nth: Which start, await, message or clean-up.
        after: Seconds until awaits or messages count.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    who = f"faults.crash {path!r}"
    _check(who, path, nth, after, times)
    check_kind(who, "error", error, BaseException, "an exception, not its class")
    if isinstance(error, CancelledError | GeneratorExit):
        refuse(who, "error", error, "what a child could raise; faults.cancel() cancels")
    _check_point(who, at, ("start", "await", "message", "cleanup"))
    if after is not None and at in {"start", "cleanup"}:
        refuse(who, "after", after, f"None with at={at!r}: it counts for awaits and messages")
    return Fault("crash", path, at, error, nth=nth, after=after, times=times)


def hang(
    path: str,
    *,
    at: Literal["start", "stop"] = "stop",
    nth: int = 1,
    times: int | None = 1,
) -> Fault:
    """Let a child hang for ever, until it is cancelled.

    Args:
        path: Which child.
        at: "start": before any of its code runs; one that is ready as soon as its task exists
            counts as ready all the same. "stop": when it was told to end, at the end of its
            clean-up; the next cancellation, when its `shutdown` is over, ends it.
        nth: Which start or stop.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    who = f"faults.hang {path!r}"
    _check(who, path, nth, None, times)
    _check_point(who, at, ("start", "stop"))
    return Fault("hang", path, at, nth=nth, times=times)


def slow_ready(path: str, seconds: float, *, nth: int = 1, times: int | None = 1) -> Fault:
    """Hold a starting child back for `seconds` before its code runs.

    One that is ready as soon as its task exists counts as ready all the same.

    Args:
        path: Which child.
        seconds: How long; above 0.
        nth: Which start.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    who = f"faults.slow_ready {path!r}"
    _check(who, path, nth, None, times)
    _check_seconds(who, "seconds", seconds, above=True)
    return Fault("slow_ready", path, "start", seconds=seconds, nth=nth, times=times)


def ignore_cancellation(path: str, *, nth: int = 1, times: int | None = 1) -> Fault:
    """Let a child go on as if nothing were, however often its supervisor cancels it.

    It is abandoned in the end. One that is asked before it is cancelled (`stop_requested()`, a
    `GenServer`, a context manager) and obeys is never cancelled, and so is not hit. Others may
    still cancel it, its own timeouts and the end of the loop too; leaving the block of the plan
    does.

    Args:
        path: Which child.
        nth: Which stop that comes to a cancellation.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    _check(f"faults.ignore_cancellation {path!r}", path, nth, None, times)
    return Fault("ignore_cancellation", path, "stop", nth=nth, times=times)


def return_early(
    path: str, *, nth: int = 1, after: float | None = None, times: int | None = 1
) -> Fault:
    """Let a child return from an await, as if it had nothing more to do.

    Its code is unwound by a cancellation, so that its own clean-up runs, and then it returns None.
    A `GenServer` stops with `Normal` when it has served what came before.

    Args:
        path: Which child.
        nth: Which await.
        after: Seconds until awaits count.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    _check(f"faults.return_early {path!r}", path, nth, after, times)
    return Fault("return_early", path, "await", nth=nth, after=after, times=times)


def cancel(path: str, *, nth: int = 1, after: float | None = None, times: int | None = 1) -> Fault:
    """Let a stranger cancel a child's task while it waits (AIO-08).

    Args:
        path: Which child.
        nth: Which await.
        after: Seconds until awaits count.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    _check(f"faults.cancel {path!r}", path, nth, after, times)
    return Fault("cancel", path, "await", nth=nth, after=after, times=times)


def kill_process(path: str, *, after: float = 0.0, times: int | None = 1) -> Fault:
    """Kill the operating system's processes that a child has started, with SIGKILL.

    Those are meant that it, or a task of its own, has started through asyncio or anyio since its
    life began, and that still run. If none does when the time has come, the next one is killed
    as soon as it has been started.

    Args:
        path: Which child.
        after: Seconds from the beginning of a life.
        times: In how many lives; None is every life.

    Raises:
        InvalidSpec: If it can never work.
    """
    who = f"faults.kill_process {path!r}"
    _check(who, path, 1, None, times)
    _check_seconds(who, "after", after)
    return Fault("kill_process", path, "time", after=after, times=times)


def clock_jump(seconds: float, *, after: float = 0.0) -> Fault:
    """Let the wall clock jump, forward or, if `seconds` is negative, back; timers go on as ever.

    It needs a `MockClock`: on any other loop `otpy.start` raises `FaultImpossible`.

    Args:
        seconds: How far; not 0.
        after: Seconds from the start of the first tree in the plan's block.

    Raises:
        InvalidSpec: If it can never work.
    """
    who = "faults.clock_jump"
    if not is_number(seconds) or not math.isfinite(seconds) or not seconds:
        refuse(who, "seconds", seconds, "seconds, finite and other than 0")
    _check_seconds(who, "after", after)
    return Fault("clock_jump", "", "time", seconds=seconds, after=after)


def _check(who: str, path: object, nth: object, after: object, times: object) -> None:
    if not isinstance(path, str) or not all(path.split("/")):
        refuse(who, "path", path, "ids joined by '/', such as 'app/db', 'app/*' or '**'")
    if not _is_count(nth):
        refuse(who, "nth", nth, "a whole number of at least 1")
    if after is not None:
        _check_seconds(who, "after", after)
    if times is not None and not _is_count(times):
        refuse(who, "times", times, "a whole number of at least 1, or None")


def _is_count(got: object) -> bool:
    return isinstance(got, int) and not isinstance(got, bool) and got >= 1


def _check_point(who: str, at: object, points: tuple[Point, ...]) -> None:
    if at not in points:
        refuse(who, "at", at, " or ".join(map(repr, points)))


def _check_seconds(who: str, what: str, got: object, *, above: bool = False) -> None:
    wanted = f"seconds {'above' if above else 'of at least'} 0, and finite"
    check_number(who, what, got, wanted, least=0, above=above)
    if got == math.inf:
        refuse(who, what, got, wanted)
