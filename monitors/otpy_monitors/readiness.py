"""Whether a whole tree lives and is ready, and what of it is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

from otpy import Normal
from otpy_monitors.stalls import silence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otpy import DynamicSupervisor, Supervisor
    from otpy.snapshot import TreeSnapshot
    from otpy_monitors.feed import Feed

_ALIVE: Final = {"starting", "running"}
_NOT_RUNNING: Final = "undefined"


@final
@frozen
class NotReady:
    """One supervisor, worker or agent that is not ready.

    Attributes:
        path: Its path.
        state: As in `TreeSnapshot`; "stalled" of an agent whose process runs.
        detail: More about it, in one line; empty if there is nothing to say.
    """

    path: str
    state: str
    detail: str = ""

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.path}: {self.state}{f', {self.detail}' if self.detail else ''}"


@final
@frozen
class TreeHealth:
    """The state of a whole tree at one moment.

    Attributes:
        alive: Whether the root serves. If not, nothing in the tree will mend it.
        ready: Whether the tree is alive and everything in it does its work.
        not_ready: The unready parts, in the order of the tree; agents outside of it last.
    """

    alive: bool
    ready: bool
    not_ready: tuple[NotReady, ...]


def tree_health(root: Supervisor | DynamicSupervisor, feed: Feed | None = None) -> TreeHealth:
    """Return whether the tree of `root` lives and is ready, also while restarts are in progress.

    Not ready is what starts, stops or waits for its restart; what does not run although nothing
    made it end normally; and an agent that is silent for longer than its card allows. An agent
    that waits for something outside itself is ready, and so is one that has ended normally.

    It never blocks and never waits. If it does not answer, the event loop itself is blocked:
    a client outside the process, on a socket, should count no answer as not alive.

    Args:
        root: The root of the tree, or any supervisor whose part of it is asked for.
        feed: Where agents are heard; None to look at the tree alone.
    """
    snapshot = root.snapshot()
    stalled = {} if feed is None else _stalled(feed, asyncio.get_running_loop().time())
    found = list(_not_ready(snapshot, stalled))
    found += stalled.values()  # those that are in no place of the tree
    alive = snapshot.state in _ALIVE
    return TreeHealth(alive, alive and not found, tuple(found))


def _not_ready(node: TreeSnapshot, stalled: dict[str, NotReady]) -> Iterator[NotReady]:
    """Yield the unready parts of `node` and below; remove found agents from `stalled`."""
    silent = stalled.pop(node.path, None)
    if node.state == _NOT_RUNNING:
        if node.last_exit is not None and not isinstance(node.last_exit, Normal):
            yield NotReady(node.path, node.state, f"last exit: {node.last_exit}")
    elif node.state != "running":
        due = "" if node.due_in is None else f"again in {node.due_in:.1f} s"
        last = "" if node.last_exit is None else f"last exit: {node.last_exit}"
        yield NotReady(node.path, node.state, ", ".join(filter(None, (due, last))))
    elif silent is not None:
        yield silent
    for child in node.children:
        yield from _not_ready(child, stalled)


def _stalled(feed: Feed, now: float) -> dict[str, NotReady]:
    """Return the agents that are stalled, by the paths of their processes."""
    found: dict[str, NotReady] = {}
    for card in feed.cards():
        if feed.waiting(card.agent) is not None:
            continue
        silent = silence(card, feed.last_progress(card.agent), feed.tools(card.agent))
        if silent is not None and now >= silent.stalls_at:
            tool = f" in a call of {silent.tool!r}" if silent.tool else ""
            detail = f"no progress for {now - silent.since:.1f} s{tool}"
            found[card.path] = NotReady(card.path, "stalled", detail)
    return found
