"""Errors of what outlives an agent: its session and its changeset."""

from __future__ import annotations

from pathlib import Path

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "ChangesetDirty",
    "ChangesetError",
    "ChangesetTaken",
    "GitFailed",
    "GitMissing",
    "InvalidChangeset",
    "InvalidSession",
    "NotARepository",
    "SessionCorrupt",
    "SessionError",
    "SymlinkInPath",
    "WorktreeLocked",
]


class SessionError(AgentsError):
    """Something about the stored session of an agent.

    Attributes:
        agent: Its key.
    """

    def __init__(self, agent: str, message: str) -> None:
        self.agent = agent
        super().__init__(f"session of {agent!r}: {message}")


class InvalidSession(SessionError, ValueError):
    """A session that cannot be stored, refused where it is made."""

    def __init__(self, agent: str, field: str, got: str, wanted: str) -> None:
        self.field = field
        super().__init__(agent, f"got {field} {got}, wanted {wanted}")


class SessionCorrupt(SessionError, ValueError):
    """The stored session is corrupt; it has been set aside, so start fresh (TREE-35).

    Attributes:
        aside: Where it lies now, for a person: a path, or a row of a file.
    """

    def __init__(self, agent: str, detail: str, aside: str) -> None:
        self.detail, self.aside = detail, aside
        super().__init__(agent, f"got {detail}, wanted what was saved; it was moved to {aside}")


class ChangesetError(AgentsError):
    """Something about a changeset or its repository; the subclasses say what to do.

    Attributes:
        path: The repository, or the work tree.
    """

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class InvalidChangeset(ChangesetError, ValueError):
    """A project or an assignment whose name cannot be that of a folder and a branch."""

    def __init__(self, path: Path, name: str, wanted: str) -> None:
        self.name = name
        super().__init__(path, f"got name {name!r}, wanted {wanted}")


class GitMissing(ChangesetError, LookupError):
    """There is no `git` on the `PATH`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "got no git on the PATH, wanted one; install it")


class NotARepository(ChangesetError, ValueError):
    """The folder is not in the work tree of a git repository that has a commit."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path, f"got {detail!r}, wanted a git repository with a commit")


class SymlinkInPath(ChangesetError, ValueError):
    """A part of a work tree's path is a symbolic link, which may lead anywhere.

    Attributes:
        link: The link.
    """

    def __init__(self, path: Path, link: Path) -> None:
        self.link = link
        super().__init__(path, f"got the symbolic link {link} in its path, wanted plain folders")


class ChangesetTaken(ChangesetError, RuntimeError):
    """The path or the branch of a changeset is in use for something else; nothing was changed."""

    def __init__(self, path: Path, got: str, wanted: str) -> None:
        super().__init__(path, f"got {got}, wanted {wanted}")


class ChangesetDirty(ChangesetError, RuntimeError):
    """A work tree holds work that nothing else has, so it is left alone."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path, f"got {detail}, wanted a work tree whose work is in commits")


class WorktreeLocked(ChangesetError, RuntimeError):
    """Somebody works on the repository or the work tree at this moment; try again later.

    Attributes:
        lock: The lock file, or what git says of it.
    """

    def __init__(self, path: Path, lock: str) -> None:
        self.lock = lock
        super().__init__(path, f"got the lock {lock}, wanted none")


class GitFailed(ChangesetError, RuntimeError):
    """Git refused for another reason.

    Attributes:
        command: The arguments.
        said: What it said.
    """

    def __init__(self, path: Path, command: str, said: str) -> None:
        self.command, self.said = command, said
        super().__init__(path, f"git {command}: got {said!r}, wanted success")
