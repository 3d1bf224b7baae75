"""What a worker changed in the work tree of a step, kept as objects of git before gates run."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.workspace.git import Git
from otpy_agents.workspace.index import changed_files, joined, stage
from otpy_agents.workspace.removal import remove_any
from otpy_agents.workspace.sealed_git import Settings
from otpy_agents.workspace.step_place import StepRecord, StepTree

__all__ = [
    "PROTECTED",
    "FileDifference",
    "StepChanges",
    "differences",
    "snapshot",
]

PROTECTED: Final = ".supervisor"
"""Folder of the files that decide about workers: no worker changes them."""

_LINK: Final = "120000"


@frozen
class StepChanges:
    """The changes in the work tree of a step, at the moment of the look.

    Attributes:
        tree: The step.
        snapshot: Tree object of git with everything that would be applied.
        files: The files that were changed, made or deleted, by their paths in the repository.
        added: Lines that were added, in all text files.
        deleted: Lines that were deleted.
        tampered: What a worker changed that it must not change; it has been undone, if it could be.
        links: Those of `files` that are links out of the repository, or to its git folder.
        filtered: Those of `files` that a filter of the user stores in another form.
        repositories: Repositories inside of the work tree, which are never applied.
    """

    tree: StepTree
    snapshot: str
    files: tuple[str, ...]
    added: int = 0
    deleted: int = 0
    tampered: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Say in one line how much was changed."""
        noun = "file" if len(self.files) == 1 else "files"
        return f"{len(self.files)} {noun} changed, +{self.added} -{self.deleted} lines"


@frozen
class FileDifference:
    """How one file differs between two trees.

    Attributes:
        mode: Its new mode; `000000` if it was deleted.
        blob: The object with its new content; zeros if it was deleted.
        made: Whether it was not there before.
    """

    mode: str
    blob: str
    made: bool


async def differences(
    git: Git, where: Path, before: str, after: str
) -> tuple[dict[str, FileDifference], int, int]:
    """Return how files differ between two commits or trees, by path; lines added, and deleted."""
    flags = ("-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev", "--no-commit-id")
    answer = await git.run(where, "diff-tree", *flags, before, after)
    parts = iter(os.fsdecode(answer.out).split("\0"))
    found: dict[str, FileDifference] = {}
    added = deleted = 0
    for part in parts:
        if part.startswith(":"):
            _, mode, _, blob, status = part.split(" ")
            found[next(parts)] = FileDifference(mode, blob, status == "A")
        elif part:
            plus, minus, _ = part.split("\t", 2)
            added += int(plus) if plus.isdigit() else 0  # "-" stands for a binary file
            deleted += int(minus) if minus.isdigit() else 0
    return found, added, deleted


async def snapshot(
    git: Git, record: StepRecord, tree: StepTree, settings: Settings, exclude: Path
) -> StepChanges:
    """Gather what differs from the base, and keep it.

    Args:
        git: A sealed git for the work tree and `record.index`.
        record: Of the step.
        tree: The step.
        settings: Of the repository.
        exclude: File with what the user has git ignore in this repository.
    """
    path = tree.path
    # Always from the base on: what was there at an earlier look may be gone, or ignored by now.
    shutil.copy2(record.base_index, record.index)
    changed, others, repositories = await _names(git, path, exclude)
    if tampered := tuple(sorted(name for name in {*changed, *others} if _protected(name))):
        await _undo(git, path)
        changed, others, repositories = await _names(git, path, exclude)
    await stage(git, path, changed, others)
    made = (await git.run(path, "write-tree")).text
    found, added, deleted = await differences(git, path, tree.base, made)
    links = [name for name, one in found.items() if one.mode == _LINK and _leads_out(path, name)]
    return StepChanges(
        tree,
        made,
        tuple(sorted(found)),
        added,
        deleted,
        tampered,
        tuple(sorted(links)),
        await _filtered(git, path, found, settings),
        tuple(sorted(repositories)),
    )


async def _names(git: Git, path: Path, exclude: Path) -> tuple[dict[str, str], set[str], set[str]]:
    """Return what changed, with git's letter for it; other files; and repositories inside."""
    ignored = ["--exclude-standard", *_own_exclusions(exclude)]
    changed, listed = await asyncio.gather(
        changed_files(git, path, submodules="all"),
        git.run(path, "ls-files", "--others", "-z", *ignored),
    )
    others = {name for name in os.fsdecode(listed.out).split("\0") if name}
    # A repository inside is named with a slash; only a link to it could be committed.
    repositories = {name for name in others if name.endswith("/")}
    return changed, others - repositories, repositories


async def _undo(git: Git, path: Path) -> None:
    """Give protected files back the content of the base."""
    await asyncio.to_thread(_remove_protected, path)
    listed = await git.run(path, "ls-files", "-z", "--", f":(icase){PROTECTED}")
    if listed.out:
        await git.run(path, "checkout-index", "-f", "-u", "-z", "--stdin", stdin=listed.out)


def _remove_protected(path: Path) -> None:
    for name in os.listdir(path):  # noqa: PTH208 - names, not paths
        if _protected(name):
            remove_any(path / name)


async def _filtered(
    git: Git, path: Path, found: dict[str, FileDifference], settings: Settings
) -> tuple[str, ...]:
    """Return the files that the git of the user would not store as they are."""
    names = sorted(name for name, one in found.items() if one.mode.startswith("100"))
    if not names or not settings.drivers:
        return ()
    flags = ("--cached", "-z", "--stdin", "filter")
    answer = await git.run(path, "check-attr", *flags, stdin=joined(names))
    parts = os.fsdecode(answer.out).split("\0")
    told = zip(parts[::3], parts[2::3], strict=False)
    return tuple(name for name, driver in told if driver in settings.drivers)


def _protected(name: str) -> bool:
    return name.partition("/")[0].casefold() == PROTECTED


def _leads_out(root: Path, name: str) -> bool:
    """Tell whether a link leads out of a work tree, or to what git keeps in it."""
    target = (root / name).readlink()
    if target.is_absolute():
        return True
    plain = Path(os.path.normpath(root / Path(name).parent / target))
    real = (root / name).resolve()
    return any(
        not end.is_relative_to(root) or ".git" in map(str.casefold, end.relative_to(root).parts)
        for end in (plain, real)
    )


def _own_exclusions(file: Path) -> list[str]:
    return [f"--exclude-from={file}"] if file.is_file() else []
