"""What of a repository an agent in a sandbox sees, and may write, so that it can commit."""

from __future__ import annotations

from otpy_agents.sandbox import Mount
from otpy_agents.workspace.place import Admin, Place
from otpy_agents.workspace.snapshot import PROTECTED
from otpy_agents.workspace.step_place import StepPlace, StepTree

__all__ = ["mounts_of", "mounts_of_step"]


def mounts_of(place: Place, admin: Admin) -> tuple[Mount, ...]:
    """Return the mounts for the work tree of an agent; folders that are missing are made.

    A work tree keeps its commits, its branch and its index in the git folder of the repository.
    All of that is seen, and these can be written: objects, the branches of the project with their
    logs, and what git keeps about this one work tree. Not so the settings and hooks of the
    repository, other branches, and the files that say which repository this work tree belongs to:
    a git outside of the sandbox would carry out what stands there.

    A repository that keeps its branches in `reftable` has one file of all branches; they can all be
    written then.
    """
    common = place.common
    branches = common / "refs/heads/otpy" / place.project
    logs = common / "logs/refs/heads/otpy" / place.project
    for folder in (branches, logs):  # git deletes those that are empty
        folder.mkdir(parents=True, exist_ok=True)
    settings = admin.folder / "config.worktree"
    settings.touch()  # else it could be made
    tables = common / "reftable"
    writable = [common / "objects", branches, logs, admin.folder]
    writable += [tables] if tables.is_dir() else []
    sealed = [admin.folder / name for name in ("commondir", "gitdir", "otpy")]
    return (
        Mount(common),
        *(Mount(folder, writable=True) for folder in writable),
        *(Mount(file) for file in (*sealed, settings, admin.path / ".git")),
    )


def mounts_of_step(place: StepPlace, tree: StepTree, *, plain: bool) -> tuple[Mount, ...]:
    """Return the mounts for the worker of a step: it sees the repository and writes nothing of it.

    Its git can look at what is there and what was changed. Read-only are the git folder of the
    repository, the link to it, and the files that decide about workers. The configuration is not
    that of the user, in which there may be passwords and programs, but ours.

    Args:
        place: Where everything lies.
        tree: The step.
        plain: Whether our configuration fits the repository; else it sees that of the user.
    """
    config = place.common / "config"
    sealed = [tree.path / ".git", tree.path / PROTECTED]
    return (
        Mount(place.common),
        *((Mount(place.sealed.config, config),) if plain else ()),
        *(Mount(path) for path in sealed if path.exists() and not path.is_symlink()),
    )
