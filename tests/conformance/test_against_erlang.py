"""otpy beside a real Erlang: fresh random scenarios, and the recorded ones once more."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.conformance.erlang import Erlang, erlang_is_missing
from tests.conformance.explore import explore

SCENARIOS = int(os.environ.get("OTPY_CONFORMANCE_SCENARIOS") or 50)
SEED = int(os.environ.get("OTPY_CONFORMANCE_SEED") or random.SystemRandom().randrange(10**9))

pytestmark = [
    pytest.mark.skipif(erlang_is_missing(), reason="there is no escript: install erlang-base"),
    pytest.mark.timeout(420),
]


@pytest.fixture
def erlang() -> Iterator[Erlang]:
    """One Erlang machine."""
    with Erlang() as machine:
        yield machine


def test_otpy_does_what_erlang_does(erlang: Erlang) -> None:
    """On scenarios that nobody has seen before, both show the same trace.

    A failure prints the shortest such scenario, both traces, and how to see it again:
    OTPY_CONFORMANCE_SEED makes this test generate the same scenarios once more.
    """
    tally = explore(erlang, SEED, SCENARIOS)
    assert tally.scenarios >= SCENARIOS
