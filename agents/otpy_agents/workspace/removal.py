"""Deleting a folder with everything in it, whatever its owner did to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

__all__ = ["remove_any", "remove_tree"]


def remove_tree(folder: Path) -> None:
    """Delete a folder; safe to cut at any point and do again. Links in it are not followed.

    Raises:
        OSError: If something in it cannot be deleted.
    """
    # Tools make folders read-only, which keeps their owner from emptying them.
    for name, _, _ in os.walk(folder):
        mode = os.lstat(name).st_mode
        if stat.S_IMODE(mode) & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101 - names, not paths
    try:
        shutil.rmtree(folder)
    except OSError as error:
        error.filename = str(folder)  # Python 3.11 names the last part of a path inside of it
        raise


def remove_any(path: Path) -> None:
    """Delete whatever lies at a path, as `remove_tree`; a link is deleted, not followed.

    Raises:
        OSError: If it cannot be deleted.
    """
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        with contextlib.suppress(NotADirectoryError):  # where a file stands for its folder
            path.unlink(missing_ok=True)
