"""How long the stop of a tree may take: the deadlines of all that it has to end."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, final

from otpy._core.protocol import KILL_GRACE
from otpy._core.spec import BRUTAL_KILL, INFINITY
from otpy._runtime.handles import DynamicSupervisor, SupervisorHandle
from otpy._runtime.process import live_of
from otpy._runtime.snapshot import TreeSnapshot
from otpy.errors import NotRunning

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor, Process
    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Body, Interposer

_LAST_STEPS = 6  # a stop that a kill overtakes, which waits for cancellations and threads again
_LAST_STEPS_OF_ALL = 3  # below a supervisor: all are asked, and killed, at once


class _Share(NamedTuple):
    """The time limits of one child: seconds until it is ready, and then to stop."""

    start: float
    stop: float


@final
class Starts:
    """Reports starts below a root to its bound, once there is one; an interposer.

    Attributes:
        bound: Whom it tells.
    """

    def __init__(self, inner: Interposer) -> None:
        """Stand outside of `inner`."""
        self.bound: StopBound | None = None
        self._inner = inner

    def around(self, process: Process, body: Body) -> Body:
        """Note a start."""
        if self.bound is not None:
            self.bound.note(live_of(process))
        return self._inner.around(process, body)

    def lets_cancel(self, process: Process) -> bool:
        """Change nothing."""
        return self._inner.lets_cancel(process)


@final
class StopBound:
    """The bound of a stop that begins now.

    A supervisor goes on with its work until its turn to stop comes, and may start children until
    then: the observer of a start has to `note` it. At most one life of each id exists when the
    turn of its supervisor comes, so a replacement adds no time to that of the child it replaces.
    """

    def __init__(self, root: AnySupervisor) -> None:
        """Count all that runs below `root`."""
        self._root = root.path
        self._shares: dict[str, dict[str, _Share]] = {}  # by the path of a supervisor, and by id
        self._at_once: set[str] = set()  # supervisors that stop all children at the same time
        self._known(root)
        left: list[tuple[SupervisorHandle, TreeSnapshot]]
        left = [(root, node) for node in root.snapshot().children]
        while left:
            supervisor, node = left.pop()
            with suppress(NotRunning):
                process = live_of(supervisor.child(node.id))
                self._count(process)
                if process.supervisor is not None:
                    left += [(process.supervisor, below) for below in node.children]

    def note(self, process: LiveProcess) -> None:
        """Count a worker that has been started since, and the supervisors above it."""
        above: Process | None = process
        while above is not None:
            self._count(live_of(above))
            above = above.parent.process

    def _known(self, supervisor: SupervisorHandle) -> dict[str, _Share]:
        if isinstance(supervisor, DynamicSupervisor):
            self._at_once.add(supervisor.path)
        return self._shares.setdefault(supervisor.path, {})

    def _count(self, process: LiveProcess) -> None:
        limit = process.spec.shutdown
        seconds = math.inf if limit is INFINITY else 0.0 if limit is BRUTAL_KILL else float(limit)
        if process.supervisor is not None:
            self._known(process.supervisor)
        waits = process.supervisor is None and not process.ready
        shares = self._known(process.parent)
        start, stop = shares.get(process.id, (0.0, 0.0))
        start = max(start, seconds if waits else 0.0)
        steps = _LAST_STEPS if process.supervisor is None else _LAST_STEPS_OF_ALL
        shares[process.id] = _Share(start, max(stop, seconds + steps * KILL_GRACE))

    @property
    def seconds(self) -> float:
        """How long the stop may take, as far as is known."""
        return self._of(self._root)

    def _of(self, path: str) -> float:
        starts, stops = [0.0], [0.0]
        for key, share in self._shares[path].items():
            below = f"{path}/{key}"
            known = below in self._shares  # when its own limit is over, all below it is killed
            starts.append(share.start)
            stops.append(min(share.stop, self._of(below)) if known else share.stop)
        if path in self._at_once:
            return max(map(sum, zip(starts, stops, strict=True)))
        return max(starts) + sum(stops)
