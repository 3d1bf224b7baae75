"""Chores for what agents leave behind: their work, their sessions, their folders, their attempts.

Each chore looks once more before it deletes, may be cut at any point, and is completed by the next
round (TREE-46). None deletes work that only it knows of: a dirty work tree, or a folder in which
there is a git repository, stays until a person has seen to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio.to_thread

from otpy_agents.clock import CLOCK
from otpy_agents.errors import ChangesetError, SandboxUnavailable
from otpy_agents.workspace.removal import remove_tree
from otpy_monitors import Deletion

if TYPE_CHECKING:
    from otpy_agents.sandbox import Sandbox
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.workspace import Changeset, Changesets, StepTree, StepTrees
    from otpy_monitors import Chore

__all__ = [
    "KEEP_DISCARDED",
    "KEEP_FOLDERS",
    "KEEP_SESSIONS",
    "Names",
    "left_over_attempts",
    "left_over_steps",
    "old_changesets",
    "orphaned_folders",
    "orphaned_sessions",
    "stale_worktrees",
]

KEEP_DISCARDED: Final = 14 * 86400.0
"""Seconds for which discarded work is kept on its branch."""

KEEP_SESSIONS: Final = 7 * 86400.0
"""Seconds for which the session of an agent that nobody knows any more is kept."""

KEEP_FOLDERS: Final = 7 * 86400.0
"""Seconds for which a folder that belongs to nobody any more is kept, from its last change."""

Names: TypeAlias = Callable[[], Awaitable[AbstractSet[str]]]
"""Asked again before each deletion: things change."""

_REMOVED: Final = ".removed"


def old_changesets(
    changesets: Changesets,
    keep: float = KEEP_DISCARDED,
    clock: Callable[[], float] = CLOCK,
) -> Chore:
    """Return a chore that deletes the branches of work that was discarded long ago.

    Args:
        changesets: Of one project; the branches of all projects in its repository are found.
        keep: Seconds for which they are kept.
        clock: Unix seconds.
    """

    async def chore() -> AsyncIterator[Deletion]:
        for discarded in await changesets.expired(clock() - keep):
            yield Deletion(discarded.branch, partial(changesets.expire, discarded))

    return chore


def stale_worktrees(changesets: Changesets, finished: Names) -> Chore:
    """Return a chore that deletes the work trees of assignments that are finished.

    Only clean ones, which nobody has locked; their branches stay. What a removal that was cut has
    left is deleted too.

    Args:
        changesets: Of one project.
        finished: Returns the ids of the assignments that will not be worked on any more.
    """

    async def remove(changeset: Changeset) -> None:
        if changeset.assignment in await finished() and await changesets.removable(changeset):
            await changesets.remove(changeset)

    async def chore() -> AsyncIterator[Deletion]:
        failed: ChangesetError | None = None
        over = await finished()
        for changeset in await changesets.all():
            try:
                stale = changeset.assignment in over and await changesets.removable(changeset)
            except ChangesetError as error:  # one that is broken must not keep the others
                failed = error
                continue
            if stale:
                yield Deletion(str(changeset.path), partial(remove, changeset))
        for path in await changesets.half_removed():
            yield Deletion(f"what is left of {path}", partial(changesets.sweep, path))
        if failed is not None:
            raise failed

    return chore


def left_over_steps(trees: StepTrees) -> Chore:
    """Return a chore that ends what dead hosts have left of their steps.

    A step that was applied stays so, and its files are brought along if they were not; whatever was
    not applied is deleted with its work tree. Nothing of a living host is touched.

    Args:
        trees: The work trees of the steps of one repository.
    """

    async def settle(tree: StepTree) -> None:
        if tree in await trees.leftovers():
            await trees.settle(tree)

    async def chore() -> AsyncIterator[Deletion]:
        for tree in await trees.leftovers():
            yield Deletion(str(tree.path), partial(settle, tree))

    return chore


def orphaned_sessions(
    store: SessionStore,
    known: Names,
    keep: float = KEEP_SESSIONS,
    clock: Callable[[], float] = CLOCK,
) -> Chore:
    """Return a chore that forgets the sessions of agents that are gone.

    What was set aside stays.

    Args:
        store: Where they are.
        known: Returns the keys of all agents that may still be started, of every project.
        keep: Seconds for which they are kept after they were saved last.
        clock: Unix seconds.
    """

    async def forget(agent: str) -> None:
        if agent not in await known():
            await store.forget(agent)

    async def chore() -> AsyncIterator[Deletion]:
        wanted = await known()
        limit = clock() - keep
        for session in await store.all():
            if session.agent not in wanted and session.saved_at < limit:
                yield Deletion(f"session of {session.agent!r}", partial(forget, session.agent))

    return chore


def orphaned_folders(
    root: Path,
    known: Names,
    keep: float = KEEP_FOLDERS,
    clock: Callable[[], float] = CLOCK,
) -> Chore:
    """Return a chore that deletes folders of a folder: work directories, artifacts.

    A folder goes if its name is not known, nothing in it was changed for long, and there is no git
    repository in it, of which nobody here knows whether it is clean. It is renamed first, so that
    one that is half deleted is taken for nothing else.

    Args:
        root: The folder they are in; links and hidden folders in it are left alone.
        known: Returns the names of folders that may still be wanted.
        keep: Seconds for which one is kept after the last change in it.
        clock: Unix seconds.
    """

    async def delete(folder: Path) -> None:
        if folder.name in await known():
            return
        if await anyio.to_thread.run_sync(_old, folder, clock() - keep):
            await anyio.to_thread.run_sync(_remove, folder)

    async def finish(folder: Path) -> None:
        await anyio.to_thread.run_sync(_end, folder)

    async def chore() -> AsyncIterator[Deletion]:
        wanted = await known()
        for folder in await anyio.to_thread.run_sync(_folders, root):
            if folder.name not in wanted and await anyio.to_thread.run_sync(
                _old, folder, clock() - keep
            ):
                yield Deletion(folder.name, partial(delete, folder))
        for folder in await anyio.to_thread.run_sync(_folders, root / _REMOVED):
            yield Deletion(f"what is left of {folder.name}", partial(finish, folder))

    return chore


def left_over_attempts(
    sandbox: Sandbox, ended: Callable[[], Awaitable[Mapping[str, Mapping[str, str]]]], grace: float
) -> Chore:
    """Return a chore that ends what attempts have left running: processes, or containers.

    Found by their marker: the environment of a process, the labels of a container. If nobody can
    be asked, as where no container engine answers, there is nothing to do.

    Args:
        sandbox: The one the attempts ran in.
        ended: Returns the markers of attempts that are over, each by what it is called.
        grace: Seconds between asking and killing.
    """

    async def end(name: str) -> None:
        marker = (await ended()).get(name)
        if marker:
            await sandbox.clear(marker, grace=grace)

    async def chore() -> AsyncIterator[Deletion]:
        for name, marker in tuple((await ended()).items()):
            try:
                found = await sandbox.find(marker)
            except SandboxUnavailable:
                return
            if found:
                what = ", ".join(map(str, found))
                yield Deletion(f"{name}: {what}", partial(end, name))

    return chore


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return [
        path
        for path in sorted(root.iterdir())
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def _old(folder: Path, limit: float) -> bool:
    """Tell whether nothing in a folder has changed since `limit`, and there is no repository."""
    if not folder.is_dir():
        return False
    paths = (folder, *folder.rglob("*"))
    return all(path.name != ".git" and path.lstat().st_mtime < limit for path in paths)


def _remove(folder: Path) -> None:
    aside = folder.parent / _REMOVED
    aside.mkdir(exist_ok=True)
    number = 0
    while (place := aside / f"{folder.name}.{number}").exists():
        number += 1
    folder.rename(place)
    _end(place)


def _end(folder: Path) -> None:
    if folder.exists():
        remove_tree(folder)
    with contextlib.suppress(OSError):  # there is more in it
        folder.parent.rmdir()
