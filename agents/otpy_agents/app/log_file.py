"""The log file of a tree: every event as a line of JSON, in a folder whose logs are rotated."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

from otpy_agents.clock import CLOCK

if TYPE_CHECKING:
    from otpy_agents.tree.journal import JournalEntry

__all__ = ["LogFile"]


@final
class LogFile:
    """Writes what happens to `FOLDER/NAME.log`, without secrets.

    The file is opened for each line, so that hygiene may rotate it at any time (G-13).

    Args:
        folder: Made on first use.
        name: Of the work list.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name.replace('/', '-')}.log"

    def write(self, entry: JournalEntry) -> None:
        """Add a line.

        Raises:
            OSError: It cannot be written.
        """
        known = {"event": entry.name, "id": entry.id, "seconds": round(entry.seconds, 3)}
        at = datetime.fromtimestamp(CLOCK(), UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, **entry.detail, **known})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
