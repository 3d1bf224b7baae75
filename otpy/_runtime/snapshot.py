"""The current state of a tree, as frozen values."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import field, frozen

from otpy._core.nesting import Nested, draw, ids

if TYPE_CHECKING:
    from otpy._core.reason import ExitReason
    from otpy._core.spec import ChildType


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
        children: Its children, in start order.
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
    """Return the details of `node` in a drawing, from left to right."""
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
