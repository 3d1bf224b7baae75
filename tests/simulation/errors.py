"""What may come out of a child's code, a hook or a callback: the usual and the unusual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Unspeakable(Exception):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Unspeakable2(Unspeakable):
    """An error that cannot be shown either."""

    def __repr__(self) -> str:
        raise ValueError("no representation")


class Wordless(Exception):
    """An error whose text is none."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307 - that is what is wrong


class Strange(BaseException):
    """No `Exception`, and known to nobody."""


Make = Callable[[], BaseException]

_MAKERS: tuple[Make, ...] = (
    lambda: LookupError("lost"),
    Unspeakable,
    Unspeakable2,
    Wordless,
    Strange,
    asyncio.CancelledError,
    GeneratorExit,
    lambda: RecursionError("too deep"),
    lambda: MemoryError("no room"),
    lambda: ExceptionGroup("several", [Unspeakable(), Unspeakable2()]),
    lambda: BaseExceptionGroup("several", [Strange(), Unspeakable()]),
)


EXITS: tuple[Make, ...] = (lambda: SystemExit(3), KeyboardInterrupt)
"""Make what ends the program: the tree in order first, if it comes out of a hook or a callback."""


NUMBERS = range(len(_MAKERS))
"""The numbers of those that end nothing but a child, wherever they come from."""


def error(number: int) -> BaseException:
    """Return a new error of this number."""
    return _MAKERS[number]()
