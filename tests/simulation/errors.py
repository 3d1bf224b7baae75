"""Errors that a child, a hook or a callback may raise: usual and unusual ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Unspeakable(Exception):
    """An error whose `str()` fails."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Unspeakable2(Unspeakable):
    """An error whose `repr()` fails too."""

    def __repr__(self) -> str:
        raise ValueError("no representation")


class Wordless(Exception):
    """An error whose text is None."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307 - that is what is wrong


class Strange(BaseException):
    """An error that is not an `Exception`, and that no code knows."""


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
    """Return a new error with this number."""
    return _MAKERS[number]()
