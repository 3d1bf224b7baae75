"""Text of values that users made: a `__repr__` or `__str__` may raise, or never end a line."""

from __future__ import annotations


def shown(value: object) -> str:
    """Return `repr(value)`, or what can be said instead if that raises."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - it must not hide what is being told
        return f"<{type(value).__qualname__}: repr() raised {type(error).__name__}>"
