"""What gates write: copies beside the work tree, which are thrown away behind them (ENG-14)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final, final

from anyio.to_thread import run_sync

from otpy_agents.completion import OpenedWhole
from otpy_agents.engine.gates.gate import Gate
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.sandbox.commands import place_within

__all__ = ["Scratch"]

_LONE_FILES: Final = frozenset({".coverage"})
"""What tools keep in one file although its name has no ending."""
_OURS: Final = (".git", ".worktrees")


@final
class Scratch(OpenedWhole):
    """The copies for one run of gates; removed when its block is left.

    Args:
        folder: The work tree; without links in its path.
        gates: The gates that run.
        whole: Whether all of the work tree is copied, for gates that nothing holds off it.

    Attributes:
        folder: Where gates find the work tree.
    """

    def __init__(self, folder: Path, gates: Sequence[Gate], *, whole: bool) -> None:
        self.folder = folder
        self._tree, self._gates, self._whole = folder, gates, whole
        self._temporary: TemporaryDirectory[str] | None = None
        self._mounts: dict[str, Mount] = {}
        self._flaws: dict[str, str] = {}
        self._made: list[Path] = []

    async def _open(self) -> None:
        if self._gates:
            await run_sync(self._prepare)

    async def _close(self) -> None:
        await run_sync(self._clear)

    def _prepare(self) -> None:
        self._temporary = TemporaryDirectory(prefix="otpy-gates-", ignore_cleanup_errors=True)
        if self._whole:
            self.folder = Path(self._temporary.name, self._tree.name)
            _copy_tree(self._tree, self.folder)
            return
        for name in dict.fromkeys(name for gate in self._gates for name in gate.allowed_writes):
            try:
                self._mounts[name] = self._copied(name, Path(self._temporary.name))
            except OSError as error:
                self._flaws[name] = f"allowed_writes: {name}: {error.strerror or error}"

    def _clear(self) -> None:
        for path in reversed(self._made):
            with contextlib.suppress(OSError):  # somebody has put something there
                if path.is_dir():
                    path.rmdir()
                elif path.stat().st_size == 0:
                    path.unlink()
        if self._temporary is not None:
            self._temporary.cleanup()

    def flaw_of(self, gate: Gate) -> str:
        """Return why a gate cannot be run; empty if it can."""
        if place_within(self.folder, gate.working_dir) is None:
            return f"working_dir: {gate.working_dir} leads out of the work tree"
        if not (self.folder / gate.working_dir).is_dir():
            return f"working_dir: {gate.working_dir} is not a folder"
        return next((self._flaws[one] for one in gate.allowed_writes if one in self._flaws), "")

    def mounts_of(self, gate: Gate) -> tuple[Mount, ...]:
        """Return the writable mounts of a gate; a folder includes everything below it."""
        places = [self._mounts[name] for name in gate.allowed_writes if name in self._mounts]
        above = {mount.place for mount in places}
        return tuple(mount for mount in places if above.isdisjoint(mount.place.parents))

    def _copied(self, name: str, temporary: Path) -> Mount:
        place = place_within(self._tree, name)
        if place is None:
            raise OSError("it leads out of the work tree")
        copy = temporary / str(len(self._mounts))
        if place.is_dir():
            _copy_tree(place, copy)
        elif place.is_file():
            shutil.copy2(place, copy)
        elif os.path.lexists(place):
            raise OSError("it is neither a file nor a folder")
        elif _is_folder(name):
            copy.mkdir()
            self._make(place)
        else:
            copy.touch()
            self._make(place.parent)
            place.touch()
            self._made.append(place)
        return Mount(copy, place, writable=True)

    def _make(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir()
            self._made.append(one)


def _is_folder(name: str) -> bool:
    path = PurePosixPath(name)
    return name.endswith("/") or not (path.suffix or path.name in _LONE_FILES)


def _copy_tree(source: Path, target: Path) -> None:
    def ours(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in _OURS] if Path(folder) == source else []

    shutil.copytree(source, target, symlinks=True, ignore=ours, copy_function=_copy_file)


def _copy_file(source: str, target: str) -> None:
    if Path(source).is_file():  # not a pipe, which would block
        shutil.copy2(source, target)
