"""What monitors hear of a life: its card, a program's activity, and its parent."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, final

import otpy
from otpy_monitors import activity

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from otpy_agents.agent.post import Post
    from otpy_monitors import Feed

__all__ = ["Children", "Program", "shown"]


@contextlib.contextmanager
def shown(
    feed: Feed, post: Post, cwd: Path, *, parent: str, directories: tuple[Path, ...] = ()
) -> Generator[None]:
    """Let monitors see a life while the block lasts.

    Args:
        feed: Where they hear of it.
        post: Whose life it is.
        cwd: Where it works.
        parent: Key of who asked for it, or of its project.
        directories: Where it may write. A program is asked for none: nobody hears what it writes.
    """
    me = otpy.current()
    clock = asyncio.get_running_loop().time
    assignment, work = post.assignment, post.assignment.agent
    card = activity.AgentCard(
        agent=post.key,
        path=me.path,
        incarnation=me.incarnation,
        parent=parent,
        stall=assignment.stall,
        warn_stall_at=None if work is None else work.stall_warn,
        long_tools={} if work is None else work.long_tools,
        directories=directories,
        cwd=cwd,
    )
    feed.tell(activity.AgentAppeared(clock(), card))
    try:
        yield
    finally:
        feed.tell(activity.AgentGone(post.key, clock(), str(me.requested)))


@final
class Program:
    """Tells a program's activity: lines are its progress, bytes its use of output.

    Args:
        feed: Where it is told.
        key: Key of the agent.
    """

    def __init__(self, feed: Feed, key: str) -> None:
        self._feed = feed
        self._key = key
        self._clock = asyncio.get_running_loop().time
        self._has_line = self._is_frozen = False

    def run(self, line: str) -> None:
        """Tell which command it is, as one would type it."""
        self._feed.tell(activity.CommandRun(self._key, self._clock(), line))

    def line(self) -> None:
        """Take note of a whole line of output; the chunk that it ends in is told next."""
        self._has_line = True

    def chunk(self, size: int) -> None:
        """Tell of so many bytes of output, and of progress if a line ended in them.

        However many lines these are, they are one progress: a program that writes much must not
        crowd out the others. Output from before a freeze is not progress, because the program
        waits by now.
        """
        now = self._clock()
        self._feed.tell(activity.OutputSeen(self._key, now, size))
        if self._has_line and not self._is_frozen:
            self._feed.tell(activity.Progressed(self._key, now, "output"))
        self._has_line = False

    def tell_frozen(self, is_frozen: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Tell that it waits, or goes on: silence while it is frozen is not a stall."""
        self._is_frozen = is_frozen
        now = self._clock()
        if is_frozen:
            self._feed.tell(activity.RestBegan(self._key, now, "it is frozen"))
        else:
            self._feed.tell(activity.RestEnded(self._key, now))


@final
class Children:
    """The children that mortals of one list have asked for.

    Args:
        key: Name of the list among all projects.
        feed: Where they are told.
    """

    def __init__(self, key: str, feed: Feed) -> None:
        self._key = key
        self._feed = feed
        self._parents: dict[str, str] = {}

    def parent(self, name: str) -> str:
        """Return the key of the agent that asked for a mortal; that of the list if none did."""
        return self._parents.get(name, self._key)

    @contextlib.contextmanager
    def asked(self, name: str, by: str) -> Generator[None]:
        """Let a mortal be spawned, within the block, for another; told if that succeeds.

        Args:
            name: The new one.
            by: Name of the mortal that asked; empty if none did.
        """
        if not by:
            yield
            return
        self._parents[name] = f"{self._key}/{by}"
        try:
            yield
        except BaseException:
            del self._parents[name]
            raise
        now = asyncio.get_running_loop().time()
        self._feed.tell(activity.ChildSpawned(self._parents[name], now, f"{self._key}/{name}"))

    def tell_gone(self, name: str, why: str) -> None:
        """Tell that a mortal has come out; a program has no card that would tell it."""
        if name in self._parents:
            now = asyncio.get_running_loop().time()
            self._feed.tell(activity.AgentGone(f"{self._key}/{name}", now, why))
