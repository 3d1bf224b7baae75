"""What a worker without a sandbox could change so that a git of the user runs a program.

It is compared with what there was when no step was at work. What differs is put aside, where a
person finds it, and made as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.workspace.git import Git
from otpy_agents.workspace.removal import remove_any
from otpy_agents.workspace.step_place import StepPlace

__all__ = ["ConfigGuard"]

_FILES: Final = (
    *("config", "config.worktree"),
    *("info/attributes", "info/grafts", "objects/info/alternates"),
)
_HOOKS: Final = "hooks"
_HARMLESS: Final = "branch."
"""Settings that any `git switch` may make."""


@frozen
class ConfigGuard:
    """Compares the settings and hooks of a repository with their earlier state.

    Attributes:
        place: Where everything lies.
    """

    place: StepPlace

    @property
    def _reference(self) -> Path:
        return self.place.steps / "reference"

    @property
    def aside(self) -> Path:
        """Where undone changes are kept."""
        return self.place.steps / "undone"

    @property
    def taken(self) -> bool:
        """Whether there is anything to compare with."""
        return self._reference.is_dir()

    def take(self) -> None:
        """Remember everything as it is."""
        fresh = self.place.steps / "reference.fresh"
        remove_any(fresh)
        fresh.mkdir(parents=True)
        for name in _names(self.place.common):
            _copy(self.place.common / name, fresh / name)
        remove_any(self._reference)
        fresh.replace(self._reference)

    async def undo(self) -> tuple[str, ...]:
        """Restore the earlier state, and return the undone changes, by path in the git folder."""
        if not self.taken:
            return ()
        common, before = self.place.common, self._reference
        names = {*_names(common), *_names(before)}
        found = sorted(name for name in names if _said(common / name) != _said(before / name))
        undone: list[str] = []
        for name in found:
            if name == "config" and await self._harmless():
                _copy(common / name, before / name)
                continue
            undone.append(f"{common.name}/{name}")
            self._undo(name)
        return tuple(undone)

    async def _harmless(self) -> bool:
        """Tell whether the configuration differs in nothing but settings of branches."""
        said: list[set[bytes]] = []
        for file in (self.place.common / "config", self._reference / "config"):
            flags = ("config", "--file", str(file), "--list", "-z")
            answer = await Git().ask(self.place.root, *flags)
            if answer.code:
                return False
            entries = answer.out.split(b"\0")
            said.append({one for one in entries if not one.startswith(_HARMLESS.encode())})
        return said[0] == said[1]

    def _undo(self, name: str) -> None:
        file, before = self.place.common / name, self._reference / name
        if os.path.lexists(file):
            number = 1
            while os.path.lexists(kept := self.aside / str(number) / name):
                number += 1
            _copy(file, kept)
            remove_any(file)
        if os.path.lexists(before):
            _copy(before, file)


def _names(folder: Path) -> Iterator[str]:
    yield from (name for name in _FILES if os.path.lexists(folder / name))
    hooks = folder / _HOOKS
    if hooks.is_symlink():
        yield _HOOKS
    elif hooks.is_dir():
        yield from (str(path.relative_to(folder)) for path in hooks.rglob("*") if not _plain(path))


def _plain(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _said(path: Path) -> tuple[int, bytes] | None:
    """Return the content of a file, and whether it is executable; None if there is none."""
    if path.is_symlink():
        return -1, os.fsencode(path.readlink())
    if not path.is_file():
        return None
    return path.stat().st_mode & 0o111, path.read_bytes()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
