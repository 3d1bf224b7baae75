"""A short soak; the long ones are played by `python -m tests.agents.soak`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.agents.soak.kills import kill_again_and_again
from tests.agents.soak.play import Soak, play


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Log nothing: the errors here are intended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("seed", [1, 2])
def test_an_hour_of_harm_is_accounted_for(seed: int, tmp_path: Path) -> None:
    """Kills of everything, limits, stalls, budgets, two hosts: each assignment once, nothing left.

    Every assignment is done, failed or reaped with a reason, nothing was begun twice at a time, no
    good work was done again, and all books agree (TREE-50, acceptance 12, 13, 18).
    """
    books = play(Soak(seed=seed, hours=1, agents=8, hosts=2), tmp_path)
    assert books.wrong == [], "\n".join(map(str, books.told[-40:]))
    assert books.harm.total() > 30
    assert len(books.stage.sandbox.played) > len(books.plans)


@pytest.mark.long
@pytest.mark.real_time
def test_a_host_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Each program finishes once and is told once; each process, branch and tree has an owner."""
    books = kill_again_and_again(tmp_path, kills=10, seed=1)
    assert books.wrong == []
    assert books.cut > 3


def test_a_seed_is_a_history(tmp_path: Path) -> None:
    """A failure can thus be played again."""
    one, two, other = (
        play(Soak(seed=seed, hours=0.1, agents=3, hosts=1), _made(tmp_path / str(number)))
        for number, seed in enumerate((5, 5, 6))
    )
    assert one.history == two.history != other.history


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
