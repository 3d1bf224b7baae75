"""`@pytest.mark.otpy_simulate`: one test per seed, and a line that runs a failing one again."""

from __future__ import annotations

import pytest

_RACE = """
    import pytest
    from tests.testing.toy import unsafe_stop

    @pytest.fixture
    async def clean(mock_clock):
        await mock_clock.advance(1)
        return []

    @pytest.mark.otpy_simulate(seeds=range(40))
    async def test_stop(clean):
        clean.append(1)
        assert clean == [1]
        await unsafe_stop()

    async def test_other():
        pass
"""
_OPTIONS = (
    "-p",
    "otpy.testing.plugin",
    "-n0",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run a test file in this process."""
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess(*_OPTIONS, *options)


def test_a_marked_test_runs_once_per_seed(pytester: pytest.Pytester) -> None:
    """Each seed is a test with fixtures of its own, and others stay as they are."""
    result = run(pytester, _RACE)
    counts = result.parseoutcomes()
    assert counts["failed"] + counts["passed"] == 41
    assert 0 < counts["failed"] < 40


def test_a_failing_seed_is_named_in_one_line_that_runs_it_again(pytester: pytest.Pytester) -> None:
    """The same seed fails again."""
    result = run(pytester, _RACE, "-x")
    lines = [line for line in result.outlines if line.startswith("pytest '")]
    assert len(lines) == 1
    name = lines[0].removeprefix("pytest '").removesuffix("'")
    assert name.startswith("test_a_failing_seed_is_named_in_one_line_that_runs_it_again.py::")
    assert "[seed=" in name
    again = pytester.runpytest_inprocess(*_OPTIONS, name)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*a child was started after the stop*", lines[0]])


def test_anyios_plugin_is_served_too(pytester: pytest.Pytester) -> None:
    """One test per seed, on asyncio only."""
    source = """
        import asyncio
        import pytest
        from otpy.testing import MockClock, SeededClock

        @pytest.mark.anyio
        @pytest.mark.otpy_simulate(seeds=[3, 5])
        async def test_it(mock_clock):
            clock = MockClock.current()
            assert clock is mock_clock
            assert isinstance(clock, SeededClock)
            assert clock.seed in (3, 5)
            await asyncio.sleep(1000)
    """
    run(pytester, source, "-o", "asyncio_mode=strict").assert_outcomes(passed=2)


def test_a_marker_that_cannot_work_is_refused(pytester: pytest.Pytester) -> None:
    """Without seeds, with something else, and on a test that is not async."""
    marks = ["", "(seeds=[])", "(seeds=['x'])", "(5)", "(seeds=[1], more=2)"]
    tests = {
        f"test_{n}": f"""
            import pytest
            @pytest.mark.otpy_simulate{mark}
            async def test_it(): pass
        """
        for n, mark in enumerate(marks)
    }
    tests["test_plain"] = """
        import pytest
        @pytest.mark.otpy_simulate(seeds=[1])
        def test_it(): pass
    """
    pytester.makepyfile(**tests)
    result = pytester.runpytest_inprocess(*_OPTIONS)
    result.assert_outcomes(errors=6)
    told = [line for line in result.outlines if "otpy_simulate takes seeds=, at least one" in line]
    assert len({line.partition(":")[0] for line in told}) == 5
    result.stdout.fnmatch_lines(["*test_plain.py::test_it: otpy_simulate is for async tests"])


@pytest.mark.parametrize("arguments", ["", "mock_clock"])
def test_a_test_that_nobody_would_run_says_what_is_missing(
    pytester: pytest.Pytester, arguments: str
) -> None:
    """In strict mode the mark alone makes no test async; the way out is named, no seed is."""
    source = f"""
        import pytest
        @pytest.mark.otpy_simulate(seeds=range(5))
        async def test_it({arguments}): pass
    """
    result = run(pytester, source, "-o", "asyncio_mode=strict")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*::test_it: otpy_simulate needs*`asyncio` or `anyio`*"])
    result.stdout.no_fnmatch_line("*run it again*")
