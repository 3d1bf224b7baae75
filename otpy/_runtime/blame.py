"""Why a supervisor gave up, down to the child that crashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import define, frozen

from otpy._core.reason import Crashed, FailedToStart, Shutdown, declines
from otpy.errors import SupervisorFailed, TreeStartFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otpy._core.protocol import Failure
    from otpy._core.reason import ExitReason


@final
@frozen
class RestartRecord:
    """One entry of the restart history of a `SupervisorFailed`.

    Attributes:
        path: Path of the child.
        incarnation: Which of its lives ended.
        after: Seconds from the start of its supervisor to that end.
        reason: Why it ended.
    """

    path: str
    incarnation: int
    after: float
    reason: ExitReason

    def __str__(self) -> str:
        """Return one line."""
        life = f"incarnation {self.incarnation}"
        return f"{self.path} {life} ended at {self.after:.3f} s: {self.reason}"


@final
@define(eq=False)
class Blame:
    """The failure of one supervisor, and that of the supervisor below it which caused it.

    Attributes:
        path: Path of the supervisor.
        failure: What its machine said.
        began: When the supervisor was started, in monotonic seconds.
        below: The same for the child that failed, if that is a supervisor.
    """

    path: str
    failure: Failure
    began: float
    below: Blame | None

    def _from_here_down(self) -> Iterator[Blame]:
        blame: Blame | None = self
        while blame is not None:  # no recursion: there may be a thousand levels
            yield blame
            blame = blame.below

    def _history(self) -> Iterator[RestartRecord]:
        for blame in self._from_here_down():
            for time, child_id, incarnation, reason in blame.failure.history:
                path = f"{blame.path}/{child_id}"
                yield RestartRecord(path, incarnation, time - blame.began, reason)

    def deepest(self) -> Blame:
        """Return the failure at the bottom, where the trouble began."""
        *_, last = self._from_here_down()
        return last

    def error(self, abandoned: Iterable[str]) -> SupervisorFailed:
        """Return the exception for the host, with the last crash as its cause."""
        root = self.failure
        cause = self.deepest()
        culprit = cause.failure.child_id
        ends = [reason for _, child_id, _, reason in cause.failure.history if child_id == culprit]
        reasons = ends or [cause.failure.reason]
        kind = SupervisorFailed if root.limit else TreeStartFailed
        if root.limit:
            what = f"gave up: {root.limit}"
        else:
            who = f"{root.child_id}: " if root.child_id else ""
            why = "its children raised Ignore" if declines(root.reason) else str(root.reason)
            what = f"did not start: {who}{why}"
        if self.path != cause.path:
            what += f"; {cause.path} {cause.failure.limit}" if cause.failure.limit else ""
        path = f"{cause.path}/{culprit}" if culprit else cause.path
        error = kind(
            path,
            f"{self.path} {what}",
            reasons=reasons,
            history=self._history(),
            abandoned=list(abandoned),
        )
        error.__cause__ = crash_in(cause.failure.reason)
        return error


def crash_in(reason: ExitReason) -> BaseException | None:
    """Return the exception that `reason` stands for, also inside a failed start."""
    while isinstance(reason, Shutdown) and isinstance(reason.detail, FailedToStart):
        reason = reason.detail.reason
    return reason.error if isinstance(reason, Crashed) else None
