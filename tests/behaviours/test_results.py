"""Results of callbacks, as values."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from otpy.server import NoReply, Reply

REPLY: Any = Reply("value", "state", continue_with="next", timeout=1.5)
NO_REPLY: Any = NoReply("state", timeout=2)


def test_they_are_equal_and_hashed_by_what_they_hold() -> None:
    """A copy equals its original."""
    for result in (REPLY, NO_REPLY):
        same = copy.copy(result)
        assert same == result
        assert hash(same) == hash(result)
    assert Reply("value", "state") != REPLY
    assert NoReply("state") != NO_REPLY


def test_they_show_how_they_were_made() -> None:
    """The repr names the arguments."""
    assert repr(NO_REPLY) == "NoReply(state='state', continue_with=None, timeout=2)"
    shown = "Reply(value='value', state='state', continue_with='next', timeout=1.5)"
    assert repr(REPLY) == shown


def test_they_are_taken_apart_by_match() -> None:
    """A pattern can match by position and by name."""
    taken: list[Any] = []
    for result in (REPLY, NO_REPLY):
        match result:
            case Reply("value", "state", timeout=1.5):
                taken.append("reply")
            case NoReply("state", continue_with=None):
                taken.append("no reply")
            case _:
                pass
    assert taken == ["reply", "no reply"]


@pytest.mark.parametrize("result", [REPLY, NO_REPLY])
@pytest.mark.parametrize("name", ["value", "state", "continue_with", "timeout", "other"])
def test_nothing_can_be_set(result: Any, name: str) -> None:
    """A result that is returned for many messages stays as it is."""
    with pytest.raises(AttributeError):
        setattr(result, name, None)
