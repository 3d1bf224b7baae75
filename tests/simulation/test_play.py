"""otpy under its own simulation: random trees, faults and users keep every promise."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from otpy._core.effects import Effects
from otpy._core.machine import SupervisorMachine
from otpy._core.statem import Machine
from otpy._core.stopping import Stopping
from otpy._runtime import operations
from otpy._runtime import process as processes
from otpy._runtime.deadlines import Deadlines
from otpy._runtime.leftovers import Leftovers
from otpy._runtime.tree import Tree
from otpy.behaviours.mailbox import Mailbox
from otpy.behaviours.server import Server
from otpy.behaviours.statem_callbacks import StatemCallbacks
from otpy.testing import SimulationFailed, schedule
from tests.simulation.explore import Search, main
from tests.simulation.play import Play

FOUND = [
    119,  # an exit from a hook was lost, because the host was cancelled at the same time
    224,  # a child was abandoned, although it had seen only one cancellation
    377,  # a user's coroutine was closed, because it had caught a child's error
    580,  # a wait that a fault ended left its waiter behind
    2807,  # the clean-up of a stream needed one cancellation more than a child gets
]
"""Seeds that have shown a defect of otpy. Each has a test of its own beside the code too."""


@pytest.fixture
def frozen() -> Generator[None]:
    """Let the collector ignore every object that is older than the test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_every_tree_keeps_its_promises(first: int) -> None:
    """Nothing is left, no report is lost, and every stop ends in time, whatever the users do."""
    for seed in range(first, first + 10):
        Play(seed)()


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_repaired(seed: int) -> None:
    """A seed that has shown a defect once shows none any more."""
    Play(seed)()


def test_what_listeners_miss_happens_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decisions of otpy do not depend on listeners; a simulation without any shows a defect."""
    right = SupervisorMachine.exited

    def wrong(machine: Any, *news: Any) -> Any:
        if not machine._out.audience:
            machine._stops.rotate(1)
        return right(machine, *news)

    monkeypatch.setattr(SupervisorMachine, "exited", wrong)
    with pytest.raises(SimulationFailed, match="unheard"):
        for seed in range(0, 300, 3):
            Play(seed)()


def test_the_trees_are_used() -> None:
    """The users make requests, and the same seed makes the same ones."""
    plays = [Play(seed) for seed in range(20)]
    traces = [play().trace for play in plays]
    assert sum(play.asked for play in plays) > 50
    assert [Play(seed)().trace for seed in range(3)] == traces[:3]


def test_memory_returns_to_where_it_was(frozen: None) -> None:
    """Ended trees leave nothing in memory."""
    search = Search()
    for _ in range(2):
        assert list(search.run(range(30))) == []
        search.check_memory()


def _never(*_: object, **__: object) -> None:
    """Stand for a forgotten operation."""


def _at_once(tree: Any, do: Callable[..., None], *args: object) -> bool:
    """Stand for an order that runs on the stack of its caller."""
    tree.enqueue(do, *args)
    return True


_FINISH = Machine._finish


def _backwards(machine: Any, transition: Any) -> object:
    """Stand for postponed events that come back in another order."""
    machine._postponed.reverse()
    return _FINISH(machine, transition)


# Objects that a defect fails to close also produce warnings.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "what", "instead"),
    [
        (Effects, "count", _never),
        (Deadlines, "clear", _never),
        (SupervisorMachine, "_close", _never),
        (Server, "ended", _never),
        (processes, "release", _never),
        (operations, "check_loop", _never),
        (Stopping, "_reply_failed", _never),
        (Mailbox, "_rouse", _never),
        (Leftovers, "refused", _never),
        (Tree, "interrupt", _never),
        (Tree, "_complain", _never),
        (Tree, "order", _at_once),
        (StatemCallbacks, "terminate", _never),
        (Machine, "_finish", _backwards),
    ],
)
def test_a_defect_does_not_stay_hidden(
    monkeypatch: pytest.MonkeyPatch, where: Any, what: str, instead: Callable[..., object]
) -> None:
    """If otpy forgets an operation, one of a few hundred seeds shows it."""
    monkeypatch.setattr(where, what, instead)
    monkeypatch.setattr(schedule, "MOST_TURNS", 10_000)  # of a tree that restarts for ever
    with pytest.raises(SimulationFailed):
        for seed in range(600):
            Play(seed)()


def test_the_search_tells_what_it_did(capsys: pytest.CaptureFixture[str], frozen: None) -> None:
    """It ends with status 0 if every seed has passed, and prints their number."""
    assert main(["--seeds", "0-4"]) == 0
    assert capsys.readouterr().out.startswith("5 seeds, ")


def test_the_search_names_the_seed_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with status 1, and prints the command that shows the failure again."""
    monkeypatch.setattr(Deadlines, "clear", _never)
    assert main(["--seeds", "0-99"]) == 1
    assert "again: python -m tests.simulation.explore --seeds " in capsys.readouterr().out


def test_a_tally_is_kept_of_all_seeds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It goes on after a failed seed, names it in the file, and prints nothing."""
    file = tmp_path / "tally.txt"
    assert main(["--seeds", "0-4", "--tally", str(file)]) == 0
    assert re.fullmatch(r"5 seeds, .* s; none broken; all played\n", file.read_text())
    monkeypatch.setattr(Deadlines, "clear", _never)
    assert main(["--seeds", "0-9", "--tally", str(file)]) == 1
    first, *failed = file.read_text().splitlines()
    assert first.startswith("10 seeds, ")
    assert f"; {len(failed)} broke a promise; all played" in first
    assert all(re.match(r"\d: \w+: ", line) for line in failed)
    assert capsys.readouterr().out == ""


def test_the_search_can_be_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends it, and it still prints its results."""

    def stop(_: Play) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Play, "__call__", stop)
    assert main(["--seeds", "7"]) == 130
    assert "Ctrl-C" in capsys.readouterr().out
