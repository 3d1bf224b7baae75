"""What the words of an error message mean; looked up in the final message only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from otpy_agents.adapters.adapter import Wording
from otpy_agents.attempt.failures import Detail
from otpy_agents.classify.vendor_words import NO_CREDIT

__all__ = ["by_words", "is_long_limit", "is_short_limit", "is_unpaid"]

_LONG: Final = re.compile(
    r"(?<![a-z])per[ _-]?(?:day|week|month)(?![a-z])"
    r"|\b(?:daily|weekly|monthly|usage limits?|spend(?:ing)? (?:cap|limit))\b"
    r"|Per(?:Day|Week|Month)|account's rate limit",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(
    r"(?<![a-z])per[ _-]?(?:second|sec|minute|min)(?![a-z])"
    r"|\b(?:TPM|RPM|RPS|ITPM|OTPM)\b|Per(?:Minute|Second)",
    re.IGNORECASE,
)


_UNPAID: Final = re.compile(NO_CREDIT, re.IGNORECASE)


def by_words(message: str, wordings: Sequence[Wording], *, cut: bool = False) -> Detail | None:
    """Return the failure for the first of `wordings` that is found in `message`.

    Args:
        message: The words.
        wordings: In the order they are tried.
        cut: Whether a time limit ended the attempt.
    """
    for wording in wordings:
        if (cut or not wording.cut) and wording.pattern.search(message):
            return wording.detail
    return None


def is_long_limit(message: str) -> bool:
    """Return whether `message` speaks of a limit for days, or of a plan."""
    return _LONG.search(message) is not None


def is_short_limit(message: str) -> bool:
    """Return whether `message` speaks of a limit for seconds or minutes."""
    return _SHORT.search(message) is not None


def is_unpaid(message: str) -> bool:
    """Return whether `message` says that there is no credit left to pay with."""
    return _UNPAID.search(message) is not None
