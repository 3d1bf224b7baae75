"""Reads the checkpoint that an agent has written for its next life (TREE-39)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Final, NoReturn, cast

from otpy_agents.store.sessions import CHECKPOINT_LIMIT, JSON

__all__ = ["CHECKPOINT", "Unusable", "read_checkpoint"]

CHECKPOINT: Final = "CHECKPOINT"
"""Name of the file, in the private work directory of an assignment."""

# An agent can put anything there: a link elsewhere, or a pipe that nobody writes into.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unusable(Exception):
    """The file is not a checkpoint; the message says what it is instead."""


def read_checkpoint(file: Path) -> JSON:
    """Return an agent's checkpoint: a JSON value, or else its text; None if the file is empty.

    Raises:
        FileNotFoundError: It has left nothing.
        Unusable: It cannot be read, is not a plain file, is not UTF-8, or is too long.
    """
    try:
        descriptor = os.open(file, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unusable(str(error)) from error
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - it is open already
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unusable(f"{file} is not a plain file")
        read = opened.read(CHECKPOINT_LIMIT + 1)
    try:
        text = read.decode().strip()
    except UnicodeDecodeError as error:
        raise Unusable(f"{file} is not UTF-8: {error}") from error
    value = _value(text)
    if len(read) > CHECKPOINT_LIMIT or len(json.dumps(value)) > CHECKPOINT_LIMIT:
        raise Unusable(f"{file} is longer than {CHECKPOINT_LIMIT} characters as JSON")
    return value


def _value(text: str) -> JSON:
    if not text:
        return None
    try:
        return cast("JSON", json.loads(text, parse_constant=_no_json))
    except (ValueError, RecursionError):
        return text


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)
