"""Pytest's output for a failed assertion of otpy: the line of the test, and the difference."""

from __future__ import annotations

from tests.testing.conftest import RunTests

_TESTS = """
from otpy.testing import *

spec = otpy.SupervisorSpec("app", [otpy.ChildSpec("a", asyncio.Event().wait)])

def on_a_clock(look):
    async def scenario():
        async with otpy.start(spec, hooks=()) as root:
            look(root)
    MockClock().run(scenario())

def test_tree():
    on_a_clock(lambda root: assert_tree(root, "app"))

def test_restarted():
    on_a_clock(lambda root: assert_restarted("app/a", times=1))

def test_restarted_unknown():
    on_a_clock(lambda root: assert_restarted("app/b", times=1))

def test_reports():
    assert_reports([], "app/a started")

def test_simulate():
    simulate(spec, seed=1, check=lambda simulation: 1 / 0)

def test_settled():
    async def scenario():
        async with otpy.start(spec, hooks=()) as root:
            asyncio.create_task(turn())
            await settled(root, timeout=0)
    async def turn():
        while True:
            await asyncio.sleep(0)
    MockClock().run(scenario())
"""


def test_pytest_shows_the_line_of_the_test_and_nothing_of_ours(run_tests: RunTests) -> None:
    """An assertion ends the traceback where the test calls it; otpy's own code is no help."""
    result = run_tests(_TESTS, plugins=())
    result.assert_outcomes(failed=6)
    for module in ("drawing", "restarted", "recording", "simulation", "settling"):
        result.stdout.no_fnmatch_line(f"*otpy/testing/{module}.py:*")
    result.stdout.fnmatch_lines(["*app/a was restarted 0 times, not 1:"])
