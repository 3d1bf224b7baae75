"""The replies of a fake model, in terms that belong to no vendor."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from enum import Enum
from typing import Final

from attrs import field, frozen

__all__ = [
    "CACHED_TOKENS",
    "INPUT_TOKENS",
    "OUTPUT_TOKENS",
    "REASONING_TOKENS",
    "Answer",
    "Cut",
    "Error",
    "Garbage",
    "Hang",
    "Refusal",
    "Refuse",
    "Reply",
    "UseTool",
    "fresh_id",
]

_numbers: Final = itertools.count(1)


def fresh_id(kind: str) -> str:
    """Return a fresh id in the style of a vendor: CLIs tell answers apart by their ids."""
    return f"{kind}_fake{next(_numbers)}"


# The usage of each answer, whatever its text.
INPUT_TOKENS: Final = 1500
"""Tokens of one request, those from the cache included."""
CACHED_TOKENS: Final = 300
"""Those of them that came from the cache."""
OUTPUT_TOKENS: Final = 25
"""Tokens of one answer, those of its reasoning included."""
REASONING_TOKENS: Final = 5
"""Those of them that were spent on reasoning, for vendors that say so."""


class Error(Enum):
    """A reason to refuse a request; each vendor has its own words and numbers for it."""

    UNAUTHORIZED = "unauthorized"
    """401: a wrong key."""
    FORBIDDEN = "forbidden"
    """403: a key that may not do this."""
    RATE_LIMIT = "rate limit"
    """429: too fast; seconds to wait."""
    RATE_LIMIT_LONG = "long rate limit"
    """429: the allowance of a day is used up; an hour or more to wait."""
    QUOTA = "quota"
    """The allowance of an account is used up, and no word of when it comes back."""
    OVERLOADED = "overloaded"
    """529: no capacity."""
    SERVER_ERROR = "server error"
    """500."""
    UNAVAILABLE = "unavailable"
    """503."""
    CONTEXT = "context"
    """The prompt is longer than the model can take."""
    CREDIT = "credit"
    """Nobody pays."""
    MODEL = "model"
    """404: there is no such model."""


@frozen
class Refusal:
    """The refusal of one vendor.

    Attributes:
        status: HTTP status.
        body: The JSON document.
        headers: Headers that go with it.
    """

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(factory=dict[str, str])


@frozen
class Answer:
    """The model says `text`, with `pause` seconds before each piece of the stream."""

    text: str = "hello there"
    pause: float = 0.0


@frozen
class UseTool:
    """The model wants a tool of the agent to run, which it says after `pause` seconds."""

    name: str
    arguments: Mapping[str, object]
    pause: float = 0.0


@frozen
class Refuse:
    """The vendor refuses the request."""

    error: Error


@frozen
class Cut:
    """The connection is reset in the middle of the answer."""


@frozen
class Garbage:
    """HTTP 200, announced as JSON, with a page for people in it."""


@frozen
class Hang:
    """No answer ever comes; the connection stays open."""


Reply = Answer | UseTool | Refuse | Cut | Garbage | Hang
