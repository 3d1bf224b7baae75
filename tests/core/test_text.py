"""Text of objects that raise instead of returning text, or return too much."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from otpy import Crashed, Exit, Shutdown
from otpy._core.reason import FailedToStart
from otpy._core.text import TEXT_LIMIT, shown, text_of
from otpy.errors import CallFailed

HUGE = 10_000_000


class Mute(Exception):
    """An error without text."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised

    __repr__ = __str__


class Sly(str):
    """A text that cannot be cut."""

    __slots__ = ()

    def __getitem__(self, index: object) -> str:
        raise IndexError

    def splitlines(self, keepends: bool = False) -> list[str]:
        raise IndexError


class Talker(Exception):
    """An error whose text is not a plain string."""

    def __str__(self) -> str:
        return Sly("one\ntwo")


WRONG = [
    ValueError(),
    RecursionError(),
    MemoryError(),
    asyncio.CancelledError(),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
]


@pytest.mark.parametrize("raised", WRONG, ids=lambda error: type(error).__name__)
def test_an_object_without_text_still_has_a_name(raised: BaseException) -> None:
    """This holds for anything that its `__str__` or `__repr__` raises."""
    what = type(raised).__name__
    assert text_of(Mute(raised)) == f"<Mute: str() raised {what}>"
    assert shown([Mute(raised)]) == f"<list: repr() raised {what}>"


def test_a_text_that_is_none_is_no_text() -> None:
    """`__str__` may return a value that is not text."""

    class Odd:
        def __str__(self) -> str:
            return cast("str", 5)

    assert text_of(Odd()) == f"<{Odd.__qualname__}: str() raised TypeError>"


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    """A text up to the limit stays whole."""
    whole = "x" * TEXT_LIMIT
    assert text_of(whole) == whole
    assert text_of("x" * HUGE) == f"{whole}… (10,000,000 characters)"
    assert shown("x" * 10, 5) == "'xxxx… (12 characters)"


@pytest.mark.parametrize("raised", WRONG, ids=lambda error: type(error).__name__)
def test_reasons_have_a_text_whatever_is_in_them(raised: BaseException) -> None:
    """The same holds for errors whose message contains a reason."""
    bad = Mute(raised)
    what = f"<Mute: str() raised {type(raised).__name__}>"
    crashed = Crashed(bad)
    assert str(crashed) == f"crashed: Mute: {what}"
    assert str(Shutdown(bad)) == f"shutdown: {what}"
    assert str(Shutdown(FailedToStart("c", crashed))).endswith(what)
    assert str(CallFailed("app/s", crashed)) == f"app/s: the call failed: {crashed}"
    assert str(Exit(Shutdown(bad))) == f"shutdown: {what}"


def test_reasons_are_one_short_line() -> None:
    """Of 10 MB a thousand characters are left; of many lines the first."""
    short = f"{'x' * TEXT_LIMIT}… (10,000,000 characters)"
    assert str(Crashed(ValueError("x" * HUGE))) == f"crashed: ValueError: {short}"
    assert str(Shutdown("x" * HUGE)) == f"shutdown: {short}"
    assert str(Crashed(ValueError("two\n" + "x" * HUGE))) == "crashed: ValueError: two"
    assert str(Crashed(Talker())) == "crashed: Talker: one"
