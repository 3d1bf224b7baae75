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


def has_text(value: object, limit: int) -> bool:
    """Whether `str(value)` is a plain text of at most `limit` characters."""
    try:
        text = str(value)
    except BaseException:  # noqa: BLE001 - see `_called`
        return False
    return type(text) is str and len(text) <= limit


def in_one_line(error: BaseException) -> str:
    """Return the type and the text of `error` as one line."""
    lines, name = text_of(error).splitlines(), type(error).__name__
    return f"{name}: {lines[0]}" if lines else name


def _called(ask: Callable[[object], str], value: object, limit: int) -> str:
    try:
        text = str.__str__(ask(value))  # that of a subclass might cut itself as it likes
    except BaseException as error:  # noqa: BLE001 - it must not hide what is being told
        return f"<{type(value).__qualname__}: {ask.__name__}() raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
