"""The share of all examples that a run tries: a quarter, or all of them in a longer run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

FULL = "full"
"""The profile that tries all: pytest -m hypothesis --hypothesis-profile=full."""

QUICK = "quick"
"""The profile that counts unless another is named."""

_DEFAULT = 100
_SHARE = 4


def register() -> None:
    """Register both profiles, and load the quick one.

    Neither has a deadline: a machine that is busy with something else must not fail a test.
    """
    settings.register_profile(FULL, deadline=None, max_examples=_DEFAULT)
    settings.register_profile(QUICK, deadline=None, max_examples=_DEFAULT // _SHARE)
    settings.load_profile(QUICK)


def examples(number: int) -> int:
    """Return `number` under the full profile and a share of it under any other, at least 1."""
    full = settings.get_current_profile_name() == FULL
    return number if full else max(1, number // _SHARE)


def some(
    values: Iterable[object], rest: pytest.MarkDecorator = pytest.mark.slow
) -> list[ParameterSet]:
    """Return `values` for a `parametrize`; of each four all but the first are marked `rest`."""
    return [
        pytest.param(value, marks=[rest] if number % _SHARE else [])
        for number, value in enumerate(values)
    ]
