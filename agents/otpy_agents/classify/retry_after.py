"""The time that a vendor asks to wait, from headers, fields and words."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from otpy_agents.classify.moments import moment_in

__all__ = ["seconds_to_wait"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST: Final = 366 * 86400.0

_NUMBER: Final = r"\d{1,12}(?:\.\d{1,12})?"
_UNIT: Final = (
    r"(?:milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d)"
)
_PART: Final = re.compile(rf"({_NUMBER})\s*({_UNIT})(?![a-z])", re.IGNORECASE)
_DURATION: Final = rf"(?:{_NUMBER}\s*{_UNIT}(?![a-z])(?:,?\s*(?:and\s+)?)?){{1,5}}"
_AGAIN: Final = (
    r"\b(?:(?:try again|retry(?:ing| your request)?|resets?|reset your \w+|wait|available again"
    r"|replenished)\s+(?:in:?|after|for)|wait)"
)
_WORDS: Final = re.compile(
    rf"{_AGAIN}\s+(?:about\s+|at least\s+|~)?({_DURATION})",
    re.IGNORECASE,
)
_ONE: Final = re.compile(
    r"\b(?:try again|retry(?:ing)?|resets?) in (?:about )?(?:an?|one) "
    r"(second|minute|hour|day)\b(?!\s+(?:and|\d))",
    re.IGNORECASE,
)
# Days, hours, minutes and seconds, as .NET writes them.
_SPAN: Final = re.compile(
    rf"{_AGAIN}\s+(?:(\d{{1,3}})\.)?(\d\d):(\d\d):(\d\d)(?![\d:])", re.IGNORECASE
)
_FIELDS: Final = (
    (re.compile(rf"\bretry[-_]?after[-_]?ms\W{{1,4}}({_NUMBER})", re.IGNORECASE), 0.001),
    (re.compile(rf"\bretry[-_]?delay[-_]?ms\W{{1,4}}({_NUMBER})", re.IGNORECASE), 0.001),
    (
        re.compile(
            rf"\bretry[-_]?after\W{{1,4}}({_NUMBER})(?!\w|\.\d|\s*{_UNIT}(?![a-z]))",
            re.IGNORECASE,
        ),
        1.0,
    ),
    (re.compile(rf"\bretry after ({_NUMBER})(?!\w|\.\d| ?[a-z])", re.IGNORECASE), 1.0),
    (re.compile(rf"\bretry[-_]?after[-_]?seconds?\W{{1,4}}({_NUMBER})", re.IGNORECASE), 1.0),
    (re.compile(rf"\bretry[-_]?delay\W{{1,5}}seconds\W{{1,5}}({_NUMBER})", re.IGNORECASE), 1.0),
    (re.compile(r"(?<!x-)\bratelimit-reset\W{1,4}(\d{1,6})(?!\w)", re.IGNORECASE), 1.0),
    (re.compile(rf"\bresets?_(?:in|after)_seconds\W{{1,4}}({_NUMBER})", re.IGNORECASE), 1.0),
)
_FIELD_DURATION: Final = re.compile(
    rf"\b(?:retry[-_]?delay|retry[-_]?after|quotaResetDelay|x-ratelimit-reset(?:-\w+)?)"
    rf"\W{{1,4}}({_DURATION})",
    re.IGNORECASE,
)


def seconds_to_wait(message: str, now: datetime | None) -> float | None:
    """Return the seconds that `message` asks to wait; None if it does not say.

    Args:
        message: The final error message and the fields that came with it.
        now: The time it was written, with a time zone, which is also that of a clock time without
            one. None: a message that names a point in time says nothing.
    """
    wait = _spans(message)
    if wait is None and now is not None:
        until = moment_in(message, now)
        wait = max(0.0, until.timestamp() - now.timestamp()) if until is not None else None
    return wait if wait is not None and wait <= _LONGEST else None


def _spans(message: str) -> float | None:
    for pattern, unit in _FIELDS:
        found = pattern.search(message)
        if found is not None:
            return float(found[1]) * unit
    for pattern in (_FIELD_DURATION, _WORDS):
        found = pattern.search(message)
        if found is not None:
            return sum(float(amount) * _unit(unit) for amount, unit in _PART.findall(found[1]))
    found = _ONE.search(message)
    if found is not None:
        return _unit(found[1])
    found = _SPAN.search(message)
    if found is not None:
        days, hours, minutes, seconds = (float(number or 0) for number in found.groups())
        return days * _UNITS["d"] + hours * _UNITS["h"] + minutes * _UNITS["m"] + seconds
    return None


def _unit(word: str) -> float:
    word = word.lower()
    return _UNITS["ms" if word.startswith(("ms", "milli")) else word[0]]
