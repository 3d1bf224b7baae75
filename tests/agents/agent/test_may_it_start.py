"""The answer to "may it start now?", as a table."""

from __future__ import annotations

import pytest

from otpy_agents.agent.course import Waits, hindrance
from otpy_agents.store.records import Outcome, State


@pytest.mark.parametrize(
    ("spent", "held", "place", "wanted"),
    [
        ("", False, True, None),
        ("", False, False, Waits.PLACE),
        ("", True, True, Waits.BUDGET),
        ("", True, False, Waits.BUDGET),
        ("all of it", False, True, Outcome(State.REAPED, "all of it")),
        ("all of it", True, False, Outcome(State.REAPED, "all of it")),
    ],
)
def test_what_is_over_goes_before_what_waits(
    spent: str, held: bool, place: bool, wanted: object
) -> None:
    """A spent budget does not wait in line; a free place is checked last."""
    assert hindrance(spent=spent, held=held, place=place) == wanted
