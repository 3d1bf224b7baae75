"""Patterns for paths of children: of faults, of recordings, and of `crashes=`.

| in a pattern | stands for |
|---|---|
| `*` | any text within one segment: `app/*` is every child of `app`, `app/db-*` those called so |
| `**` as a whole segment | any number of segments, none included: `app/**/db`, `app/**`, `**` |
| anything else | itself, capitals included |
"""

from __future__ import annotations

import re
from functools import cache


def matches(pattern: str, path: str) -> bool:
    """Whether `pattern` stands for `path`."""
    return _compiled(pattern).fullmatch(f"/{path}") is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [
        "(?:/[^/]+)*" if segment == "**" else "/" + re.escape(segment).replace(r"\*", "[^/]*")
        for segment in pattern.split("/")
    ]
    return re.compile("".join(parts), re.DOTALL)
