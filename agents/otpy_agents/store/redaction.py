"""Keeping secrets out of whatever is written down or shown (G-04)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast, final
from urllib.parse import quote

__all__ = ["Redaction", "is_secret_name", "without_secrets"]

_SECRET_NAME: Final = re.compile(
    r"(?i)secret|passw(?:or)?d|credential|token(?!s(?:_|$)|iz)|key(?:_|$)"
)
_SHORTEST: Final = 6
# Output of a program that was not UTF-8: no file can hold it.
_HALVES: Final = re.compile("[\ud800-\udfff]")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name counts as secret without being declared.

    `APIKEY` and `PGPASSWORD` are secret. `KEYBOARD` and `MAX_TOKENS` are not: a number of tokens
    would be blacked out wherever it stands.
    """
    return _SECRET_NAME.search(name) is not None


def without_secrets(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a JSON value whose texts and keys are cleaned; numbers stay, and so does its form.

    Args:
        value: As `json.loads` returns it.
        clean: Takes secrets out of a text, such as a `Redaction`.
    """
    if isinstance(value, str):
        text = clean(value)
        return text if text.isascii() else _HALVES.sub("\ufffd", text)
    if isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
        return [without_secrets(item, clean) for item in items]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {
            without_secrets(key, clean): without_secrets(item, clean)
            for key, item in entries.items()
        }
    return value


@final
class Redaction:
    """Replaces secret values by their names.

    A variable is secret by its name, or if it is declared. A value is also found as JSON and URLs
    write it, and each line of one with several lines is found by itself. Values under six
    characters are left alone: they would black out ordinary words.

    Args:
        environment: The environment of the worker whose output is to be cleaned.
        names: Variables of it that are secret whatever they are called.
        values: More secrets, by the name to show instead, such as what a credential file holds.

    Attributes:
        longest: Characters of the longest text that is looked for; 0 without any.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        names: Collection[str] = (),
        values: Mapping[str, str] | None = None,
    ) -> None:
        secrets = {
            name: text
            for name, text in environment.items()
            if name in names or is_secret_name(name)
        }
        self._names = {
            form: name
            for name, text in {**secrets, **(values or {})}.items()
            for form in _forms(text)
            if len(form) >= _SHORTEST
        }
        # Longest first, or a secret that contains another would be left standing in part.
        ordered = sorted(self._names, key=len, reverse=True)
        self.longest = len(ordered[0]) if ordered else 0
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        """Return `text` with each secret replaced by `[NAME]`."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: f"[{self._names[match[0]]}]", text)

    def head(self, text: str, length: int) -> str:
        """Return the first `length` characters of `text`, cleaned; of no secret a part is left.

        Args:
            text: At least `length` and `longest` characters of a longer text, or all of it.
            length: A secret that stands across this border is still replaced as a whole.
        """
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            if match.start() < length < match.end():
                length = match.end()
        return self(text[:length])


def _forms(text: str) -> Iterator[str]:
    """Yield `text` in the ways it is written."""
    for line in {text, *text.splitlines()}:
        yield line
        escaped = json.dumps(line)[1:-1]
        yield from (
            escaped,
            json.dumps(line, ensure_ascii=False)[1:-1],
            escaped.replace("/", "\\/"),
        )
        yield quote(line, safe="")
