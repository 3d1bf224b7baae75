"""A machine's knowledge of one child."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, final

from otpy._core.enum_cache import cache_members
from otpy._core.spec import ChildSpec
from otpy._core.window import RestartWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._core.spec import AnySpec


class Status(Enum):
    """The phases of a child's life."""

    UNDEFINED = "undefined"
    """Known, not running: ended for good, ignored, stopped by hand, or not yet started."""
    STARTING = "starting"
    """Its start was asked for; it is not ready yet."""
    RUNNING = "running"
    """It is ready, and its end has not been dealt with."""
    STOPPING = "stopping"
    """It was told to end."""
    BACKING_OFF = "backing off"
    """It ended; its restart is due at a time."""
    RESTARTING = "restarting"
    """A restart failed; the next attempt is due at a time, or at once (SUP-612)."""


cache_members(Status)


@final
class RestartState:
    """How fast one child is restarted; made on first use, for most are restarted at once.

    And what few children have beside it.

    Attributes:
        attempt: How many restarts its backoff has counted.
        started_at: When its present life began (monotonic seconds), if it has a backoff.
        due: When its restart is due (monotonic seconds), while it waits for one.
        earlier: What the crash before its last one raised, if the last was raised because of it.
        pending: See `Child.pending`.
        token: Number of the timer that it waits for, or waited for last.
        window: Its own restart window, if it has one and was ever restarted.
    """

    __slots__ = ("attempt", "due", "earlier", "pending", "started_at", "token", "window")

    def __init__(self) -> None:
        """Count nothing and wait for nothing."""
        self.attempt = 0
        self.started_at = 0.0
        self.due = 0.0
        self.earlier: BaseException | None = None
        self.pending: ExitReason | None = None
        self.token = 0
        self.window: RestartWindow | None = None


@final
class Child:
    """The record of one child; it outlives the child's incarnations.

    Attributes:
        spec: Its spec.
        key: Its key in the child table; the spec's id, made unique by dynamic supervisors.
        status: The phase of its life.
        incarnation: Number of its latest start, from 1; 0 if there was none. Every event names
            one, so that late news of an earlier life is never charged to the next.
        restarts: How often it was started again after it ended by itself.
        last_exit: Why its latest incarnation ended, or did not start; None if it never did.
        process: What the runtime keeps of its latest incarnation, until its end has been dealt
            with. The machines never look into it; here it is found without a look-up by name.
        restart_state: What few children need; None until it is needed.
    """

    __slots__ = (
        "incarnation",
        "key",
        "last_exit",
        "restart_state",
        "process",
        "restarts",
        "spec",
        "status",
    )

    def __init__(self, spec: AnySpec, key: str) -> None:
        """Make the record of a child that was never started."""
        self.spec = spec
        self.key = key
        self.status = Status.UNDEFINED
        self.incarnation = 0
        self.restarts = 0
        self.last_exit: ExitReason | None = None
        self.process: Any = None
        self.restart_state: RestartState | None = None

    def __repr__(self) -> str:
        """Return key, status and incarnation."""
        return f"<Child {self.key!r} {self.status.value} incarnation={self.incarnation}>"

    @property
    def pending(self) -> ExitReason | None:
        """Its own end, noticed while the supervisor was busy and not dealt with yet.

        Not None implies `status` is RUNNING.
        """
        return None if self.restart_state is None else self.restart_state.pending

    @property
    def runs(self) -> bool:
        """Whether it is running, and has not ended in the meantime."""
        running = self.status is Status.RUNNING
        return running and (self.restart_state is None or self.restart_state.pending is None)

    def defer_exit(self, reason: ExitReason) -> None:
        """Note that it ended with `reason`, which is `pending` now."""
        self.ensure_restart_state().pending = reason

    def take_deferred_exit(self) -> ExitReason | None:
        """Return the pending exit, and clear it."""
        if self.restart_state is None:
            return None
        reason, self.restart_state.pending = self.restart_state.pending, None
        return reason

    @property
    def waits(self) -> bool:
        """Whether a restart is due: it can be cut short, or cancelled."""
        return self.status is Status.BACKING_OFF or self.status is Status.RESTARTING

    @property
    def due(self) -> float:
        """When its restart is due (monotonic seconds), while it waits for one."""
        return 0.0 if self.restart_state is None else self.restart_state.due

    def waits_for(self, token: int) -> bool:
        """Whether it waits for a restart that is due with the timer `token`."""
        return self.waits and self.restart_state is not None and self.restart_state.token == token

    def ensure_restart_state(self) -> RestartState:
        """Return its restart state, made on first use."""
        if self.restart_state is None:
            self.restart_state = RestartState()
        return self.restart_state

    @property
    def live(self) -> bool:
        """Whether an incarnation was started whose end has not been dealt with."""
        status = self.status  # compared by identity: the hash of an enum is computed in Python
        return status is Status.RUNNING or status is Status.STOPPING or status is Status.STARTING

    def record_exit(self, reason: ExitReason) -> None:
        """Note that its latest incarnation, which ended with `reason`, has been dealt with."""
        self.last_exit = reason
        self.process = None

    def own_window(self) -> RestartWindow | None:
        """Return the restart window of its own, made on first use; None if it has none."""
        intensity = self.spec.intensity if isinstance(self.spec, ChildSpec) else None
        if intensity is None:
            return None
        state = self.ensure_restart_state()
        if state.window is None:
            state.window = RestartWindow(intensity.max_restarts, intensity.within)
        return state.window

    def next_delay(self, now: float, random: Callable[[], float]) -> float:
        """Return the seconds to wait before the next restart, and count it.

        A life of at least `reset_after` seconds resets the count. A failed restart is not a life:
        `started_at` is then still that of the previous life, which was counted when it ended.
        """
        backoff = self.spec.backoff
        if backoff is None:
            return 0.0
        quiet, state = backoff.reset_after, self.ensure_restart_state()
        if quiet is not None and self.status is Status.RUNNING and now - state.started_at >= quiet:
            state.attempt = 0
        state.attempt += 1
        return backoff.delay(state.attempt - 1, random)
