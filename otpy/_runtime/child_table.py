"""How the child table of a supervisor is shown: its lines, counts, and the tree below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import frozen

from otpy._core.child import Status
from otpy._core.spec import ChildType
from otpy._runtime.handles import RESTARTING, ChildInfo
from otpy._runtime.snapshot import Counts, TreeSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy._core.child import Child
    from otpy._core.phase import Phase
    from otpy._runtime.handles import Process
    from otpy._runtime.inner import InnerSupervisor
    from otpy._runtime.process import LiveProcess


@final
@frozen
class Row:
    """One line of a child table, at the moment of the look.

    Attributes:
        child: The child; what it is by now is not what it was then.
        process: Its recorded process, even if that has ended and the end was not handled yet.
        runs: Whether that process really ran.
        waits: Whether the child waited for a restart.
    """

    child: Child
    process: Process | None
    runs: bool
    waits: bool


def row_of(child: Child, status: Status, process: LiveProcess | None) -> Row:
    """Return the line of `child`, which had this status and this process when its turn came."""
    if process is None and status is Status.RUNNING:
        process = child.process  # it was started in the same turn, just before this is answered
    waits = status is Status.BACKING_OFF or status is Status.RESTARTING
    runs = process is not None and process.runs and status is not Status.UNDEFINED
    return Row(child, None if status is Status.UNDEFINED else process, runs, waits)


def info_of(row: Row) -> ChildInfo:
    """Return the entry of a child in `which_children()`."""
    child = row.child
    return ChildInfo(child.key, RESTARTING if row.waits else row.process, child.spec.type)


def counts_of(table: Sequence[Row]) -> Counts:
    """Count children; one that waits for a restart is known but not active (SUP-620, SUP-811)."""
    supervisors = sum(row.child.spec.type is ChildType.SUPERVISOR for row in table)
    active = sum(row.runs for row in table)
    return Counts(len(table), active, supervisors, len(table) - supervisors)


def snapshot_of(shell: InnerSupervisor) -> TreeSnapshot:
    """Return `shell` and everything below it.

    Without recursion, because there may be ten thousand levels: upper levels are read first,
    lower ones are made first, because an immutable value is made with its children.
    """
    found: list[tuple[InnerSupervisor, Child | None, Phase, tuple[Child, ...]]] = []
    waiting: list[tuple[InnerSupervisor, Child | None]] = [(shell, None)]
    while waiting:
        one, record = waiting.pop()
        phase, children = one.seen()
        found.append((one, record, phase, children))
        for child in children:
            leader = _supervisor_of(one, child)
            if leader is not None:
                waiting.append((leader, child))
    made: dict[Child | None, TreeSnapshot] = {}
    for one, record, phase, children in reversed(found):
        below = [made.pop(child) if child in made else _worker(one, child) for child in children]
        made[record] = _supervisor(one, record, phase, tuple(below))
    return made[None]


def _supervisor_of(shell: InnerSupervisor, child: Child) -> InnerSupervisor | None:
    process = shell.process_of(child)
    return None if process is None else process.supervisor


def _supervisor(
    shell: InnerSupervisor, child: Child | None, phase: Phase, below: tuple[TreeSnapshot, ...]
) -> TreeSnapshot:
    """Return `shell`, below which stands `below`; `child` is its record in the supervisor above."""
    return TreeSnapshot(
        id=shell.path.rpartition("/")[2],
        path=shell.path,
        type=ChildType.SUPERVISOR,
        state=phase.value,
        incarnation=child.incarnation if child else 0,
        restarts=child.restarts if child else 0,
        last_exit=child.last_exit if child else None,
        children=below,
    )


def _worker(shell: InnerSupervisor, child: Child) -> TreeSnapshot:
    """Return a child of `shell` below which nothing stands."""
    due = child.due - shell.tree.loop.time() if child.waits else None
    return TreeSnapshot(
        id=child.key,
        path=f"{shell.path}/{child.key}",
        type=child.spec.type,
        state=(Status.UNDEFINED if child.pending is not None else child.status).value,
        incarnation=child.incarnation,
        restarts=child.restarts,
        last_exit=child.pending or child.last_exit,
        due_in=None if due is None else max(0.0, due),
    )
