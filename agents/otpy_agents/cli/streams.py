"""What a program finds where it is started: streams that are closed, full, or know few letters."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Final, TextIO

__all__ = ["is_text", "occupy_standard_streams", "to_nowhere", "tolerate_every_letter"]

_STDERR: Final = 2


def occupy_standard_streams() -> None:
    """Put something in the place of standard streams that are closed.

    Otherwise a database or a socket would be opened there, and written to by who means the stream.
    """
    number = 0
    while number <= _STDERR:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)


def tolerate_every_letter() -> None:
    """Let output hold letters that the streams cannot encode; they are shown as numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def to_nowhere(stream: TextIO | None) -> None:
    """Lead a stream that cannot be written to nowhere.

    What is still in its buffer would fail again when the program ends.
    """
    if stream is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # it has no descriptor any more, and so nothing to fail with


def is_text(words: str) -> bool:
    """Return whether words from outside can be written as UTF-8; bytes that are none cannot."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True
