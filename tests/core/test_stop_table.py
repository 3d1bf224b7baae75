"""SUP-704: the reasons with which a child may end after its supervisor told it to end."""

from __future__ import annotations

from itertools import product

import pytest

from otpy._core.protocol import Context, Fact, TerminateChild
from otpy._core.reason import (
    Abandoned,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    Restart,
    Shutdown,
)
from otpy._core.rules import is_expected
from otpy._core.spec import BRUTAL_KILL, INFINITY, DynamicSpec
from tests.core.world import World, child, tree

TABLE = [
    # reason, then whether it is silent: asked and permanent, asked and not permanent, then killed
    (Shutdown(), True, True, False, True),
    (Shutdown("x"), False, True, False, True),
    (Normal(), False, True, False, True),
    (Killed(), False, False, True, True),
    (Crashed(RuntimeError()), False, False, False, False),
    (Abandoned(), False, False, False, False),
]

CELLS = [
    pytest.param(
        reason,
        restart,
        brutal,
        silent[2 * brutal + (restart is not Restart.PERMANENT)],
        id=f"{reason} {restart.value} {'brutal_kill' if brutal else 'asked'}",
    )
    for (reason, *silent), restart, brutal in product(TABLE, Restart, [False, True])
]


@pytest.mark.parametrize(("reason", "restart", "brutal", "silent"), CELLS)
def test_the_pure_function_knows_every_cell(
    reason: ExitReason, restart: Restart, brutal: bool, silent: bool
) -> None:
    """`is_expected` agrees with the table."""
    assert is_expected(restart, reason, brutal=brutal) is silent


@pytest.mark.parametrize(("reason", "restart", "brutal", "silent"), CELLS)
@pytest.mark.parametrize("how", ["terminate", "shutdown"])
def test_the_machine_reports_what_the_table_says(
    reason: ExitReason, restart: Restart, brutal: bool, silent: bool, how: str
) -> None:
    """There is one report or none, with the real reason, and the stop succeeds (SUP-706)."""
    spec = child("x", restart=restart, shutdown=BRUTAL_KILL if brutal else INFINITY)
    world = World(tree(spec), ends={"x": reason}).begin()
    if how == "terminate":
        assert world.ask(TerminateChild("ref", "x")).refusal is None
    else:
        world.stop()
        assert world.finish is not None
        assert world.finish.reason == Shutdown()
    assert world.trace == [f"{'k' if brutal else 'q'} x", "z x"]
    assert world.contexts() == ([] if silent else [("x", Context.SHUTDOWN_ERROR)])
    (told,) = (tell for tell in world.tells if tell.fact is Fact.STOPPED)
    assert told.reason == reason


@pytest.mark.parametrize("restart", Restart)
def test_a_child_whose_time_was_over_is_always_reported(restart: Restart) -> None:
    """The child was asked and ended `killed`: a report for every restart type (SUP-705)."""
    world = World(tree(child("x", restart=restart, shutdown=0.0)), ends={"x": Killed()}).begin()
    world.stop()
    assert world.contexts() == [("x", Context.SHUTDOWN_ERROR)]


DYNAMIC = [
    # as above; DYN-15 differs in two cells of four: details are fine, a kill accepts only itself
    (Shutdown(), True, True, False, False),
    (Shutdown("x"), True, True, False, False),
    (Normal(), False, True, False, False),
    (Killed(), False, False, True, True),
    (Crashed(RuntimeError()), False, False, False, False),
    (Abandoned(), False, False, False, False),
]


@pytest.mark.parametrize("brutal", [False, True], ids=["asked", "brutal_kill"])
@pytest.mark.parametrize("restart", Restart)
@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: str(row[0]))
def test_the_dynamic_machine_has_a_table_of_its_own(
    row: tuple[ExitReason, bool, bool, bool, bool], restart: Restart, brutal: bool
) -> None:
    """The table is Elixir's: one report per child, and DYN-15 instead of SUP-704."""
    reason, *silent = row
    spec = child("x", restart=restart, shutdown=BRUTAL_KILL if brutal else INFINITY)
    world = World(DynamicSpec("top"), ends={"x": reason}).begin()
    world.add(spec)
    world.forget()
    world.stop()
    assert world.trace == [f"{'k' if brutal else 'q'} x", "z x"]
    expected = silent[2 * brutal + (restart is not Restart.PERMANENT)]
    assert world.contexts() == ([] if expected else [("x", Context.SHUTDOWN_ERROR)])
