"""Processes and supervisors, as the parts of the runtime see them.

Signals, stops and lives work with the objects of `process.py` and `shell.py`, which are above them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, cast, final
from weakref import ref

from otpy._runtime.handles import Monitor, Process
from otpy._runtime.tree import Root

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from otpy._core.child import Child
    from otpy._core.phase import Phase
    from otpy._core.protocol import Event
    from otpy._core.reason import ExitReason
    from otpy._runtime.behaviour import Behaviour, TaskLike
    from otpy._runtime.blame import Blame
    from otpy._runtime.handles import Notice
    from otpy._runtime.tree import Tree


class InnerSupervisor(Root):
    """A supervisor, as its own process and those below it know it.

    Attributes:
        tree: The state shared by all supervisors of its tree.
    """

    tree: Tree

    @abstractmethod
    def enqueue(self, event: Event) -> None:
        """Hand `event` to the machine, after the queued ones; for the loop's callbacks."""

    @abstractmethod
    def child_exited(self, child: Child, incarnation: int, reason: ExitReason) -> None:
        """Take the end of a child that had been ready."""

    @abstractmethod
    def note(self, key: str, blame: Blame | None) -> None:
        """Remember why the supervisor `key` below this one ended."""

    @abstractmethod
    def seen(self) -> tuple[Phase, tuple[Child, ...]]:
        """Return its phase, and the records of its children in start order."""

    @abstractmethod
    def process_of(self, child: Child) -> InnerProcess | None:
        """Return the live process of `child`, if it has one."""


class InnerProcess(Process[Any]):
    """A process, as signals, stops and lives know it.

    Attributes:
        behaviour: What takes messages for it; None if it has ended, or is not a `GenServer` or the
            like.
        task: The task it lives in, or what stands for one; None for a supervisor, which has none,
            and for a process that has ended.
    """

    __slots__ = ("behaviour", "task")

    if TYPE_CHECKING:  # what the runtime makes stands among what the runtime makes
        parent: InnerSupervisor  # type: ignore[assignment]
        supervisor: InnerSupervisor | None  # type: ignore[assignment]
    behaviour: Behaviour | None
    task: TaskLike | None

    @property
    @abstractmethod
    def watchers(self) -> Watchers | None:
        """Its monitors and links; None if it never had any."""

    @abstractmethod
    def ensure_watchers(self) -> Watchers:
        """Return its monitors and links, made on first use."""

    @property
    @abstractmethod
    def asked(self) -> asyncio.Future[None] | None:
        """Resolved when it is asked to stop; None until a task first waits for that."""

    @abstractmethod
    def stop(
        self,
        kill: bool = False,  # noqa: FBT001, FBT002
        reason: ExitReason | None = None,
        asks: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Begin to end it; for the loop's callbacks."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Let its supervisor fail: an operation on this process broke off."""

    @abstractmethod
    def report_ready(self, value: object = None) -> None:
        """Note that the child is ready, and tell its supervisor."""

    @abstractmethod
    def record_end(self, error: BaseException | None, cancelled: bool = False) -> None:  # noqa: FBT001, FBT002 - it is news
        """Its life is over; wait for threads it has left behind if it was told to end."""

    @abstractmethod
    def end(self, reason: ExitReason) -> None:
        """Mark it as ended: tell its supervisor and all waiting callers."""

    @abstractmethod
    def abandon(self, what: str, stack: tuple[str, ...]) -> None:
        """Give it up: it refused to end."""

    @abstractmethod
    def hear_of(self, partner: InnerProcess, reason: ExitReason) -> None:
        """Hear that `partner` had ended before it was linked."""


def tree_of(process: Process[Any]) -> Tree:
    """Return the tree that `process` stands in."""
    return inner_of(process).parent.tree


def inner_of(process: Process[Any]) -> InnerProcess:
    """Return `process` as the parts of the runtime know it: none was ever made as anything else."""
    return cast("InnerProcess", process)


class NoticeInbox(Protocol):
    """Where notices go: the mailbox of a behaviour, or a `Trap`."""

    def deliver(self, notice: Notice) -> None:
        """Take `notice`; it must not run user code."""

    def discard(self, unwanted: Callable[[object], bool]) -> None:
        """Take back every notice that lies unread and is `unwanted`."""


@final
class Watchers:
    """The watchers of one process's end, and its own handling of exit signals.

    Attributes:
        monitors: Its monitors, oldest first; one that must be told although nobody holds it is
            kept here.
        links: The processes it is linked to, oldest first.
        watching: The monitors that its own code made, as far as they wait.
        inbox: Where exit signals go; None if they end it.
    """

    __slots__ = ("inbox", "links", "monitors", "watching")

    def __init__(self) -> None:
        """Want nothing yet."""
        self.monitors: dict[Watch, Monitor | None] = {}
        self.links: dict[InnerProcess, None] = {}
        self.watching: dict[Watch, None] = {}
        self.inbox: NoticeInbox | None = None


@final
class Watch(ref[Monitor]):
    """A listed monitor: a dropped one leaves the lists it is in.

    Attributes:
        target: Of the process it watches.
        owner: Of the process whose code made it; None if that was code outside of any.
    """

    __slots__ = ("owner", "target")

    target: Watchers
    owner: Watchers | None

    def leave(self) -> None:
        """Stand in no list any more."""
        self.target.monitors.pop(self, None)
        if self.owner is not None:
            self.owner.watching.pop(self, None)
