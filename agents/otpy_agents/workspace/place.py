"""Where the work trees of changesets lie, and what git keeps about them."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from attrs import frozen

from otpy_agents.errors import (
    ChangesetTaken,
    InvalidChangeset,
    SymlinkInPath,
    WorktreeLocked,
)
from otpy_agents.workspace.claims import claim_file

__all__ = [
    "Changeset",
    "Place",
    "branch_in_use",
    "branch_of",
    "checked",
    "discarded_prefix",
    "earlier_branch_of",
]

_REMOVED: Final = ".removed"
_CONDEMNED: Final = ".gone"
_MARK: Final = "otpy"
_NAME: Final = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9._-]+(?<!\.)(?<!\.lock)")
_DISCARDED: Final = "discarded"
_UNFINISHED: Final = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)


@frozen
class Changeset:
    """The work of one assignment: a git work tree and the branch it is on.

    Attributes:
        assignment: Its id.
        path: The work tree.
        branch: `otpy/<project>/<assignment>`.
    """

    assignment: str
    path: Path
    branch: str


def branch_of(project: str, assignment: str) -> str:
    """Return the branch of an assignment."""
    return f"otpy/{project}/{assignment}"


def earlier_branch_of(assignment: str) -> str:
    """Return the branch that earlier versions gave an assignment, of whatever project."""
    return f"otpy/{assignment}"


def discarded_prefix(*names: str) -> str:
    """Return how branches of discarded work begin: of a project, of one assignment, or of all."""
    return "".join(f"{part}/" for part in ("otpy", _DISCARDED, *names))


def branch_in_use(folder: Path) -> str:
    """Return the branch, full name, that a work tree is on or rebases; empty if it is on none.

    Args:
        folder: What git keeps about the work tree; the git folder itself for the main one.
    """
    for name, before in (
        ("rebase-merge/head-name", ""),
        ("rebase-apply/head-name", ""),
        ("HEAD", "ref: "),
    ):
        try:
            said = (folder / name).read_text(errors="replace").strip()
        except OSError:
            continue
        if said.startswith(f"{before}refs/"):
            return said.removeprefix(before)
    return ""


def checked(name: str, repository: Path) -> str:
    """Return a name that can be part of a folder and of a branch.

    Raises:
        InvalidChangeset: It cannot.
    """
    if _NAME.fullmatch(name) is None or name == _DISCARDED:
        wanted = f"letters, digits, '.', '_', '-' as git takes them, and not {_DISCARDED!r}"
        raise InvalidChangeset(repository, name, wanted)
    return name


@frozen
class Admin:
    """What git keeps about one work tree: a folder `worktrees/<name>` of the repository.

    Attributes:
        folder: That folder.
        path: Where the work tree lies, or lay.
    """

    folder: Path
    path: Path

    @property
    def ready(self) -> bool:
        """Whether the work tree was ever filled; before that, it holds no work."""
        return (self.folder / _MARK).is_file()

    @property
    def lock(self) -> str:
        """Why it may not be removed; empty if it may, or git was killed while it made it."""
        try:
            reason = (self.folder / "locked").read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""
        return "" if reason == "initializing" else reason or "without a reason"

    @property
    def unfinished(self) -> str:
        """The file that shows that a merge or the like is in progress; empty if none is."""
        return next((name for name in _UNFINISHED if (self.folder / name).exists()), "")

    def owner(self) -> tuple[str, str] | None:
        """Return project and assignment; None if it is not a work tree of ours that was filled."""
        try:
            said = cast("object", json.loads((self.folder / _MARK).read_text()))
        except (OSError, ValueError):
            return None
        match said:
            case {"project": str(project), "assignment": str(assignment)}:
                return project, assignment
            case _:
                return None

    def mark(self, project: str, assignment: str) -> None:
        """Write down that the work tree is filled, and whose it is."""
        said = json.dumps({"project": project, "assignment": assignment})
        temporary = self.folder / f"{_MARK}.tmp"
        temporary.write_text(said)
        temporary.replace(self.folder / _MARK)

    def refuse(self, owner: tuple[str, str], names: list[str] | None) -> None:
        """Raise if a work tree cannot be that of an assignment.

        Args:
            owner: The project and the assignment.
            names: What is in its folder; None if there is no such folder.

        Raises:
            ChangesetTaken: It is another's, or there is another repository in its place.
            WorktreeLocked: Its folder is gone, and somebody wants git to remember it.
        """
        if self.owner() not in {None, owner}:
            raise ChangesetTaken(self.path, f"a work tree of {self.owner()}", f"one of {owner}")
        if names is None and self.lock:
            raise WorktreeLocked(self.path, repr(self.lock))
        link = self.path / ".git"
        if link.is_dir():
            raise ChangesetTaken(self.path, f"a work tree of {link}", f"one of {self.folder}")
        with contextlib.suppress(OSError, ValueError):
            start, _, said = link.read_text().removesuffix("\n").partition("gitdir: ")
            other = Path(os.path.normpath(self.path / said))
            if not start and said and other.is_dir() and other.resolve() != self.folder.resolve():
                raise ChangesetTaken(self.path, f"a work tree of {other}", f"one of {self.folder}")

    def unlock(self) -> None:
        """Take away the lock of a git that was killed while it made the work tree."""
        if not self.lock:
            (self.folder / "locked").unlink(missing_ok=True)


@frozen
class Place:
    """Where one project keeps the changesets of one repository.

    Attributes:
        repository: The main work tree, without links in its path.
        common: Its git folder.
        folder: Where the work trees lie.
        project: Name of the project.
    """

    repository: Path
    common: Path
    folder: Path
    project: str

    def changeset(self, assignment: str) -> Changeset:
        """Return the changeset of an assignment, whether it is there or not.

        Raises:
            InvalidChangeset: The assignment cannot have one.
            SymlinkInPath: Its path would lead through a link.
        """
        name = checked(assignment, self.repository)
        path = self.folder / f"{self.project}-{name}"
        self._refuse_links(path)
        return Changeset(name, path, branch_of(self.project, name))

    def claim_file(self, assignment: str) -> Path:
        """Return where the owner of a changeset is written down."""
        return claim_file(self.common, self.project, assignment)

    def user_of(self, branch: str, path: Path) -> Path | None:
        """Return the work tree beside `path` that has a branch, full name; None if none has."""
        if branch_in_use(self.common) == branch:
            return self.repository
        return next(
            (
                admin.path
                for admin in self.admins()
                if admin.path != path and branch_in_use(admin.folder) == branch
            ),
            None,
        )

    def prepare(self) -> None:
        """Make the folder, and have git overlook it in the work tree around it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def put_aside(self, path: Path, stamp: str) -> None:
        """Take a work tree out of its place, in one step."""
        (self.folder / _REMOVED).mkdir(exist_ok=True)
        path.rename(self.folder / _REMOVED / f"{path.name}.{stamp}")

    def aside(self, path: Path) -> Path | None:
        """Return the work tree that was put aside from `path` and not condemned yet."""
        parts = [part for part in self._asides() if part.stem == path.name]
        return next((part for part in parts if part.suffix != _CONDEMNED), None)

    def bring_back(self, path: Path) -> None:
        """Undo `put_aside`, if there is anything to undo and nothing in its place."""
        aside = self.aside(path)
        if aside is not None and not path.exists():
            aside.rename(path)

    def condemn(self, aside: Path) -> None:
        """Write down, in its name, that a work tree put aside has been looked at once more."""
        aside.rename(aside.with_name(aside.name + _CONDEMNED))

    def condemned(self) -> tuple[Path, ...]:
        """Return what may be deleted without another look."""
        return tuple(part for part in self._asides() if part.suffix == _CONDEMNED)

    def _asides(self) -> list[Path]:
        folder = self.folder / _REMOVED
        return [folder / name for name in entries(folder) or ()]

    def admins(self) -> Iterator[Admin]:
        """Yield what git keeps about each work tree of the repository, in any state."""
        folders = self.common / "worktrees"
        for folder in sorted(folders.iterdir()) if folders.is_dir() else ():
            try:
                said = os.fsdecode((folder / "gitdir").read_bytes()).removesuffix("\n")
            except OSError:
                continue  # git was killed before it said which
            yield Admin(folder, Path(os.path.normpath(folder / said)).parent)

    def admin(self, path: Path) -> Admin | None:
        """Return what git keeps about the work tree at `path`."""
        return next((admin for admin in self.admins() if admin.path == path), None)

    def _refuse_links(self, path: Path) -> None:
        inside = self.folder.is_relative_to(self.repository)
        anchor = self.repository if inside else self.folder.parent
        for part in (path, *path.parents):
            if part == anchor:
                return
            if part.is_symlink():
                raise SymlinkInPath(path, part)


def locate(repository: Path, top: str, common: str, folder: Path | None, project: str) -> Place:
    """Return the place of a project's changesets.

    Args:
        repository: What the caller named; `common` may be relative to it.
        top: The main work tree, by git.
        common: Its git folder, by git.
        folder: The folder for the work trees; None for `.worktrees` in the main one.
        project: Name of the project.
    """
    root = Path(top).resolve()
    wanted = (root / ".worktrees" if folder is None else folder).absolute()
    # The last part of it stays as it is: a link there is refused, not followed.
    place = wanted.parent.resolve() / wanted.name
    return Place(root, (repository / common).resolve(), place, project)


def entries(path: Path) -> list[str] | None:
    """Return the names in a folder; None if there is no such folder."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError):
        return None
