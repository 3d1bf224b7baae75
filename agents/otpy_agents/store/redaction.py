"""Keeping secrets out of whatever is written down or shown (G-04)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final

__all__ = ["Redaction"]

_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|_)(?:api_?key|key|token|secret|password|passwd|credentials?)(?:_|$)"
)
_SHORTEST: Final = 6


@final
class Redaction:
    """Replaces the values of variables whose names say that they are secret.

    A variable counts if one of the words of its name is key, token, secret, password or credential.
    Values under six characters are left alone: they would black out ordinary words.

    Args:
        environment: The environment of the worker whose output is to be cleaned.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        secrets = {
            text: name
            for name, text in environment.items()
            if _SECRET_NAME.search(name) and len(text) >= _SHORTEST
        }
        # Longest first, or a secret that contains another would be left standing in part.
        ordered = sorted(secrets, key=len, reverse=True)
        self._names = secrets
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        """Return `text` with each secret replaced by `[NAME]`."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: f"[{self._names[match[0]]}]", text)
