"""otpy under its own simulation: trees, faults and users drawn at random keep every promise."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from otpy.testing import Simulation, simulate
from tests.testing.random_trees import Users, drawn_plan, drawn_supervisor

ROUNDS = int(os.environ.get("OTPY_SIMULATION_ROUNDS", "5"))
"""How often ten seeds are tried; set it to hundreds to search for longer."""


def play(seed: int) -> tuple[Simulation, int]:
    """Run one tree; return what happened and how many requests were made of it."""
    rng = random.Random(seed)
    spec = drawn_supervisor(rng, "app")
    users = Users(seed)

    def until(root: Any) -> Any:
        nonlocal users
        users = Users(seed)  # shrinking runs the same seed again
        return users.drive(root)

    def may_give_up(_: Simulation) -> None:
        """Giving up is what some of these trees are for."""

    plan = drawn_plan(rng, spec)
    return simulate(spec, seed=seed, faults=plan, until=until, check=may_give_up), users.asked


@pytest.mark.parametrize("first", range(0, 10 * ROUNDS, 10))
def test_every_tree_keeps_its_promises(first: int) -> None:
    """Nothing is left, no report is lost, every stop ends in time, whatever is asked of it."""
    for seed in range(first, first + 10):
        play(seed)


def test_the_trees_are_used() -> None:
    """The users get to ask, and the same seed asks the same."""
    played = [play(seed) for seed in range(10)]
    assert sum(asked for _, asked in played) > 100
    assert [simulation.trace for simulation, _ in played[:2]] == [play(n)[0].trace for n in (0, 1)]
