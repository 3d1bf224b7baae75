"""What otpy itself has to say on stderr, log or no log."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def say(what: str, stack: Iterable[str] = ()) -> None:
    """Write a line, and below it where something is, outermost call first."""
    lines = [f"otpy: {what}", *(f"  {line.strip()}" for line in stack)]
    write("\n".join(lines) + "\n")


def write(text: str) -> None:
    """Write `text`, if that can be done; what cannot be written keeps nobody from anything."""
    stderr: Any = sys.stderr
    if stderr is None:  # the program was started without one, as a daemon may be
        return
    try:
        stderr.write(text)
        stderr.flush()
    except Exception as error:  # noqa: BLE001 - no reason not to stop
        if isinstance(error, OSError):
            _lead_nowhere(stderr)


def _lead_nowhere(stream: Any) -> None:
    """Let `stream` be written to nowhere.

    What is stuck in its buffer goes there too; or the interpreter would try again at exit, and end
    with a status of its own.
    """
    with suppress(OSError, ValueError, AttributeError):  # it has no descriptor, or a closed one
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
