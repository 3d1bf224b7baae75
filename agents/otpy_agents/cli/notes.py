"""Lines for the person at the terminal, beside the result."""

from __future__ import annotations

import sys

from otpy_agents.cli.run_words import harmless

__all__ = ["say"]


def say(line: str) -> None:
    """Write a line to the error stream, without what could move a cursor.

    Raises:
        OSError: It cannot be written.
    """
    print(harmless(line), file=sys.stderr, flush=True)
