"""The printed text of an error is never endless, and printing never fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from otpy._runtime.printable import CHAIN_LIMIT, FRAME_LIMIT, MESSAGE_LIMIT, printable


class Mute(Exception):
    """An error whose text raises something that is not even an `Exception`."""

    def __str__(self) -> str:
        raise SystemExit(3)


def caught(raises: Callable[[], object]) -> BaseException:
    try:
        raises()
    except BaseException as error:  # noqa: BLE001 - of any kind
        return error
    raise AssertionError


def fail(error: BaseException, cause: BaseException | None = None) -> BaseException:
    def raises() -> None:
        raise error from cause

    return caught(raises)


def text(error: BaseException) -> str:
    return "".join(traceback.format_exception(printable(error)))


def ring() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


@pytest.mark.parametrize(
    "error",
    [
        fail(ValueError("paper")),
        fail(ValueError("x" * MESSAGE_LIMIT), KeyError("cause")),
        fail(ExceptionGroup("several", [ValueError("a"), TypeError("b")])),
        ring(),
    ],
    ids=["plain", "with a cause", "group", "ring"],
)
def test_an_error_that_prints_well_stays_itself(error: BaseException) -> None:
    """The class of such an error stays visible."""
    assert printable(error) is error


def test_an_error_without_text_keeps_its_name_and_its_traceback() -> None:
    """It prints as usual, except for the text."""
    printed = text(fail(Mute()))
    assert "in raises" in printed
    last = printed.splitlines()[-1]
    assert last == f"{__name__}.Mute: <Mute: str() raised SystemExit>"


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_is_printed_with_what_led_to_it(whole: bool) -> None:
    """Causes stay causes, contexts stay contexts, and a hidden context stays hidden."""
    cause = fail(ValueError("first") if whole else Mute())

    def in_its_context() -> None:
        try:
            raise cause
        except BaseException:  # noqa: BLE001 - see `caught`
            raise KeyError("second")  # noqa: B904 - it is the point

    def instead_of_it() -> None:
        try:
            raise cause
        except BaseException:  # noqa: BLE001 - see `caught`
            raise KeyError("second") from None

    first = "first" if whole else "raised SystemExit>"
    assert f"{first}\n\nThe above exception was the direct" in text(fail(KeyError("x"), cause))
    assert f"{first}\n\nDuring handling of the above" in text(caught(in_its_context))
    assert first not in text(caught(instead_of_it))


def test_members_of_a_group_are_printed() -> None:
    """The members of inner groups are printed too, each with its own text."""
    inner = BaseExceptionGroup("inner", [fail(Mute()), fail(ValueError("well"))])
    printed = text(fail(BaseExceptionGroup("outer", [inner, KeyboardInterrupt("key")])))
    for line in ("outer (2 sub-exceptions)", "inner (2 sub-exceptions)", "SystemExit>", "well"):
        assert line in printed
    assert "KeyboardInterrupt: key" in printed


def test_a_message_of_10_mb_is_cut() -> None:
    """The text says how long it was; the same holds for a note."""
    error = fail(ValueError("x" * 10_000_000))
    error.add_note("y" * 10_000_000)
    printed = text(error)
    assert len(printed) < 2 * MESSAGE_LIMIT + 1_000
    assert printed.count("… (10,000,000 characters)") == 2


def test_notes_that_are_none_are_printed_as_they_can_be() -> None:
    """Any code may set `__notes__` to any value."""
    error = fail(ValueError("x"))
    vars(error)["__notes__"] = [Mute(), "fine"]
    assert "<Mute: str() raised SystemExit>\nfine" in text(error)
    vars(error)["__notes__"] = 5
    assert text(error).endswith("x\n5\n")


def test_of_a_long_chain_the_last_errors_are_printed() -> None:
    """A child may raise from the error of its last life, and that one from the one before."""
    error = fail(ValueError("0"))
    for number in range(1, 2_000):
        error = fail(ValueError(str(number)), error)
    printed = text(error)
    assert "ValueError: 1999" in printed
    assert printed.count("ValueError") == CHAIN_LIMIT
    assert "(1 more exceptions that led here are not shown)" in printed


def test_of_a_huge_group_some_members_are_printed() -> None:
    """`traceback` shows no more than fifteen either."""
    error = fail(ExceptionGroup("many", [ValueError(str(n)) for n in range(1_000)]))
    printed = text(error)
    assert "many (1000 sub-exceptions)" in printed
    assert "(981 more exceptions that led here are not shown)" in printed


def test_of_a_deep_traceback_both_ends_are_printed() -> None:
    """A runaway recursion over two functions has a thousand frames without a repetition."""

    def even(depth: int) -> None:
        odd(depth - 1)

    def odd(depth: int) -> None:
        if depth < 0:
            raise ValueError("bottom")
        even(depth - 1)

    printed = text(caught(lambda: even(400)))
    assert "in caught" in printed
    assert 'raise ValueError("bottom")' in printed
    assert "(304 frames after the first 20 are not shown)" in printed
    assert printed.count('File "') == FRAME_LIMIT


def test_an_error_that_led_to_itself_ends() -> None:
    """This holds even where a stand-in is needed."""
    error = Mute()
    other = ValueError("other")
    error.__cause__, other.__cause__ = other, error
    assert text(error).count("SystemExit>") == 1
