"""Passed gates that need not run again (ENG-31, ENG-49)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import final

from attrs import frozen

from otpy_agents.engine.gates.kept import KeptFiles, state_folder

__all__ = ["CachedPass", "GateCache", "cache_folder"]


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
    """Return where the passed gates of a repository are kept; see `state_folder`."""
    return state_folder("gates", repository, environment)


@final
class GateCache:
    """Passed gates by key, each a file; many processes may use it at once.

    Only passes are kept: a gate may have failed because of something that is not its input, such as
    a missing program, and is run again. What cannot be read or written counts as not there.

    Args:
        folder: Where; made when something is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._files = KeptFiles(folder)

    def get(self, key: str) -> CachedPass | None:
        """Return the pass of a key; None if there is none."""
        try:
            kept = json.loads(self._files.get(key) or "")
            return CachedPass(str(kept["output"]), float(kept["seconds"]))
        except (ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, passed: CachedPass) -> None:
        """Keep a pass, and remove old and surplus ones."""
        kept = {"output": passed.output, "seconds": round(passed.seconds, 3)}
        self._files.put(key, json.dumps(kept))
