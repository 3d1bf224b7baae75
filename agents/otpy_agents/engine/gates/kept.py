"""Files that are kept for a while in the state folder of the user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, final

from otpy_agents.store.hosts import default_state

__all__ = ["KeptFiles", "outputs_folder", "state_folder"]

KEPT_SECONDS: Final = 30 * 86_400.0
"""How long an unused file is kept."""
KEPT_BYTES: Final = 200_000_000
"""Most bytes that all files of a folder take."""


def state_folder(kind: str, repository: Path, environment: Mapping[str, str]) -> Path:
    """Return where files of a kind are kept for a repository: beside the store of runs.

    Args:
        kind: Name of the folder that holds those of all repositories.
        repository: Its common git folder, which all its work trees share.
        environment: Usually `os.environ`; see `default_state`.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(repository))).hexdigest()
    return default_state(environment).parent / kind / digest[:16]


def outputs_folder(repository: Path, environment: Mapping[str, str]) -> Path:
    """Return where the whole outputs of a repository's gates are kept; see `state_folder`."""
    return state_folder("gate-outputs", repository, environment)


@final
class KeptFiles:
    """Text files by name; many processes may use them at once.

    A file that is unused for 30 days is removed, and so are those used longest ago while all
    together take more than 200 MB. A file that cannot be read or written is missing, and that is
    no error.

    Args:
        folder: Where; made when something is kept.
        clean: Replaces secrets in a text before it is written.
    """

    def __init__(self, folder: Path, *, clean: Callable[[str], str] = str) -> None:
        self._folder, self._clean = folder, clean

    def get(self, name: str) -> str | None:
        """Return the text of a file, which counts as use; None if it is missing."""
        path = self._path(name)
        try:
            text = path.read_text(encoding="utf-8")
            os.utime(path)
        except (OSError, ValueError):
            return None
        return text

    def put(self, name: str, text: str) -> Path | None:
        """Write a file whole, and remove old and surplus ones.

        Args:
            name: Its name; what a file name should not hold becomes `_`.
            text: What is in it.

        Returns:
            Its path; None if it cannot be written.
        """
        path = self._path(name)
        fresh: Path | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._folder, prefix=".", delete=False, encoding="utf-8"
            ) as file:
                fresh = Path(file.name)
                file.write(self._clean(text))
            fresh.replace(path)
        except OSError:
            if fresh is not None:
                fresh.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            self._purge()
        return path

    def _path(self, name: str) -> Path:
        return self._folder / re.sub(r"[^\w.-]", "_", name)

    def _purge(self) -> None:
        entries = sorted(self._entries(), reverse=True)
        if not entries:
            return
        oldest = entries[0][0] - KEPT_SECONDS
        room = KEPT_BYTES
        for used, size, path in entries:
            room -= size
            if room < 0 or used < oldest:
                path.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                state = path.stat()
                yield state.st_mtime, state.st_size, path
