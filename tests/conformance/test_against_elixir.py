"""otpy beside a real Elixir, with the recorded scenarios played again."""

from __future__ import annotations

import pytest

from tests.conformance.elixir_differences import alike
from tests.conformance.elixir_player import play
from tests.conformance.erlang import ELIXIR, Erlang, elixir_is_missing
from tests.conformance.record import ELIXIR_BOOKS
from tests.conformance.trace import side_by_side

pytestmark = [
    pytest.mark.skipif(elixir_is_missing(), reason="there is no elixir: install its package"),
    pytest.mark.timeout(240),
]


def test_otpy_does_what_elixir_does() -> None:
    """On every hand-written scenario, both show the same trace."""
    with Erlang(ELIXIR) as elixir:
        for cases in ELIXIR_BOOKS.values():
            for case in cases:
                elixir.begin(case.scenario)
                ours = play(case.scenario)
                theirs, ours = alike(case.scenario, elixir.finish(), ours)
                shown = f"{case.scenario}\n{side_by_side(theirs, ours, 'ELIXIR')}"
                assert theirs == ours, f"\n{case.name}, Elixir {elixir.version}\n{shown}"
