"""How spans and moments are said to people."""

from __future__ import annotations

from datetime import datetime
from typing import Final

__all__ = ["moment", "span"]

_UNITS: Final = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def span(seconds: float) -> str:
    """Return a duration as a person says it: `4.2 s`, `75 s`, `4 min 30 s`, `2 h 59 min`, `30 d`.

    From two minutes on it is rounded to the smaller of its two units. Below that it is cut, so that
    nothing looks over before it is.
    """
    seconds = max(0.0, seconds)
    for unit, size, smaller, part in _UNITS:
        parts = round(seconds / part)
        if parts * part >= 2 * size:
            whole, rest = divmod(parts, size // part)
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{int(seconds)} s"  # noqa: PLR2004 - taste


def moment(until: float, now: float) -> str:
    """Return a moment on the clock of this machine: `18:52`, or with its date if that is not today.

    Args:
        until: The moment, in Unix seconds.
        now: In Unix seconds.
    """
    at, today = datetime.fromtimestamp(until), datetime.fromtimestamp(now)  # noqa: DTZ006 - local
    return f"{at:%H:%M}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M}"
