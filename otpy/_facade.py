"""The one thing that a façade does: its names say where users import them from."""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final

_OURS: Final = "otpy"


def be_home(namespace: dict[str, Any]) -> None:
    """Let the classes and functions of a façade say that they come from it.

    So tracebacks, `repr`, pickles and `help` show a name that can be imported and that stays when
    a file inside moves.

    Args:
        namespace: The façade's `globals()`.
    """
    home: str = namespace["__name__"]
    for name, value in namespace.items():
        is_public = isinstance(value, type | FunctionType) and not name.startswith("_")
        if is_public and value.__module__.partition(".")[0] == _OURS:
            value.__module__ = home
