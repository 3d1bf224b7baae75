"""Counting the restarts of a child, wherever its tree is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from otpy._core.nesting import flat
from otpy._runtime.shells import shell_of
from otpy._runtime.tree import Tree
from otpy.testing.recording import Recording, recordings

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor
    from otpy.reports import Report


def assert_restarted(
    path: str, *, times: int, root: AnySupervisor | Recording | None = None
) -> None:
    """Fail unless the child at `path` was restarted exactly so many times.

    What counts is what `Process.restarts` counts: restarts after its own end and with its group,
    failed attempts included; not what `restart_child` starts by hand. When a supervisor above is
    restarted its children are new, and their count begins at 0.

    Without `root`, the tree that runs on this loop and has this path is asked. If none has it,
    because the tree has ended or the child was forgotten, the `Recording`s of this loop are: the
    one that heard of the path last.

    Args:
        path: Path of the child, such as `"app/db"`.
        times: How often; 0 is never.
        root: Any supervisor of the tree, or a recording of it. Needed outside of a loop, and if
            two trees have the path.

    Raises:
        AssertionError: It was restarted more or less often, or nothing is known of it.
        RuntimeError: No loop runs and no `root` was given.
    """
    __tracebackhide__ = True
    if isinstance(root, Recording):
        count, shown = _recorded(path, root)
    elif root is not None:
        count, shown = _standing(path, shell_of(root).tree)
    else:
        count, shown = _anywhere(path)
    if count is None:
        raise AssertionError(f"nothing is known of {path!r}:\n{shown}")
    if count != times:
        raise AssertionError(f"{path} was restarted {count} times, not {times}:\n{shown}")


def _anywhere(path: str) -> tuple[int | None, str]:
    """Look in the trees that run on this loop, then in its recordings."""
    __tracebackhide__ = True
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("no running event loop: say root=…") from None
    trees = list(_running(loop))
    answers = [(tree, *_standing(path, tree)) for tree in trees]
    known = [answer for answer in answers if answer[1] is not None]
    if len(known) > 1:
        raise AssertionError(f"{len(known)} trees on this loop have {path!r}; say root=…")
    if known:
        return known[0][1:]
    heard = [(last.time, recorded) for recorded in recordings() if (last := _last(path, recorded))]
    if heard:
        return _recorded(path, max(heard, key=itemgetter(0))[1])
    shown = "\n".join(text for _, _, text in answers)
    return None, shown or "no tree runs on this loop, and no Recording was its hook"


def _running(loop: asyncio.AbstractEventLoop) -> Iterator[Tree]:
    """Yield the trees that run on `loop`.

    The collector knows who refers to the loop. A list kept for this would have to be kept by the
    runtime, where two trees of one process never meet, for nobody but tests.
    """
    for tree in gc.get_referrers(loop):
        if isinstance(tree, Tree) and tree.root is not None and not tree.root.ended:
            yield tree


def _standing(path: str, tree: Tree) -> tuple[int | None, str]:
    root = tree.root
    assert root is not None  # noqa: S101 - a tree that anybody can name has one
    snapshot = root.snapshot()
    counts = [node.restarts for node in flat(snapshot) if node.path == path]
    return counts[0] if counts else None, snapshot.render()


def _recorded(path: str, recording: Recording) -> tuple[int | None, str]:
    last = _last(path, recording)
    if last is None:
        return None, recording.render() or "the recording is empty"
    return last.restarts, recording.render(path)


def _last(path: str, recording: Recording) -> Report | None:
    """Return the last report about the child; a supervisor's reports about itself do not count."""
    about = [report for report in recording if report.path == path and report.incarnation]
    return about[-1] if about else None
