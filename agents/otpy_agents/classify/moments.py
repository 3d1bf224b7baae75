"""The point in time at which a vendor says that a limit ends."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["moment_in"]

_UNIX: Final = re.compile(
    r"(?:limit reached\||\bresets?_?at\W{1,4}|\bx-ratelimit-reset\W{1,4})(\d{10})(?:\d{3})?(?!\d)",
    re.IGNORECASE,
)
_HTTP_DATE: Final = re.compile(
    r"\bretry[-_]?after\W{1,4}([A-Za-z]{3,9}, \d{1,2} [A-Za-z]{3} \d{4} \d\d:\d\d:\d\d GMT)",
    re.IGNORECASE,
)
_ISO: Final = re.compile(
    r"\b(?:resets?|try again|retry|available|regain access|until)(?: again)?"
    r"(?:[ _-](?:at|on|after))?\W{1,4}(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:(?:[T ]| at )(?P<time>\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?)"
    r" ?(?P<offset>Z|UTC|GMT|[+-]\d\d:?\d\d)?)?",
    re.IGNORECASE,
)
_DAY: Final = (
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{4}))?(?!\d)"
    r"|(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?(?:day)?\b"
    r"|(?P<named>today|tomorrow)\b)"
)
_TIME: Final = (
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap])\.?m\b\.?"
    r"|(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::(?P<second>\d\d))?(?!\d)"
    r"|(?P<word>midnight|noon)\b)"
)
_ZONE: Final = (
    r"(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_+-]+){0,2})\)"
    r"|\s+(?P<short>(?-i:UTC|GMT|[PMCE][SD]?T|CES?T)|pacific|eastern)\b)?"
)
_CLOCK: Final = re.compile(
    rf"\b(?:resets?|try again)\s+(?:at\s+|on\s+)?(?:{_DAY}(?:,?\s+(?:at\s+)?)?)?{_TIME}?{_ZONE}",
    re.IGNORECASE,
)
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NOON: Final = 12
# As people in the vendors' country write them; the database of zones has other names.
_ZONES: Final = {
    **dict.fromkeys(("utc", "gmt"), "UTC"),
    **dict.fromkeys(("pt", "pst", "pdt", "pacific"), "America/Los_Angeles"),
    **dict.fromkeys(("mt", "mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("ct", "cst", "cdt"), "America/Chicago"),
    **dict.fromkeys(("et", "est", "edt", "eastern"), "America/New_York"),
    **dict.fromkeys(("cet", "cest"), "Europe/Berlin"),
}


def moment_in(message: str, now: datetime) -> datetime | None:
    """Return the moment that `message` says to wait for; None if it names none.

    Args:
        message: The final error message and the fields that came with it.
        now: The time it was written, whose zone is also that of a time without one.
    """
    found = _UNIX.search(message)
    if found is not None:
        return datetime.fromtimestamp(int(found[1]), tz=UTC)
    try:
        found = _HTTP_DATE.search(message)
        if found is not None:
            return parsedate_to_datetime(found[1])
        found = _ISO.search(message)
        if found is not None:
            return _written(found, now)
        for found in _CLOCK.finditer(message):
            if found["month"] or found["weekday"] or _time(found) is not None:
                return _next(found, now)
    except ValueError:
        # A date that no calendar has.
        return None
    return None


def _written(found: re.Match[str], now: datetime) -> datetime:
    offset = (found["offset"] or "").upper()
    offset = "Z" if offset in {"UTC", "GMT"} else offset
    moment = datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00'}{offset}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)


def _time(found: re.Match[str]) -> tuple[int, int, int] | None:
    """Return hour, minute and second; None if no time of the day is named."""
    if found["half"]:
        hour = int(found["hour"])
        if hour > _NOON:
            raise ValueError(hour)
        afternoon = _NOON if found["half"].lower() == "p" else 0
        return hour % _NOON + afternoon, int(found["minute"] or 0), 0
    if found["hour24"]:
        return int(found["hour24"]), int(found["minute24"]), int(found["second"] or 0)
    if found["word"]:
        return (_NOON if found["word"].lower() == "noon" else 0), 0, 0
    return None


def _next(found: re.Match[str], now: datetime) -> datetime:
    """Return the next moment that the day and the time of the day stand for."""
    local = now.astimezone(_zone(found["zone"] or found["short"]) or now.tzinfo)
    hour, minute, second = _time(found) or (0, 0, 0)
    moment = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if found["month"]:
        month = _MONTHS.index(found["month"].lower()) + 1
        year = int(found["year"] or local.year)
        moment = moment.replace(year=year, month=month, day=int(found["day"]))
        behind = not found["year"] and moment < local
        return moment.replace(year=year + 1) if behind else moment
    if found["weekday"]:
        weekday = _WEEKDAYS.index(found["weekday"].lower())
        moment += timedelta(days=(weekday - local.weekday()) % 7)
        return moment if moment > local else moment + timedelta(days=7)
    if found["named"]:
        return moment + timedelta(days=found["named"].lower() == "tomorrow")
    return moment if moment > local else moment + timedelta(days=1)


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(_ZONES.get(name.lower(), name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
