"""Passed gates that need not run again, in the state folder of the user (ENG-31, ENG-49)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

from attrs import frozen

from otpy_agents.store.hosts import default_state

__all__ = ["CachedPass", "GateCache", "cache_folder"]

KEPT_SECONDS: Final = 30 * 86_400.0
"""How long an unused entry is kept."""
KEPT_BYTES: Final = 200_000_000
"""What all entries of a repository take at most."""


@frozen
class CachedPass:
    """A gate that passed.

    Attributes:
        output: What it wrote.
        seconds: What it took.
    """

    output: str
    seconds: float


def cache_folder(repository: Path, environment: Mapping[str, str]) -> Path:
    """Return where the passed gates of a repository are kept: beside the store of runs.

    Args:
        repository: Its common git folder, which all its work trees share.
        environment: Usually `os.environ`; see `default_state`.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(repository))).hexdigest()
    return default_state(environment).parent / "gates" / digest[:16]


@final
class GateCache:
    """Passed gates by key, each a file; many processes may use it at once.

    Only passes are kept: a gate may have failed because of something that is not its input, such as
    a missing program, and is run again. What cannot be read or written counts as not there.

    Args:
        folder: Where; made when something is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> CachedPass | None:
        """Return the pass of a key; None if there is none."""
        path = self._folder / key
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            found = CachedPass(str(kept["output"]), float(kept["seconds"]))
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found

    def put(self, key: str, passed: CachedPass) -> None:
        """Keep a pass, and remove old and surplus ones."""
        text = json.dumps({"output": passed.output, "seconds": round(passed.seconds, 3)})
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._folder, prefix=".", delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            Path(file.name).replace(self._folder / key)
            self._purge()

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
