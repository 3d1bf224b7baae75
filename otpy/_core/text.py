"""Text of values that users made: a `__repr__` or `__str__` may raise, or never come to an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT_LIMIT: Final = 1_000
"""Characters of a value's text that are kept; it then says how many there were."""


def shown(value: object, limit: int = TEXT_LIMIT) -> str:
    """Return `repr(value)`, `limit` characters of it at most; what can be said if it raises."""
    return _called(repr, value, limit)


def text_of(value: object, limit: int = TEXT_LIMIT) -> str:
    """Return `str(value)`, `limit` characters of it at most; what can be said if it raises."""
    return _called(str, value, limit)


def _called(ask: Callable[[object], str], value: object, limit: int) -> str:
    try:
        text = str.__str__(ask(value))  # that of a subclass might cut itself as it likes
    except BaseException as error:  # noqa: BLE001 - it must not hide what is being told
        return f"<{type(value).__qualname__}: {ask.__name__}() raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
