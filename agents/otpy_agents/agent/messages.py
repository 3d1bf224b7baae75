"""What others have to say to an agent, on disk: its notes, and what its next prompt will hold.

The notes lie where the agent works, for it to look into. What waits for its next prompt lies where
it does not work, and outlives its host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

__all__ = ["add_note", "keep", "kept"]

# An agent can put anything in the place of its notes: a link elsewhere, or a pipe nobody reads.
_FLAGS: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)


def add_note(file: Path, message: str) -> None:
    """Append a message to the notes of a worker (TREE-47).

    Raises:
        OSError: They cannot be written, or are no plain file.
    """
    descriptor = os.open(file, _FLAGS, 0o644)
    with open(descriptor, "a", encoding="utf-8") as notes:  # noqa: PTH123 - it is open already
        notes.write(f"{message}\n")


def keep(file: Path, messages: Sequence[str]) -> None:
    """Keep messages in the place of those that were kept; without any, the file goes.

    Raises:
        OSError: The disk does not take it; what was kept still is.
    """
    if not messages:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(list(messages)), encoding="utf-8")
    new.replace(file)


def kept(file: Path) -> list[str]:
    """Return the messages that were kept; none if there are none, or if they cannot be read."""
    try:
        read = cast("object", json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []
    if not isinstance(read, list):
        return []
    return [one for one in cast("list[object]", read) if isinstance(one, str)]
