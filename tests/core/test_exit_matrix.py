"""Section 4: the treatment of a child that ended by itself, by reason and restart type."""

from __future__ import annotations

from itertools import product

import pytest

from otpy import OtpyError
from otpy._core.protocol import Context, Fact
from otpy._core.reason import (
    Abandoned,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    Restart,
    Shutdown,
)
from otpy._core.rules import Verdict, is_clean, is_reported, verdict
from otpy._core.spec import DynamicSpec, Strategy
from tests.core.world import World, child, tree

PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY

# OTP's word, its counterpart here, and whether the reason is clean. A three-tuple and
# `{normal, x}` only look clean; what resembles them here are exceptions with telling names.
REASONS = [
    ("normal", Normal(), True),
    ("shutdown", Shutdown(), True),
    ("{shutdown, x}", Shutdown("x"), True),
    ("{shutdown, a, b}", Crashed(InterruptedError("shutdown", "a", "b")), False),
    ("{normal, x}", Crashed(OtpyError("normal")), False),
    ("killed", Killed(), False),
    ("kill", Crashed(SystemExit("kill")), False),
    ("noproc", Crashed(LookupError("noproc")), False),
    ("error with stack", Crashed(ZeroDivisionError()), False),
    ("refused to end", Abandoned(("main.py:1",)), False),
]

MATRIX = [
    pytest.param(reason, clean, restart, id=f"{restart.value} {word}")
    for (word, reason, clean), restart in product(REASONS, Restart)
]

# (clean, restart type): verdict, reported, counted, spec stays
CELLS = {
    (True, PERMANENT): (Verdict.RESTART, True, True, True),
    (True, TRANSIENT): (Verdict.KEEP, False, False, True),
    (True, TEMPORARY): (Verdict.FORGET, False, False, False),
    (False, PERMANENT): (Verdict.RESTART, True, True, True),
    (False, TRANSIENT): (Verdict.RESTART, True, True, True),
    (False, TEMPORARY): (Verdict.FORGET, True, False, False),
}


def test_the_matrix_has_all_thirty_cells() -> None:
    """Ten reasons times three restart types, as observed on OTP."""
    assert len(MATRIX) == 30
    assert {(clean, restart) for clean, restart in product((True, False), Restart)} == set(CELLS)


@pytest.mark.parametrize(("reason", "clean", "restart"), MATRIX)
def test_the_pure_functions_say_what_becomes_of_it(
    reason: ExitReason, clean: bool, restart: Restart
) -> None:
    """`verdict`, `is_reported` and `is_clean` agree with every observed cell."""
    what, reported, _, _ = CELLS[clean, restart]
    assert is_clean(reason) is clean
    assert verdict(restart, reason) is what
    assert is_reported(restart, reason) is reported


@pytest.mark.parametrize(("reason", "clean", "restart"), MATRIX)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_machine_does_what_becomes_of_it(
    reason: ExitReason, clean: bool, restart: Restart, dynamic: bool
) -> None:
    """Both machines restart, report, count and keep the spec as in every observed cell."""
    what, reported, counted, stays = CELLS[clean, restart]
    spec = child("x", restart=restart)
    if dynamic:
        world = World(DynamicSpec("top")).begin()
        world.add(spec)
        world.add("y")
        stays = stays and what is Verdict.RESTART  # DYN-16: no table of those that do not run
    else:
        world = World(tree(spec, "y")).begin()
    world.forget()
    world.die("x", reason=reason)
    restarts = what is Verdict.RESTART
    assert world.trace == (["die x", "s x"] if restarts else ["die x"])
    assert world.contexts() == ([("x", Context.CHILD_TERMINATED)] if reported else [])
    assert world.restarts_counted() == counted
    assert ("x" in world.children) is stays
    facts = [Fact.EXITED, Fact.RESTARTING, Fact.STARTED] if restarts else [Fact.EXITED]
    assert world.facts() == [("x", fact) for fact in facts]
    assert world.tells[0].reason == reason
    if stays:
        assert world.status("x") == ("running" if restarts else "undefined")
        assert world.children["x"].last_exit == reason
    assert world.status("y") == "running"


@pytest.mark.parametrize(("reason", "clean", "restart"), MATRIX)
def test_without_any_restart_allowed_only_restarts_end_the_supervisor(
    reason: ExitReason, clean: bool, restart: Restart
) -> None:
    """With intensity 0 the supervisor gives up in exactly the cells that restart (SUP-404)."""
    _, _, counted, _ = CELLS[clean, restart]
    world = World(tree(child("x", restart=restart), "y", intensity=0)).begin()
    world.die("x", reason=reason)
    assert (world.finish is not None) is counted


@pytest.mark.parametrize("strategy", ["ONE_FOR_ALL", "REST_FOR_ONE"])
@pytest.mark.parametrize(("reason", "clean", "restart"), MATRIX)
def test_siblings_are_touched_only_by_a_restart(
    reason: ExitReason, clean: bool, restart: Restart, strategy: str
) -> None:
    """A clean transient end and a temporary end leave the siblings of a group alone (SUP-408)."""
    what, _, _, _ = CELLS[clean, restart]
    world = World(tree(child("x", restart=restart), "y", strategy=Strategy[strategy])).begin()
    world.die("x", reason=reason)
    group = ["q y", "z y", "s x", "s y"] if what is Verdict.RESTART else []
    assert world.trace == ["die x", *group]
