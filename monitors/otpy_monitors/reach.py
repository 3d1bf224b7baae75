"""The files that a program with write access to certain folders can change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_LINKS: Final = 40  # as many as Linux follows on the way to a file


def within_reach(files: Iterable[Path], folders: Iterable[Path]) -> tuple[Path, Path] | None:
    """Return the first of `files` that a writer to `folders` can change, and that folder.

    A file can be changed where it really lies, and at each symbolic link on the way to it. Looks
    at the file system, and changes nothing.

    Args:
        files: The files; absolute.
        folders: Where somebody may write, themselves and below; absolute.

    Raises:
        OSError: A folder cannot be looked at.
        RuntimeError: Links lead in a circle; from Python 3.13 on that is an `OSError`.
    """
    real = [(folder, _real(folder)) for folder in folders]
    for file in files if real else ():
        for place in places_on_the_way(file):
            for folder, path in real:
                if place.is_relative_to(path):
                    return file, folder
    return None


def places_on_the_way(file: Path) -> list[Path]:
    """Return the real path of every entry that is passed on the way to `file`, and its own.

    Args:
        file: Absolute; it need not be there.
    """
    here, ahead = Path("/"), list(reversed(file.parts[1:]))
    places: list[Path] = []
    links = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        here /= part
        places.append(here)
        if links < _MOST_LINKS and here.is_symlink():
            links += 1
            target = here.readlink()
            here = Path("/") if target.is_absolute() else here.parent
            ahead += [name for name in reversed(target.parts) if name != "/"]
    return places


def _real(folder: Path) -> Path:
    try:
        # Strictly: from Python 3.13 on a circle of links is else a place like any other.
        return folder.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return folder.resolve()
