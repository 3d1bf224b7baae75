"""The name that a child is to be registered under, as far as its spec knows it."""

from __future__ import annotations

from typing import Any, Protocol, cast

from otpy._core.checks import refuse


class Name(Protocol):
    """The type of a spec's `register`: `otpy.registry.Via`."""

    def __otpy_unfit__(self) -> str | None:
        """Return the wanted form instead; None if a process can be registered under this."""
        ...

    def __otpy_hold__(self, process: Any, /) -> None:
        """Let `process` hold this name until it ends; raise if it cannot."""
        ...


def check_name(who: str, got: object) -> None:
    """Refuse what no process can be registered under."""
    wanted: str | None = "Via(registry, key), or None"
    if hasattr(type(got), "__otpy_unfit__"):  # the class itself is none
        wanted = cast("Name", got).__otpy_unfit__()
    if wanted is not None:
        refuse(who, "register", got, wanted)
