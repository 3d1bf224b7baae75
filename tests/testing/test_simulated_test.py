"""`@pytest.mark.otpy_simulate`: one test per seed, and a line that repeats a failing one."""

from __future__ import annotations

import anyio.pytest_plugin
import pytest

from tests.testing.conftest import RunTests

_AUTO = {"asyncio_mode": "auto"}
# The oldest anyio we allow has no mode of its own to choose: pytest would refuse the word.
_ANYIO_AUTO = (
    [("filterwarnings('error')", {"anyio_mode": "auto"})]
    if hasattr(anyio.pytest_plugin, "pytest_addoption")
    else []
)
_RACE = """
from tests.testing.toy import unsafe_stop

@pytest.fixture
async def clean():
    return []

@pytest.mark.otpy_simulate(seeds=range(40))
async def test_stop(clean):
    clean.append(1)
    assert clean == [1]
    await unsafe_stop()

async def test_other():
    assert type(asyncio.get_running_loop()).__module__.startswith("asyncio")
"""
_CLOCK = """
from otpy.testing import MockClock, SeededClock

@pytest.mark.otpy_simulate(seeds=[3, 5])
async def test_seed(mock_clock):
    assert MockClock.current() is mock_clock
    assert isinstance(mock_clock, SeededClock)
    assert mock_clock.seed in (3, 5)
    await asyncio.sleep(1000)
    assert mock_clock.now == 1000

async def test_mock(mock_clock):
    assert type(mock_clock) is MockClock
"""


def test_a_marked_test_runs_once_per_seed(run_tests: RunTests) -> None:
    """Each seed is a test with fixtures of its own, and others stay as they are."""
    counts = run_tests(_RACE, **_AUTO).parseoutcomes()
    assert counts["failed"] + counts["passed"] == 41
    assert 0 < counts["failed"] < 40


def test_a_failing_seed_is_named_in_one_line_that_runs_it_again(run_tests: RunTests) -> None:
    """The same seed fails again."""
    result = run_tests(_RACE, "-x", **_AUTO)
    lines = [line for line in result.outlines if line.startswith("pytest '")]
    assert len(lines) == 1
    name = lines[0].removeprefix("pytest '").removesuffix("'")
    assert name.startswith("test_a_failing_seed_is_named_in_one_line_that_runs_it_again.py::")
    assert "[seed=" in name
    again = run_tests(_RACE, name, **_AUTO)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*a child was started after the stop*", lines[0]])


@pytest.mark.parametrize(
    ("marker", "ini"),
    [
        ("asyncio", {}),
        ("asyncio", {"otpy_mode": "auto"}),
        ("filterwarnings('error')", {"asyncio_mode": "auto"}),
        ("filterwarnings('error')", {"asyncio_mode": "auto", "otpy_mode": "auto"}),
        *_ANYIO_AUTO,
        ("anyio", {}),
        ("anyio", {"otpy_mode": "auto"}),
    ],
)
def test_every_mode_of_either_plugin_gives_the_loop_and_its_clock(
    run_tests: RunTests, marker: str, ini: dict[str, str]
) -> None:
    """One test per seed, on asyncio only; `mock_clock` is the clock of that seed."""
    result = run_tests(f"pytestmark = pytest.mark.{marker}\n{_CLOCK}", **ini)
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("marker", "plugin"),
    [("asyncio", "pytest_asyncio.plugin"), ("anyio", "anyio.pytest_plugin")],
)
def test_neither_plugin_needs_the_other(run_tests: RunTests, marker: str, plugin: str) -> None:
    """It works where only one of pytest-asyncio and anyio's plugin is there."""
    source = f"pytestmark = pytest.mark.{marker}\n{_CLOCK}"
    run_tests(source, plugins=(plugin,)).assert_outcomes(passed=3)


def test_a_test_that_nobody_would_run_on_its_seed_fails(run_tests: RunTests) -> None:
    """In strict mode a test without the marker of a plugin fails with the missing piece named."""
    result = run_tests(_CLOCK.replace("(mock_clock)", "()"))
    result.stdout.fnmatch_lines(["*otpy_simulate: nobody runs the test on a simulated loop.*"])
    assert result.parseoutcomes().get("passed", 0) == 0


_LEAK = """
@pytest.mark.otpy_simulate(seeds=range(3))
async def test_leak():
    asyncio.get_running_loop().kept = asyncio.create_task(asyncio.sleep(60), name="courier")
"""
_CRASH = """
async def broken(*, task_status):
    task_status.started()
    await asyncio.sleep(5)
    raise OSError("no contact")

@pytest.mark.otpy_simulate(seeds=range(3))
async def test_crash(supervisor_tree):
    await supervisor_tree(SupervisorSpec("app", [ChildSpec("db", broken)]), hooks=())
    await asyncio.sleep(6)
"""


def test_what_a_simulated_test_leaves_behind_fails_it(run_tests: RunTests) -> None:
    """Each seed is checked for leaks like any other test of otpy, and the error names its line."""
    result = run_tests(_LEAK, **_AUTO)
    result.assert_outcomes(passed=3, errors=3)
    result.stdout.fnmatch_lines(["*left over after the test: task courier*", "pytest '*seed=*"])


def test_leaks_may_be_left_out_of_a_simulation(run_tests: RunTests) -> None:
    """The marker that switches the check off holds for simulated tests too."""
    run_tests("@pytest.mark.otpy(leaks=False)" + _LEAK, **_AUTO).assert_outcomes(passed=3)


def test_a_task_that_ends_late_by_chance_is_not_left_over(run_tests: RunTests) -> None:
    """A cancelled task has time to end, for as long as any seed delays it."""
    source = """
@pytest.mark.otpy_simulate(seeds=range(60))
async def test_late():
    async def slow():
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
    task = asyncio.create_task(slow())
    await asyncio.sleep(1)
    task.cancel()
"""
    run_tests(source, **_AUTO).assert_outcomes(passed=60)


def test_a_crash_that_was_not_expected_fails_every_seed(run_tests: RunTests) -> None:
    """Trees of `supervisor_tree` are stopped after each seed, and their crashes accounted for."""
    result = run_tests(_CRASH, **_AUTO)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*app/db crashed in its life 1*"])
    expected = _CRASH.replace("hooks=()", "hooks=(), crashes='app/db'")
    run_tests(expected, **_AUTO).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        ("", "otpy_simulate takes seeds=, at least one whole number"),
        ("(seeds=[])", "otpy_simulate takes seeds=, at least one whole number"),
        ("(seeds=['x'])", "otpy_simulate takes seeds=, at least one whole number"),
        ("(5)", "otpy_simulate takes seeds=, at least one whole number"),
        ("(seeds=[1], more=2)", "otpy_simulate takes seeds=, at least one whole number"),
        ("(seeds=[1])\n@pytest.mark.otpy(clock='real')", "otpy_simulate has no use for clock="),
    ],
)
def test_a_marker_that_cannot_work_is_refused(run_tests: RunTests, marks: str, told: str) -> None:
    """The marker lacks seeds, has other words, or names a clock that is not simulated."""
    result = run_tests(f"@pytest.mark.otpy_simulate{marks}\nasync def test_it(): pass", **_AUTO)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*::test_it: {told}*"])


def test_a_test_that_is_not_async_is_refused(run_tests: RunTests) -> None:
    """A test without async code has no order to draw."""
    source = "@pytest.mark.otpy_simulate(seeds=[1])\ndef test_it(): pass"
    result = run_tests(source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*::test_it: otpy_simulate is for async tests"])
