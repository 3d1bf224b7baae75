"""otpy beside a real Erlang: fresh random scenarios, and the recorded ones again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conformance.erlang import Erlang, erlang_is_missing
from tests.conformance.explore import explore

SCENARIOS = int(os.environ.get("OTPY_CONFORMANCE_SCENARIOS") or 50)
SEED = int(os.environ.get("OTPY_CONFORMANCE_SEED") or 1)

pytestmark = [
    pytest.mark.skipif(erlang_is_missing(), reason="there is no escript: install erlang-base"),
    pytest.mark.timeout(420 + SCENARIOS // 4),
]


@pytest.fixture
def erlang() -> Iterator[Erlang]:
    """Yield one Erlang machine."""
    with Erlang() as machine:
        yield machine


def test_otpy_does_what_erlang_does(erlang: Erlang) -> None:
    """On generated scenarios, both show the same trace.

    OTPY_CONFORMANCE_SEED chooses the scenarios; CI takes fresh ones each time. A failure prints the
    shortest scenario, both traces, and how to repeat it.
    """
    tally = explore(erlang, SEED, SCENARIOS)
    assert tally.scenarios >= SCENARIOS
