"""Exit reasons: why a child ended. The only place that says which reasons are clean."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias, final

from attrs import field, frozen

from otpy._core.enum_cache import cache_members
from otpy._core.text import in_one_line, text_of


@final
@frozen
class Normal:
    """The child returned: it had nothing more to do. OTP's `normal`."""

    def __str__(self) -> str:
        """Return OTP's word."""
        return "normal"


@final
@frozen
class Shutdown:
    """The child ended in good order because it was asked to, or chose to. OTP's `shutdown`.

    Attributes:
        detail: Why, if there is more to say; OTP's `{shutdown, Detail}`.
    """

    detail: object = None

    def __str__(self) -> str:
        """Return OTP's word, with the detail."""
        detail = self.detail
        if detail is None:
            return "shutdown"
        return f"shutdown: {detail if isinstance(detail, FailedToStart) else text_of(detail)}"


@final
@frozen
class Killed:
    """The child was cancelled without being asked first, or after its time to stop was over.

    OTP's `killed`. A cancellation by a stranger, whom asyncio does not name, counts as this too
    (AIO-08).
    """

    def __str__(self) -> str:
        """Return OTP's word."""
        return "killed"


@final
@frozen
class Crashed:
    """The child raised.

    Attributes:
        error: Its exception, with its traceback; the local variables of its frames are there
            until every report hook has returned. `SystemExit` is kept here too; it never ends the
            program (AIO-12).
    """

    error: BaseException = field(eq=id)

    def __str__(self) -> str:
        """Return the error in one line, cut to a thousand characters."""
        return f"crashed: {in_one_line(self.error)}"


@final
@frozen
class Abandoned:
    """The child refused to end and was given up: it still runs, outside the tree.

    asyncio cannot kill. Rather than to claim it, otpy says so (AIO-02, AIO-04).

    Attributes:
        stack: Its last known position, outermost call first, one line per frame.
    """

    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the reason with the innermost frame."""
        where = f" in {self.stack[-1]}" if self.stack else ""
        return f"abandoned: refused to end{where}"


@final
@frozen(eq=False, repr=False)
class FailedToStart:
    """Detail of the `Shutdown` of a supervisor one of whose children did not start (SUP-306).

    The reason is such a `Shutdown` itself if that child is a supervisor, and so on through all
    levels of a tree; therefore nothing here is recursive.

    Attributes:
        child_id: Id of that child.
        reason: Why it did not start.
    """

    child_id: str
    reason: ExitReason

    def _levels(self) -> tuple[tuple[str, ...], ExitReason]:
        """Return the processes that did not start, outside in, and the reason of the last."""
        ids, reason = [self.child_id], self.reason
        while isinstance(reason, Shutdown) and isinstance(reason.detail, FailedToStart):
            ids.append(reason.detail.child_id)
            reason = reason.detail.reason
        return tuple(ids), reason

    def __eq__(self, other: object) -> bool:
        """Whether the same children did not start for the same reason."""
        return self._levels() == other._levels() if isinstance(other, FailedToStart) else False

    def __hash__(self) -> int:
        """Return the hash of the compared values."""
        return hash(self._levels())

    def __repr__(self) -> str:
        """Return the calls that make it."""
        ids, reason = self._levels()
        calls = "Shutdown(detail=".join(f"FailedToStart(child_id={one!r}, reason=" for one in ids)
        return f"{calls}{reason!r}){'))' * (len(ids) - 1)}"

    def __reduce__(self) -> tuple[object, ...]:
        """Be pickled as a list of levels."""
        return _nested_failure, self._levels()

    def __str__(self) -> str:
        """Return one line; nested failures read outside in (SUP-308)."""
        ids, reason = self._levels()
        return f"{': shutdown: '.join(f'failed to start {one!r}' for one in ids)}: {reason}"


def _nested_failure(ids: tuple[str, ...], reason: ExitReason) -> FailedToStart:
    *above, last = ids
    failure = FailedToStart(last, reason)
    for one in reversed(above):
        failure = FailedToStart(one, Shutdown(failure))
    return failure


ExitReason: TypeAlias = Normal | Shutdown | Killed | Crashed | Abandoned

# Made once: the reasons without a detail are asked for at every end.
NORMAL: Final = Normal()
SHUTDOWN: Final = Shutdown()
KILLED: Final = Killed()


class Exit(Exception):
    """Raised by a child to end with a reason of its choice, as `exit(Reason)` in Erlang.

    `raise Exit(Shutdown("no more work"))` ends in good order; a transient child is then not
    restarted.

    Attributes:
        reason: The exit reason its supervisor will see.
    """

    def __init__(self, reason: ExitReason | None = None) -> None:
        """End with `reason`; `Normal()` if none is given."""
        self.reason: ExitReason = Normal() if reason is None else reason
        super().__init__(str(self.reason))


class Ignore(Exception):
    """Raised by a child *while it starts* to say that it need not run (SUP-310 to SUP-313).

    The start goes on as if it had succeeded. The spec of a permanent or transient child is kept
    and can be started later with `restart_child`; a temporary one is forgotten.
    """


def declines(reason: ExitReason) -> bool:
    """Whether what ended with `reason` before it was ready only said that it need not run."""
    return isinstance(reason, Crashed) and isinstance(reason.error, Ignore)


class Restart(Enum):
    """When a child that ended by itself is started again (SUP-205)."""

    PERMANENT = "permanent"
    """Always, whatever the reason."""
    TRANSIENT = "transient"
    """Only after an abnormal end: anything but `Normal` and `Shutdown`."""
    TEMPORARY = "temporary"
    """Never; it is forgotten as soon as it has ended."""


cache_members(Restart)


def failed_to_start(child_id: str, reason: ExitReason) -> Shutdown:
    """Return the exit reason of a supervisor whose child `child_id` did not start (SUP-306)."""
    return Shutdown(FailedToStart(child_id, reason))


def signal_of(reason: ExitReason) -> ExitReason | None:
    """Return the reason that a process passes on to those bound to it; None if it passes on none.

    SIG-01: a normal end disturbs nobody, any other is passed on as it is. A process that was given
    up counts as killed, for who ends because of it has not been given up.
    """
    if isinstance(reason, Normal):
        return None
    return Killed() if isinstance(reason, Abandoned) else reason
