"""Deleting what lies in the work tree of a step and is never applied, so that no gate sees it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from anyio.to_thread import run_sync

from otpy_agents.workspace.git import Git
from otpy_agents.workspace.removal import remove_any

__all__ = ["prune"]


async def prune(git: Git, path: Path, snapshot: str) -> tuple[str, ...]:
    """Delete what a work tree has and its snapshot has not; return it by name, sorted.

    Args:
        git: A sealed git for the work tree and the index that the snapshot was made of.
        path: The work tree.
        snapshot: Tree object of git with everything that would be applied.
    """
    listed = await git.run(path, "ls-tree", "-r", "-d", "-z", snapshot)
    folders: list[str] = []
    modules: list[str] = []
    for entry in _parts(listed.out):
        about, _, name = entry.partition("\t")
        (modules if about.startswith("160000") else folders).append(name)
    odd = await run_sync(_open_up, path, folders)
    # No exclusions: what is ignored counts as everything else does.
    others = await git.run(path, "ls-files", "--others", "--directory", "-z")
    return await run_sync(_prune, path, [*_parts(others.out), *odd], folders, modules)


def _parts(out: bytes) -> list[str]:
    return [part for part in os.fsdecode(out).split("\0") if part]


def _open_up(path: Path, folders: Iterable[str]) -> list[str]:
    """Give back the rights to list and to empty folders, which git does not store.

    Args:
        path: The work tree.
        folders: Those of the snapshot, each behind the one it is in.

    Returns:
        What is in them and no kind of file that git lists: a FIFO, a socket.
    """
    plain, odd = {""}, list[str]()
    for name in ("", *folders):
        folder = path / name
        if name.rpartition("/")[0] not in plain or folder.is_symlink() or not folder.is_dir():
            continue
        plain.add(name)
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            folder.chmod(mode | stat.S_IRWXU)
        with os.scandir(folder) as entries:
            odd += [f"{name}/{one.name}".lstrip("/") for one in entries if _is_odd(one)]
    return odd


def _is_odd(entry: os.DirEntry[str]) -> bool:
    is_file, is_folder = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
    return not (is_file or is_folder or entry.is_symlink())


def _prune(
    path: Path, others: Iterable[str], folders: Iterable[str], modules: Iterable[str]
) -> tuple[str, ...]:
    gone = [name.removesuffix("/") for name in others]
    for name in gone:
        remove_any(path / name)
    # Git looks neither at a `.git` nor into a submodule. No link is left on the way to one.
    hidden = [git for name in folders if os.path.lexists(path / (git := f"{name}/.git"))]
    filled = [name for name in modules if os.path.lexists(path / name) and _is_filled(path / name)]
    for name in (*hidden, *filled):
        remove_any(path / name)
    for name in modules:
        (path / name).mkdir(parents=True, exist_ok=True)
    return tuple(sorted((*gone, *hidden, *filled)))


def _is_filled(folder: Path) -> bool:
    """Tell whether this is more than the empty folder that git makes for a submodule."""
    return folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())
