"""Tasks that a child created and left behind: they end when its life is over.

| when | what happens to a task that runs in a context of a life that is over |
|---|---|
| one turn of the loop after the end of that life | it is cancelled |
| `KILL_GRACE` later | it is cancelled once more, given up and reported, with its stack |
| the block is left | the same for what came since, and the host waits until it is over |

Nothing else waits for it: the next life begins when the child itself has ended.

To find such tasks is to look at every task of the loop, for milliseconds among 10,000. So there
must be a hint. What stands for a life in its contexts (`OneLife`) is held by nothing else once the
life is over, so a glance at its reference count, one turn later when all else has let go of it,
says whether any context is left. It need not be that of a task: a timer that was cancelled keeps
its own until it would have been due. So searches are limited: to a fiftieth of the time, beyond a
first few.
"""

from __future__ import annotations

import asyncio
import gc
import math
import sys
from contextlib import suppress
from contextvars import Context
from functools import partial
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from otpy._core.protocol import KILL_GRACE
from otpy._runtime.child_task import is_childs
from otpy._runtime.current import CURRENT
from otpy._runtime.inner import tree_of
from otpy._runtime.stack import stack_of
from otpy._runtime.waiters import Waiters, release, wait_among

if TYPE_CHECKING:
    from otpy._runtime.current import OneLife
    from otpy._runtime.handles import Process
    from otpy._runtime.tree import Tree

    AnyTask: TypeAlias = asyncio.Task[Any]

SUBTASK: Final = "subtask"
"""The leftover of a child whose own task has ended: see `ChildAbandoned.what`."""

_COST: Final = 20e-6
"""Seconds that a search costs for each task it looks at: fifty times what it takes."""

_CREDIT: Final = 0.2
"""Seconds that searches may cost beyond those that have passed: ten thousand tasks looked at."""

_NOBODY: Final = [object()]
_is_gil_enabled: Any = getattr(sys, "_is_gil_enabled", lambda: True)  # since Python 3.13
_COUNTS: Final = (getrefcount(*_NOBODY), max(map(getrefcount, _NOBODY)))
_ALONE: Final[int] = min(_COUNTS) if _is_gil_enabled() else 0
"""The reference count, in the two ways in which `_sift` asks for it, of what one list holds and
nothing else; 0 where counts tell nothing."""


@final
class Leftovers:
    """Ends the tasks that the children of one tree leave behind."""

    __slots__ = (
        "_deadline",
        "_doubt",
        "_ended",
        "_found",
        "_paid",
        "_refusing",
        "_soon",
        "_timer",
        "_tree",
        "_waiters",
    )

    def __init__(self, tree: Tree) -> None:
        """Know of nothing."""
        self._tree = tree
        self._soon = partial(tree.loop.call_soon, self._sift, context=tree.context)  # for speed
        self._ended: list[OneLife] = []  # in this turn of the loop or the one before
        self._doubt = False  # whether a context was ever left of one that had ended
        self._paid = 0.0  # the time at which all searches so far have been paid for
        self._timer: asyncio.Handle | None = None  # of the next search
        self._found: dict[AnyTask, Process] = {}  # whose end is awaited, or was given up:
        self._refusing: set[AnyTask] = set()
        self._deadline: float | None = None  # to be through with all of them; the block is left
        self._waiters: Waiters[None] = {}

    def ended(self, life: OneLife) -> None:
        """`life` is over: find out in the next turn whether it left anything.

        Not in this turn: the task of which it was the end still holds a context.
        """
        if not self._ended:
            self._soon()
        self._ended.append(life)

    def settled(self) -> bool:
        """Whether nothing of the tree runs any more, or what does has been given up.

        Asked when the root has ended and the block is being left; `change` waits until the answer
        may be another.
        """
        tree = self._tree
        if self._deadline is None and (self._doubt or self._ended):
            self._deadline = math.inf  # until the search: the loop may be held up before that
            if self._timer is not None:
                self._timer.cancel()
            # What was made since, by a timer for one, is found by this alone. By the loop, for the
            # stack here is the host's.
            self._timer = tree.loop.call_soon(self._search, context=tree.context)
        searches = self._ended or self._timer is not None
        settled = not searches and len(self._found) == len(self._refusing)
        if settled:
            self._deadline = None  # the tree may have ended before its block began
        return settled

    async def change(self) -> None:
        """Wait until tasks have ended or were given up."""
        tree = self._tree
        assert tree.root is not None  # noqa: S101 - it has ended
        await wait_among(self._waiters, tree.loop, tree.root)

    def outlived(self, process: Process) -> None:
        """The task of `process`, which had been given up, has ended at last."""
        if any(self._found[task] is process for task in self._refusing):
            self._tree.abandoned[process] = SUBTASK
        else:
            self._tree.abandoned.pop(process, None)

    # --- finding them ----------------------------------------------------------------------------

    def _sift(self) -> None:
        ended = self._ended
        # One alone is what is usual, and takes a quarter of the time in this way.
        count = getrefcount(*ended) if len(ended) == 1 else max(map(getrefcount, ended), default=0)
        ended.clear()
        if count > _ALONE:
            self._doubt = True
            if self._timer is None:
                self._plan()
        if self._waiters:
            release(self._waiters, None)

    def _plan(self) -> None:
        tree, deadline, when = self._tree, self._deadline, self._paid - _CREDIT
        now = tree.loop.time()
        if now >= when:
            self._search()
        elif deadline is None:
            self._timer = tree.call_at(when, self._search)
        elif now < deadline:
            self._timer = tree.call_at(min(when, deadline), self._search)

    def _search(self) -> None:
        """Find the tasks of all lives of this tree that are over, and begin to end them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tree, found = self._tree, self._found
        tasks = asyncio.all_tasks(tree.loop)
        now, host = tree.loop.time(), asyncio.current_task(tree.loop)
        if self._deadline == math.inf:
            self._deadline = now + KILL_GRACE
        self._paid = max(self._paid, now) + len(tasks) * _COST
        new: list[tuple[AnyTask, OneLife]] = []
        for task in tasks:
            if is_childs(task) or task in found or task is host:
                continue  # what a process itself lives in is ended by `StopSequence`
            life = _life_in(task)
            if life is not None and tree_of(life.process) is tree and not life.process.alive:
                new.append((task, life))
        if new:
            grace = KILL_GRACE if self._deadline is None else max(0.0, self._deadline - now)
            new.sort(key=_order)
            found.update((task, life.process) for task, life in new)
            _Batch(self, tree, dict(new), grace).begin()
        self._changed()

    # --- ending them -----------------------------------------------------------------------------

    def gone(self, task: AnyTask, life: OneLife) -> None:
        """A task that was found has ended; its clean-up may have made others."""
        process = self._found.pop(task)
        if task in self._refusing:
            self._refusing.remove(task)
            if self._tree.abandoned.get(process) == SUBTASK:
                self.outlived(process)
        elif self._deadline is None or self._tree.loop.time() < self._deadline:
            self.ended(life)
        self._changed()

    def refused(self, task: AnyTask) -> None:
        """A task that was found has not ended in time."""
        self._refusing.add(task)
        name = task.get_name()
        self._tree.gave_up_on(self._found[task], SUBTASK, stack_of(task), name)
        self._changed()

    def _changed(self) -> None:
        if self._waiters:
            release(self._waiters, None)


@final
class _Batch:
    """Tasks that were found in one search: cancelled, and given up together."""

    __slots__ = ("_grace", "_leftovers", "_tasks", "_timer", "_tree")

    def __init__(
        self, leftovers: Leftovers, tree: Tree, tasks: dict[AnyTask, OneLife], grace: float
    ) -> None:
        """End `tasks`, each found in a context of the life beside it, within `grace` seconds."""
        self._leftovers = leftovers
        self._tree = tree
        self._tasks = tasks
        self._grace = grace
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Cancel them."""
        for task in self._tasks:
            task.add_done_callback(self._done, context=self._tree.context)
        if self._grace:
            self._timer = self._tree.call_later(self._grace, self._give_up)
            self._cancel()
        else:
            self._give_up()

    def _cancel(self) -> None:
        for task, life in tuple(self._tasks.items()):
            # What is raised comes out of the future that it waits for, which may be anybody's.
            with suppress(Exception, asyncio.CancelledError):
                task.cancel(f"{life.process.path} has ended")

    def _give_up(self) -> None:
        self._timer = None
        self._cancel()  # one that swallowed the first may still end
        for task in tuple(self._tasks):
            if not task.done():  # where the loop was held up, `_done` comes a turn after this
                self._leftovers.refused(task)

    def _done(self, task: AnyTask) -> None:
        life = self._tasks.pop(task)
        if not self._tasks and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._leftovers.gone(task, life)


def _life_in(task: AnyTask) -> OneLife | None:
    """Return the life in whose context `task` runs; None if that is of no child."""
    get_context: Any = getattr(task, "get_context", None)  # since Python 3.12
    if get_context is not None:
        context = get_context()
    else:  # a task names its own context before those of its callbacks
        context = next((held for held in gc.get_referents(task) if isinstance(held, Context)), None)
    return None if context is None else context.get(CURRENT)


def _order(found: tuple[AnyTask, OneLife]) -> tuple[str, int, int, str, int]:
    """Tell which comes first: the older life, the older task; as far as names tell."""
    task, life = found
    name = task.get_name()
    at = hash(task)  # of one of a simulated loop: how many there were before it
    return life.process.path, life.process.incarnation, len(name), name, at
