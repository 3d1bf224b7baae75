"""The task of a child, and how the way leads from it to its process.

Since Python 3.14, `python -m asyncio ps PID` and `pstree PID` read tasks out of the memory of
another process. What a task runs must then be a coroutine of CPython's own: they look into it
unasked, and an object that passes for one, as `Life` does, ends them with an error. So from there
on tasks run `live`, which takes 200 bytes of each child more, and are of a class of their own that
does what `Life` does elsewhere: it knows the process, and shows the child's own coroutine.
"""

from __future__ import annotations

import asyncio
import sys
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otpy._runtime.current import CURRENT
from otpy._runtime.life import Life, live

if TYPE_CHECKING:
    from contextvars import Context

    from otpy._runtime.behaviour import TaskLike
    from otpy._runtime.current import OneLife
    from otpy._runtime.inner import InnerProcess
    from otpy._runtime.life import Body

_T = TypeVar("_T")

SEEN_FROM_OUTSIDE: Final = sys.version_info >= (3, 14)
"""Whether Python can show the tasks of another process."""


class ChildTask(asyncio.Task[_T]):
    """A task that knows its process, and shows the child's own coroutine in place of `live`.

    Attributes:
        process: The process that lives in it.
    """

    __slots__ = ("process",)
    process: InnerProcess

    def get_coro(self) -> Any:
        """Return the coroutine of the child's own code; before its first step, that around it."""
        coro: Any = super().get_coro()
        if getattr(coro, "cr_code", None) is not live.__code__ or coro.cr_frame is None:
            return coro
        own: Any = coro.cr_frame.f_locals["body"]
        plain: object = own  # asked as an object, it stays of any type
        return own if isinstance(plain, CoroutineType) else coro

    _coro = property(get_coro)  # asyncio asks for this one: its `repr`, `get_stack`, `print_stack`


TASK_CLASS: Final[type[asyncio.Task[Any]]] = ChildTask if SEEN_FROM_OUTSIDE else asyncio.Task
"""What children's tasks are, unless the loop says otherwise."""


def run(process: InnerProcess, body: Body, context: Context) -> None:
    """Let `process` live as `body` says, in a task of its own, which runs it in `context`.

    Not made by the loop's task factory: an eager one would run the child inside its supervisor.
    """
    tree = process.parent.tree
    make: Any = tree.task_class or TASK_CLASS
    loop, name = tree.loop, process.path
    # Known to the process in the line that makes it: an error in between would leave it behind.
    if SEEN_FROM_OUTSIDE:
        process.task = task = make(live(process, body), loop=loop, name=name, context=context)
        task.process = process
    else:  # a `Life` passes for a coroutine
        process.task = task = make(Life(process, body), loop=loop, name=name, context=context)
    task.add_done_callback(_ended, context=tree.context)


def _ended(task: asyncio.Task[Any]) -> None:
    process = process_of(task)
    tree = process.parent.tree
    if task.cancelled():
        tree.enqueue(process.record_end, None, True)
        return
    error = task.exception()
    if error is not None and error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # without otpy's own frame
    tree.enqueue(process.record_end, error)


def is_childs(task: asyncio.Task[Any]) -> bool:
    """Whether `task` is the task of a process."""
    return hasattr(task, "process") if SEEN_FROM_OUTSIDE else isinstance(task.get_coro(), Life)


def life_in(task: TaskLike, process: InnerProcess) -> OneLife | None:
    """Return what stands for the life of `process` in its contexts, if it has begun one."""
    life: Any = task.get_coro()
    if SEEN_FROM_OUTSIDE:
        get_context: Any = getattr(task, "get_context", None)
        life = None if get_context is None else get_context().get(CURRENT)
    return None if life is None or life.process is not process else life


def process_of(task: asyncio.Task[Any]) -> InnerProcess:
    """Return the process that lives, or lived, in `task`."""
    holder: Any = task if SEEN_FROM_OUTSIDE else task.get_coro()
    process: InnerProcess = holder.process
    return process
