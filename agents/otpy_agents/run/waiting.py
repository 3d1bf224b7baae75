"""How long a vendor asks to wait, from headers, fields and words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["seconds_to_wait"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST: Final = 366 * 86400.0

_NUMBER: Final = r"\d{1,12}(?:\.\d{1,12})?"
_UNIT: Final = (
    r"(?:milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d)"
)
_PART: Final = re.compile(rf"({_NUMBER})\s*({_UNIT})(?![a-z])", re.IGNORECASE)
_DURATION: Final = rf"(?:{_NUMBER}\s*{_UNIT}(?![a-z])(?:,?\s*(?:and\s+)?)?){{1,5}}"
_WORDS: Final = re.compile(
    rf"\b(?:(?:try again|retry(?:ing)?|resets?|reset your \w+|wait|available again)\s+"
    rf"(?:in|after|for)|wait)\s+(?:about\s+|~)?({_DURATION})",
    re.IGNORECASE,
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
    (re.compile(rf"\bresets?_(?:in|after)_seconds\W{{1,4}}({_NUMBER})", re.IGNORECASE), 1.0),
)
_FIELD_DURATION: Final = re.compile(
    rf"\b(?:retry[-_]?delay|retry[-_]?after|quotaResetDelay|x-ratelimit-reset(?:-\w+)?)"
    rf"\W{{1,4}}({_DURATION})",
    re.IGNORECASE,
)
_UNIX: Final = re.compile(
    r"(?:limit reached\||\bresets?_?at\W{1,4}|\bx-ratelimit-reset\W{1,4})(\d{10})(?:\d{3})?(?!\d)",
    re.IGNORECASE,
)
_ISO: Final = re.compile(
    r"\b(?:resets?|try again|retry|available)(?: again)?(?:[ _-](?:at|on|after))?\W{1,4}"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"\b(?:resets?|try again)\s+(?:at\s+|on\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap])\.?m\b\.?"
    r"(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_+-]+){0,2})\))?",
    re.IGNORECASE,
)
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_NOON: Final = 12


def seconds_to_wait(message: str, now: datetime | None) -> float | None:
    """Return how many seconds `message` asks to wait; None if it does not say.

    Args:
        message: The final error message and the fields that came with it.
        now: The time it was written, with a time zone, which is also that of a clock time without
            one. None: a message that names a point in time says nothing.
    """
    wait = _spans(message)
    if wait is None and now is not None:
        until = _moment(message, now)
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
    return None


def _unit(word: str) -> float:
    word = word.lower()
    return _UNITS["ms" if word.startswith(("ms", "milli")) else word[0]]


def _moment(message: str, now: datetime) -> datetime | None:
    found = _UNIX.search(message)
    if found is not None:
        return datetime.fromtimestamp(int(found[1]), tz=UTC)
    found = _ISO.search(message)
    if found is not None:
        try:
            moment = datetime.fromisoformat(found[1])
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    found = _CLOCK.search(message)
    return _next(found, now) if found is not None else None


def _next(found: re.Match[str], now: datetime) -> datetime | None:
    """Return the next moment that the clock time stands for."""
    if int(found["hour"]) > _NOON:
        return None
    hour = int(found["hour"]) % _NOON + (_NOON if found["half"].lower() == "p" else 0)
    local = now.astimezone(_zone(found["zone"]) or now.tzinfo)
    try:
        moment = local.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"] is None:
            return moment if moment > local else moment + timedelta(days=1)
        month = _MONTHS.index(found["month"].lower()) + 1
        year = int(found["year"] or local.year)
        moment = moment.replace(year=year, month=month, day=int(found["day"]))
        behind = found["year"] is None and moment < local
        return moment.replace(year=year + 1) if behind else moment
    except ValueError:
        return None


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
