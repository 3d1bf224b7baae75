"""The words for the state and activity of a run, for lists and for the live line."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from otpy_agents.attempt.usage import Usage
from otpy_agents.cli.view import printable
from otpy_agents.run.decide.result import AttemptRecord
from otpy_agents.run.decide.time_text import span

__all__ = ["ago", "at", "countdown", "ended_as", "harmless", "money", "one_line", "span", "spent"]

_THOUSAND: Final = 1000
_CENTS: Final = 0.995


def countdown(seconds: float) -> str:
    """Return the rest of a wait, to the second: `0:09`, `9:59`, `1:00:00`."""
    left = math.ceil(max(0.0, seconds))
    minutes, rest = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ago(moment: float, now: float) -> str:
    """Return how long before `now` a moment was, both in Unix seconds."""
    return f"{span(now - moment)} ago"


def at(moment: float) -> str:
    """Return a moment, in Unix seconds, in the time zone of this machine."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(" ", "seconds")


def money(dollars: float) -> str:
    """Return US dollars with enough digits to tell small sums apart."""
    return f"${dollars:.2f}" if dollars >= _CENTS else f"${dollars:.4f}"


def spent(usage: Usage) -> str:
    """Return tokens and money as `1.2k+340 tokens $0.03`; empty if nothing is known."""
    parts: list[str] = []
    if usage.input or usage.output:
        parts.append(f"{_count(usage.input)}+{_count(usage.output)} tokens")
    if usage.cost_usd:
        parts.append(money(usage.cost_usd))
    return " ".join(parts)


def _count(number: int) -> str:
    if number < _THOUSAND:
        return str(number)
    if number < _THOUSAND * _THOUSAND:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number / _THOUSAND / _THOUSAND:.1f}M"


def one_line(text: str, length: int) -> str:
    """Return `text` on one line, without control signs, cut to `length`."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"


def harmless(text: str) -> str:
    """Return a longer text with everything but its line ends and tabs that could do harm shown."""
    return "".join(sign if sign in "\n\t" else printable(sign) for sign in text)


def ended_as(record: AttemptRecord) -> str:
    """Return how an attempt ended, in two words: `ok`, `failed: network`, `ended: cancel`."""
    if record.succeeded:
        return "ok"
    return f"ended: {record.stopped}" if record.stopped else f"failed: {record.detail}"
