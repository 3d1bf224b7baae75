"""What a tree looks like right now, as frozen values."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, final

from attrs import field, frozen

from otpy._core.child import Status
from otpy._core.nesting import Nested, draw, ids
from otpy._core.spec import ChildType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy._core.child import Child
    from otpy._core.phase import Phase
    from otpy._core.reason import ExitReason
    from otpy._runtime.process import LiveProcess, Process
    from otpy._runtime.shell import Shell


class _Restarting(Enum):
    RESTARTING = "restarting"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


RESTARTING: Final = _Restarting.RESTARTING
"""As `ChildInfo.process`: the child waits for its restart."""


@final
@frozen
class ChildInfo:
    """One entry of `which_children()` (SUP-810).

    Attributes:
        id: Id of the child.
        process: Its process; None if it is known and does not run; `RESTARTING` if it waits for
            a restart.
        type: Worker or supervisor.
    """

    id: str
    process: Process | _Restarting | None
    type: ChildType


@final
@frozen
class Counts:
    """The result of `count_children()` (SUP-811, DYN-12).

    Attributes:
        specs: Children known, running or not.
        active: Children that run.
        supervisors: Supervisors among those known.
        workers: Workers among those known.
    """

    specs: int
    active: int
    supervisors: int
    workers: int


@final
@frozen(kw_only=True, eq=False)
class TreeSnapshot(Nested):
    """A supervisor or a worker, and everything below it, at one moment.

    Attributes:
        id: Its id.
        path: Its path.
        type: Worker or supervisor.
        state: "running", "starting", "stopping", "backing off", "restarting" or "undefined"
            (known, not running); of the root also "ended".
        incarnation: Number of its present or last life; 0 if it never started, or is the root.
        restarts: How often it was restarted.
        last_exit: Why its last life ended; None if none has.
        due_in: Seconds until its restart, while it waits for one.
        children: What stands below it, in start order.
    """

    id: str
    path: str
    type: ChildType
    state: str
    incarnation: int = 0
    restarts: int = 0
    last_exit: ExitReason | None = None
    due_in: float | None = None
    children: tuple[TreeSnapshot, ...] = field(default=(), repr=ids)

    def render(self) -> str:
        """Return the tree as text, one line per supervisor and worker."""
        return "\n".join(draw(self, _label))


def details(node: TreeSnapshot) -> list[str]:
    """Return what a drawing says of `node` behind its id, from left to right."""
    words = [node.state]
    if node.due_in is not None:
        words.append(f"for {node.due_in:.1f} s")
    if node.restarts:
        words.append(f"restarts={node.restarts}")
    if node.last_exit is not None:
        words.append(f"last exit: {node.last_exit}")
    return words


def _label(node: TreeSnapshot) -> str:
    return f"{node.id}  {' '.join(details(node))}"


@final
@frozen
class Row:
    """One line of a child table, at the moment when somebody looked.

    Attributes:
        child: The child; what it is by now is not what it was then.
        process: Its process, that is recorded, even if it has ended and nobody has taken note.
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


def snapshot_of(shell: Shell) -> TreeSnapshot:
    """Return `shell` and everything below it.

    Without recursion, for there may be ten thousand levels: what stands above is looked at first,
    what stands below is made first, since a value that does not change is made with its children.
    """
    found: list[tuple[Shell, Child | None, Phase, tuple[Child, ...]]] = []
    waiting: list[tuple[Shell, Child | None]] = [(shell, None)]
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


def _supervisor_of(shell: Shell, child: Child) -> Shell | None:
    process = shell.process_of(child)
    return None if process is None else process.supervisor


def _supervisor(
    shell: Shell, child: Child | None, phase: Phase, below: tuple[TreeSnapshot, ...]
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


def _worker(shell: Shell, child: Child) -> TreeSnapshot:
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
