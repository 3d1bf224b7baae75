"""The tables that supervisors go by. Nothing is decided here; `machine.py` and `dynamic.py` ask.

`docs/reference/exit-matrix.md` shows them, and a test holds it to them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from otpy._core.enum_cache import cache_members
from otpy._core.protocol import Context
from otpy._core.reason import Crashed, Killed, Normal, Restart, Shutdown
from otpy._core.spec import AutoShutdown, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.child import Child
    from otpy._core.reason import ExitReason

_CLEAN: Final = (Normal, Shutdown)  # a tuple: `A | B` would be put together at every question


# --- an end by itself ----------------------------------------------------------------------------


class Verdict(Enum):
    """What becomes of a child that ended by itself."""

    RESTART = "restart"
    """It is started again, if the restart intensity allows it."""
    KEEP = "keep"
    """It stays in the table, not running."""
    FORGET = "forget"
    """It leaves the table."""


cache_members(Verdict)


def is_clean(reason: ExitReason) -> bool:
    """Whether `reason` is `Normal` or `Shutdown` with any detail; all others are abnormal."""
    return isinstance(reason, _CLEAN)


def verdict(restart: Restart, reason: ExitReason) -> Verdict:
    """Return what becomes of a child of type `restart` that ended by itself (section 4, SUP-401).

    The whole exit matrix is these three cases: a permanent child is always restarted, a temporary
    one never, and a transient one only after an abnormal end.
    """
    if restart is Restart.PERMANENT:
        return Verdict.RESTART
    if restart is Restart.TEMPORARY:
        return Verdict.FORGET
    return Verdict.KEEP if is_clean(reason) else Verdict.RESTART


def is_reported(restart: Restart, reason: ExitReason) -> bool:
    """Whether an end by itself is worth an error report (SUP-401, SUP-404)."""
    return restart is Restart.PERMANENT or not is_clean(reason)


# --- an end that the supervisor wanted -----------------------------------------------------------


def is_expected(restart: Restart, reason: ExitReason, *, brutal: bool) -> bool:
    """Whether a child that its supervisor ended did so as it should (the table of SUP-704).

    Args:
        restart: Restart type of the child.
        reason: The reason it really ended with.
        brutal: Whether it was killed at once (`BRUTAL_KILL`) instead of being asked.

    Returns:
        False if OTP would write a `shutdown_error` report. This never changes the outcome.
    """
    if brutal and isinstance(reason, Killed):
        return True
    if restart is not Restart.PERMANENT:
        return is_clean(reason)
    return not brutal and isinstance(reason, Shutdown) and reason.detail is None


def is_expected_in_pool(restart: Restart, reason: ExitReason, *, brutal: bool) -> bool:
    """Whether a child that its dynamic supervisor ended did so as it should (DYN-15).

    Arguments and result are those of `is_expected`.
    """
    if brutal:
        return isinstance(reason, Killed)
    permanent = restart is Restart.PERMANENT
    return isinstance(reason, Shutdown) or (isinstance(reason, Normal) and not permanent)


# --- a start that failed -------------------------------------------------------------------------


def context_of_failed_start(
    restart: Restart, reason: ExitReason, *, brutal: bool, by_hand: bool, ending: bool
) -> Context | None:
    """Return the error context of a start that failed; None if that is not an error.

    Args:
        restart: Restart type of the child.
        reason: Why it did not start.
        brutal: Whether its supervisor kills it at once (`BRUTAL_KILL`) instead of asking.
        by_hand: Whether a caller asked for the start, and is told (SUP-803, SUP-805).
        ending: Whether its supervisor stops, or stops the child. It is an error of the start then
            if the child was not ready in time, and none if it was told to end and did, or was
            killed as its spec asks.
    """
    if by_hand:
        return None
    if not ending or isinstance(reason, Crashed):
        return Context.START_ERROR
    killed_as_asked = brutal and isinstance(reason, Killed)
    expected = killed_as_asked or is_expected(restart, reason, brutal=False)
    return None if expected else Context.SHUTDOWN_ERROR


# --- who shares the fate of a child --------------------------------------------------------------


def group_of(failed: Child, children: dict[str, Child], strategy: Strategy) -> list[Child]:
    """Return the failed child and those the strategy restarts with it, in start order."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return [failed]
        case Strategy.ONE_FOR_ALL:
            return list(children.values())
        case Strategy.REST_FOR_ONE:
            group: list[Child] = []
            for child in reversed(children.values()):  # how many come before it does not matter
                group.append(child)
                if child is failed:
                    break
            return group[::-1]


def ends_with_it(auto_shutdown: AutoShutdown, others_run: Callable[[], bool]) -> bool:
    """Whether a supervisor ends that has just lost a significant child (SUP-901 to SUP-903).

    `others_run` tells whether another significant child runs, or is to run again.
    """
    match auto_shutdown:
        case AutoShutdown.NEVER:  # it was significant under a spec that has been replaced since
            return False
        case AutoShutdown.ANY_SIGNIFICANT:
            return True
        case AutoShutdown.ALL_SIGNIFICANT:
            return not others_run()
