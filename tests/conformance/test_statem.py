"""State machines beside Erlang's `gen_statem`: recorded scenarios, and fresh ones."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

from tests.conformance import statem_explore
from tests.conformance.erlang import erlang_is_missing
from tests.conformance.statem_explore import (
    BELIEVED,
    Mismatch,
    Tally,
    acted,
    compare,
    compare_fresh,
    drawn,
    loses_a_timer,
    originals,
    recorded,
)

SCENARIOS = int(os.environ.get("OTPY_CONFORMANCE_SCENARIOS") or 50)
SEED = int(os.environ.get("OTPY_CONFORMANCE_SEED") or 1)


def test_a_state_machine_does_what_erlang_did() -> None:
    """In each recorded scenario, plain and awaited callbacks show the recorded trace."""
    tally = Tally()
    for scenario, trace in recorded():
        compare(scenario, trace, tally)
    assert tally.compared >= 140


@pytest.mark.skipif(erlang_is_missing(), reason="there is no escript: install erlang-base")
@pytest.mark.real_time
@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_state_machine_does_what_erlang_does() -> None:
    """On fresh scenarios of a seed, both show the same trace."""
    batch = drawn(SEED, SCENARIOS)
    tally = Tally()
    for scenario, trace in zip(batch, originals(batch), strict=True):
        compare_fresh(scenario, trace, tally)
    assert tally.compared + tally.timers_lost == SCENARIOS


@pytest.mark.parametrize("late", [1, 9])
def test_a_difference_counts_if_it_is_there_each_time(
    monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """A busy machine may delay Erlang's timers, in one play but not in all."""
    scenario, trace = recorded()[0]
    plays = iter([[*trace, "late"]] * late + [trace])

    def play_again(_: object) -> list[list[str]]:
        return [next(plays)]

    monkeypatch.setattr(statem_explore, "originals", play_again)
    tally = Tally()
    with nullcontext() if late == 1 else pytest.raises(Mismatch, match="late"):
        compare_fresh(scenario, next(plays), tally)
    assert (tally.compared, tally.played_again) == ((1, 1) if late == 1 else (0, BELIEVED - 1))


LOSES = (
    "handle_event_function",
    False,
    ("a", [("timeout", "x", 0, "zero"), ("next", "w")]),
    [("keep", "same", [("timeout", "x", 5, "late")])],
    [("wait", 26)],
)


def test_a_timeout_that_takes_the_place_of_one_of_zero_is_kept() -> None:
    """Its event comes at its time, where OTP 25 delivers the message of a lost timer."""
    trace, _ = acted(LOSES)
    assert "{{timeout,x},late,a,0}" in trace


@pytest.mark.skipif(erlang_is_missing(), reason="there is no escript: install erlang-base")
@pytest.mark.real_time
@pytest.mark.slow
def test_erlang_still_loses_that_timeout() -> None:
    """The named difference still exists: a later OTP that repairs it fails here."""
    assert loses_a_timer(originals([LOSES])[0])
