"""What monitors hear of a life: that it is there, and what a program at work does."""

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

__all__ = ["Program", "shown"]


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
    """Tells what a program does: lines are its progress, and bytes a thing it uses.

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

        However many lines that are, it is one progress: who writes much must not crowd out what
        others do. What was written before a program was frozen is none, for it waits by now.
        """
        now = self._clock()
        self._feed.tell(activity.OutputSeen(self._key, now, size))
        if self._has_line and not self._is_frozen:
            self._feed.tell(activity.Progressed(self._key, now, "output"))
        self._has_line = False

    def frozen(self, is_frozen: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Tell that it waits, or goes on: silence while it is frozen is no stall."""
        self._is_frozen = is_frozen
        now = self._clock()
        if is_frozen:
            self._feed.tell(activity.RestBegan(self._key, now, "it is frozen"))
        else:
            self._feed.tell(activity.RestEnded(self._key, now))
