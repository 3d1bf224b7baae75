"""The user who types a command (G-16)."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys

from otpy_agents.operator import Actor

__all__ = ["actor"]


def actor() -> str:
    """Return the author of this command: user, process and terminal."""
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    terminal = None
    with contextlib.suppress(OSError):
        terminal = os.ttyname(sys.stdin.fileno()) if sys.stdin is not None else None
    return str(Actor(user=user, uid=uid, pid=os.getpid(), tty=terminal))
