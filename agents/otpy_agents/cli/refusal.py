"""How a command refuses to go on: one line on stderr and an exit status."""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn

__all__ = ["fail"]


def fail(reason: object, status: int) -> NoReturn:
    """Say why and leave.

    Args:
        reason: An error, or a sentence.
        status: 1 if it could not be done, 2 if the call was wrong.
    """
    with contextlib.suppress(OSError):  # nobody may listen; the status says enough
        print(f"otpy-agents: {reason}", file=sys.stderr, flush=True)
    raise SystemExit(status)
