"""Scripts of programs that write lines of their own and end, as runs see every CLI."""

from __future__ import annotations

from collections.abc import Iterable

from otpy_agents.testing import ExitWith, Hang, Script, Step, Write

__all__ = ["limited", "network", "ok", "plays", "says", "silent", "writes"]


def plays(*steps: Step, deaf: bool = False) -> Script:
    """Return the script of a program that tells of no session by itself."""
    return Script(*steps, session=False, deaf=deaf)


def writes(*texts: str, each: float = 0.0) -> Iterable[Write]:
    """Return lines, `each` seconds apart; those that begin with `!` go to the error stream."""
    for text in texts:
        yield Write(text=text.removeprefix("!"), stderr=text.startswith("!"), after=each)


def says(*texts: str, code: int = 0) -> Script:
    """Write some lines, and end a second later."""
    return plays(*writes(*texts), ExitWith(code=code))


def ok(text: str = "done") -> Script:
    return says(text)


def network() -> Script:
    return says("!connection reset by peer", code=1)


def limited(wait: str = "") -> Script:
    line = '{"type": "error", "message": "rate limited%s", "status": 429}' % wait  # noqa: UP031
    return says(line, code=1)


def silent() -> Script:
    return plays(Hang())
