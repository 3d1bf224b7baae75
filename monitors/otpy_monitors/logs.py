"""A chore that keeps log files small, and few (G-13)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from otpy import InvalidSpec
from otpy_monitors.hygiene import Deletion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from otpy_monitors.hygiene import Chore


def rotate_logs(folder: Path, max_bytes: int, keep: int) -> Chore:
    """Return a chore that rotates the `*.log` files of a folder.

    A file larger than `max_bytes` becomes `NAME.log.1`, what had that name becomes `NAME.log.2`,
    and so on; what would come after `NAME.log.KEEP` is deleted. So are files with a higher number,
    which an earlier, larger `keep` has left. A folder that is not there has no files.

    The file is renamed, not copied: its writer must reopen it when its name is gone, as
    `logging.handlers.WatchedFileHandler` does, or continues in `NAME.log.1`. Links are left alone.

    Args:
        folder: Where the files are; folders in it are left alone.
        max_bytes: Largest size of a file that is not yet rotated, at least 1.
        keep: Rotated files that are kept of each, at least 1.

    Raises:
        InvalidSpec: One of the numbers is too small.
    """
    for name, number in (("max_bytes", max_bytes), ("keep", keep)):
        if number < 1:
            msg = f"rotate_logs({str(folder)!r}): {name} is {number!r}, wanted at least 1"
            raise InvalidSpec(msg)

    async def chore() -> AsyncIterator[Deletion]:
        large, surplus = await anyio.to_thread.run_sync(_find, folder, max_bytes, keep)
        for path in surplus:
            yield Deletion(path.name, partial(_remove, path))
        for path, size in large:
            what = f"the oldest {path.name} beyond {keep}, as it is rotated ({size} bytes)"
            yield Deletion(what, partial(_rotate, path, max_bytes, keep))

    return chore


def _find(folder: Path, max_bytes: int, keep: int) -> tuple[list[tuple[Path, int]], list[Path]]:
    """Return the files that are too large, with their sizes, and rotated ones that are too many."""
    large: list[tuple[Path, int]] = []
    surplus: list[Path] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_file():
            continue
        numbered = re.fullmatch(r".+\.log\.([1-9][0-9]*)", path.name)
        if numbered is not None and int(numbered[1]) > keep:
            surplus.append(path)
        elif path.suffix == ".log" and (size := path.stat().st_size) > max_bytes:
            large.append((path, size))
    return large, surplus


async def _remove(path: Path) -> None:
    await anyio.to_thread.run_sync(partial(path.unlink, missing_ok=True))


async def _rotate(path: Path, max_bytes: int, keep: int) -> None:
    """Shift the rotated files by one, oldest first, so that only the last of them is lost.

    It shifts up to the first free number only: a rotation that was cut has left a gap, and what is
    beyond it has been shifted already.
    """
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1))]

    def steps() -> list[tuple[Path, Path]]:
        if not path.is_file() or path.stat().st_size <= max_bytes:
            return []  # somebody else did it since it was found
        free = next((n for n, name in enumerate(names) if n and not name.exists()), None)
        last = keep if free is None else free
        return [(names[number], names[number + 1]) for number in reversed(range(last))]

    for source, target in await anyio.to_thread.run_sync(steps):
        await anyio.to_thread.run_sync(source.replace, target)
