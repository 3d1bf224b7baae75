"""How the assignments of a list came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from otpy_agents.store.records import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy_agents.store.records import AssignmentRecord
    from otpy_agents.worklist.assignment import WorkList

__all__ = ["Conclusion", "conclusions_of"]


@frozen(kw_only=True)
class Conclusion:
    """How an assignment of a list came out.

    Attributes:
        id: The assignment.
        expected: How it was to end.
        ended: How it ended.
        reason: Why; may be empty.
        restarts: How often it was restarted.
        seconds: Working time.
    """

    id: str
    expected: str
    ended: str
    reason: str
    restarts: int
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether it ended the way it was expected to."""
        return self.ended == self.expected


def conclusions_of(work: WorkList, records: Sequence[AssignmentRecord]) -> tuple[Conclusion, ...]:
    """Return how each assignment came out, in the order of the list."""
    known = {record.id: record for record in records}
    return tuple(
        Conclusion(
            id=assignment.id,
            expected=str(assignment.expect),
            ended=str(record.state if record else State.PENDING),
            reason=record.reason if record else "",
            restarts=record.restarts if record else 0,
            seconds=record.seconds if record else 0.0,
        )
        for assignment in work.assignments
        for record in [known.get(assignment.id)]
    )
