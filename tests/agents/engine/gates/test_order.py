"""The order of gates, for all graphs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.engine.gates import Gate, gate_stages
from otpy_agents.engine.gates.order import due_gates, needed_gates
from otpy_agents.errors import GateCycle, UnknownGate

NAMES = tuple("abcdefg")


@st.composite
def graphs(draw: st.DrawFn, *, circles: bool = False) -> dict[str, Gate]:
    """Gates that depend on each other."""
    gates: dict[str, Gate] = {}
    for place, name in enumerate(NAMES):
        others = NAMES if circles else NAMES[:place]
        needed = draw(st.lists(st.sampled_from(others), unique=True, max_size=3)) if others else []
        gates[name] = Gate(
            name=name,
            command=("true",),
            depends_on=tuple(needed),
            parallel_safe=draw(st.booleans()),
        )
    order = draw(st.permutations(NAMES))
    return {name: gates[name] for name in order}


wishes = st.lists(st.sampled_from(NAMES), max_size=4)


@given(graphs(), wishes)
def test_each_gate_comes_once_behind_all_that_it_depends_on(
    gates: dict[str, Gate], wanted: list[str]
) -> None:
    """Each gate comes as early as possible, and only wanted gates and their dependencies come."""
    stages = gate_stages(gates, wanted)
    place = {name: number for number, stage in enumerate(stages) for name in stage}
    assert sum(map(len, stages)) == len(place)
    needed = {one for name in place for one in gates[name].depends_on}
    assert set(place) == {*wanted, *needed}
    for name, number in place.items():
        assert number == max((place[one] + 1 for one in gates[name].depends_on), default=0)


@given(graphs(circles=True))
def test_a_circle_is_refused_with_its_path(gates: dict[str, Gate]) -> None:
    """Each of the path depends on the next, and the last is the first."""
    try:
        stages = gate_stages(gates, gates)
    except GateCycle as error:
        path = error.path
    else:
        assert sum(map(len, stages)) == len(gates)
        return
    assert path[0] == path[-1]
    for name, needed in pairwise(path):
        assert needed in gates[name].depends_on


@given(graphs(), wishes, st.integers(1, 3), st.data())
def test_whatever_ends_first_all_are_run_once_and_those_alone_that_want_it(
    gates: dict[str, Gate], wanted: list[str], most: int, data: st.DataObject
) -> None:
    """ENG-30: gates run in parallel where allowed, and the run never gets stuck."""
    chosen = needed_gates(gates, wanted)
    running: list[str] = []
    done: set[str] = set()
    while len(done) < len(chosen):
        for gate in due_gates(chosen, done, running, most):
            assert gate.name not in done
            assert done.issuperset(gate.depends_on)
            running.append(gate.name)
        assert 0 < len(running) <= most
        assert len(running) == 1 or all(gates[name].parallel_safe for name in running)
        ended = data.draw(st.sampled_from(running))
        running.remove(ended)
        done.add(ended)
    assert not running


def test_a_gate_that_there_is_not_is_named() -> None:
    """The error lists the known gates."""
    with pytest.raises(UnknownGate, match="got 'nope', wanted one of a, b"):
        gate_stages({name: Gate(name=name, command=("x",)) for name in "ab"}, ["a", "nope"])
