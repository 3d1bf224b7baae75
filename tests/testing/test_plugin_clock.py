"""The pytest plugin and the clock: which tests are on it, and what puts them there."""

from __future__ import annotations

import tomllib
from pathlib import Path

import anyio.pytest_plugin
import pytest

from tests.testing.conftest import RunTests

CHECKOUT = Path(__file__).parents[2]
HOUR = """
async def test_hour(mock_clock):
    await asyncio.sleep(3600)
    assert mock_clock.now == asyncio.get_running_loop().time() == 3600
"""
REAL = """
async def test_real():
    assert type(asyncio.get_running_loop()).__module__.startswith("asyncio")
"""
ASYNCIO = "pytestmark = pytest.mark.asyncio\n"
ANYIO = "pytestmark = pytest.mark.anyio\n"


class TestAskingForTheClock:
    @pytest.mark.parametrize(
        ("marker", "ini"),
        [
            (ASYNCIO, {}),
            ("", {"asyncio_mode": "auto"}),
            (ANYIO, {}),
            pytest.param(
                *("", {"anyio_mode": "auto"}),
                marks=pytest.mark.skipif(
                    not hasattr(anyio.pytest_plugin, "pytest_addoption"),
                    reason="this anyio has no modes",
                ),
            ),
            (ANYIO, {"asyncio_mode": "auto"}),
        ],
    )
    def test_the_fixture_is_enough(
        self, run_tests: RunTests, marker: str, ini: dict[str, str]
    ) -> None:
        """An async test that requests `mock_clock` is on it, in each mode of either plugin."""
        run_tests(marker + HOUR + HOUR.replace("_hour", "_two"), **ini).assert_outcomes(passed=2)

    @pytest.mark.parametrize(
        ("marker", "plugin"), [(ASYNCIO, "pytest_asyncio.plugin"), (ANYIO, "anyio.pytest_plugin")]
    )
    def test_neither_plugin_needs_the_other(
        self, run_tests: RunTests, marker: str, plugin: str
    ) -> None:
        """It works where only one of pytest-asyncio and anyio's plugin is there."""
        run_tests(marker + HOUR, plugins=(plugin,)).assert_outcomes(passed=1)

    def test_a_fixture_may_ask_for_it(self, run_tests: RunTests) -> None:
        """A test is on the clock too if a fixture of its own requests it."""
        fixture = "@pytest.fixture\ndef app(mock_clock): return mock_clock\n"
        test = HOUR.replace("(mock_clock)", "(app)").replace("mock_clock", "app")
        run_tests(ASYNCIO + fixture + test).assert_outcomes(passed=1)

    @pytest.mark.parametrize("scope", ["module", "session"])
    def test_the_users_own_backend_does_not_disturb(self, run_tests: RunTests, scope: str) -> None:
        """A project that chose one of anyio's backends still gets the clock."""
        own = f"@pytest.fixture(scope={scope!r})\ndef anyio_backend(): return 'trio'\n"
        run_tests(ANYIO + HOUR, conftest="import pytest\n" + own).assert_outcomes(passed=1)

    def test_a_chosen_backend_gives_way(self, run_tests: RunTests) -> None:
        """A test that names a backend and the clock is on the clock, once."""
        names = "@pytest.mark.parametrize('anyio_backend', ['asyncio', 'trio'])"
        run_tests(ANYIO + names + HOUR).assert_outcomes(passed=1)

    def test_chosen_loops_are_for_the_others(self, run_tests: RunTests) -> None:
        """A test with the clock is on the clock, even if the project chooses its tests' loops."""
        conftest = """
            import asyncio
            def pytest_asyncio_loop_factories():
                return {name: asyncio.SelectorEventLoop for name in ("one", "two")}
        """
        result = run_tests(ASYNCIO + HOUR + REAL, "-v", conftest=conftest)
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["*::test_hour PASSED*", "*::test_real[[]one] PASSED*"])

    def test_it_is_given_to_parametrised_and_property_tests(self, run_tests: RunTests) -> None:
        """Each case of a test, and each example of Hypothesis, is on the clock."""
        run_tests(
            ASYNCIO
            + """
from hypothesis import given, settings, strategies as st, HealthCheck
@pytest.mark.parametrize("seconds", [1, 2])
async def test_case(mock_clock, seconds):
    await asyncio.sleep(seconds * 3600)

@given(hours=st.integers(0, 1000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
async def test_property(mock_clock, hours):
    before = mock_clock.now
    await asyncio.sleep(hours * 3600)
    assert mock_clock.now == before + hours * 3600
"""
        ).assert_outcomes(passed=3)

    def test_it_goes_on_in_a_loop_that_is_shared(self, run_tests: RunTests) -> None:
        """Tests that share a loop of pytest-asyncio share its time; the next loop is at zero."""
        run_tests(
            HOUR.replace("test_", "later_")
            + """
class TestShared:
    pytestmark = pytest.mark.asyncio(loop_scope="class")
    async def test_one(self, mock_clock):
        await asyncio.sleep(5)
    async def test_two(self, mock_clock):
        await asyncio.sleep(5)
        assert mock_clock.now == 10
test_hour = pytest.mark.asyncio(later_hour)
"""
        ).assert_outcomes(passed=3)

    def test_a_pause_ends_with_the_test(self, run_tests: RunTests) -> None:
        """A test that leaves the clock paused disturbs neither its fixtures nor the next test."""
        run_tests(
            """
import pytest_asyncio
@pytest_asyncio.fixture
async def slow():
    yield
    await asyncio.sleep(5)
@pytest.mark.asyncio
async def test_one(slow, mock_clock):
    mock_clock.pause()
"""
            + ASYNCIO
            + HOUR
        ).assert_outcomes(passed=2)

    def test_a_plain_test_runs_it_itself(self, run_tests: RunTests) -> None:
        """A test that is not async gets a clock for `run()`."""
        test = "def test_plain(mock_clock):\n    mock_clock.run(asyncio.sleep(60))\n"
        run_tests(test + "    assert mock_clock.now == 60").assert_outcomes(passed=1)


class TestTheMarker:
    def test_it_stands_for_the_fixture(self, run_tests: RunTests) -> None:
        """A marked test is on the clock without naming it, and `clock="real"` takes it off."""
        run_tests(
            ASYNCIO
            + """
@pytest.mark.otpy
async def test_marked():
    await asyncio.sleep(3600)
@pytest.mark.otpy(clock="real")"""
            + REAL
        ).assert_outcomes(passed=2)

    def test_auto_mode_marks_every_async_test(self, run_tests: RunTests) -> None:
        """With `otpy_mode = auto` async tests are on the clock, unless they are marked real."""
        run_tests(
            ASYNCIO
            + """
async def test_bare():
    await asyncio.sleep(3600)
@pytest.mark.otpy(clock="real")"""
            + REAL,
            otpy_mode="auto",
        ).assert_outcomes(passed=2)

    @pytest.mark.parametrize("wrong", ["'mock'", "clock='wall'", "lekas=False"])
    def test_wrong_words_are_refused(self, run_tests: RunTests, wrong: str) -> None:
        """A marker with unknown words is an error that names the possible ones."""
        result = run_tests(f"@pytest.mark.asyncio\n@pytest.mark.otpy({wrong}){HOUR}")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*test_hour: otpy() takes clock='mock' or 'real'*"])
        result.stdout.no_fnmatch_line("*plugin.py:*")  # the error, and no traceback

    def test_a_wrong_mode_is_refused(self, run_tests: RunTests) -> None:
        """A mode that does not exist ends the run before it begins."""
        result = run_tests("", otpy_mode="always")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*otpy_mode must be one of strict, auto, got 'always'*"])

    @pytest.mark.parametrize(
        "test",
        [
            "@pytest.mark.otpy(clock='real')" + HOUR,
            HOUR.replace("(mock_clock)", "(request)").replace(
                "await", "mock_clock = request.getfixturevalue('mock_clock')\n    await"
            ),
        ],
    )
    def test_a_clock_that_would_not_move_the_test_is_refused(
        self, run_tests: RunTests, test: str
    ) -> None:
        """A test that requests `mock_clock` on a loop that the clock does not drive fails."""
        result = run_tests(ASYNCIO + test)
        result.stdout.fnmatch_lines(["*mock_clock: the test does not run on the mock clock.*"])
        assert result.parseoutcomes().get("passed", 0) == 0


@pytest.mark.slow
class TestBeingInstalled:
    def install(self, folder: Path) -> None:
        """Make `folder` look like one that otpy was installed into."""
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
        metadata = folder / "otpy_tree-0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: otpy-tree\nVersion: 0\n")
        ((name, module),) = project["entry-points"]["pytest11"].items()
        (metadata / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")

    def run(self, pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
        """Run pytest in a process that finds otpy and its entry point."""
        options = ("-o", "asyncio_default_fixture_loop_scope=function", *options)
        options = ("-p", "no:hypothesispytest", *options)
        return pytester.runpytest_subprocess("-Werror", "--strict-markers", *options)

    @pytest.fixture(autouse=True)
    def installed(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the tests of this class have otpy installed."""
        self.install(pytester.path)
        monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{CHECKOUT}")
        monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)

    def test_it_is_found_by_its_entry_point(self, pytester: pytest.Pytester) -> None:
        """After an installation of otpy, the fixtures and the markers need no setting."""
        seeds = "@pytest.mark.otpy_simulate(seeds=[7, 8])" + HOUR.replace("_hour", "_seeded")
        pytester.makepyfile("import asyncio, pytest\n" + ASYNCIO + HOUR + seeds)
        self.run(pytester).assert_outcomes(passed=3)

    def test_it_changes_nothing_for_those_who_do_not_ask(self, pytester: pytest.Pytester) -> None:
        """Tests without it run as before, leaks included; only the plugin's module is imported."""
        pytester.makepyfile(
            "import asyncio, pytest, sys\n"
            + ASYNCIO
            + REAL
            + """
    assert {name for name in sys.modules if name.startswith("otpy.testing.")} == {
        "otpy.testing.plugin"
    }
    asyncio.get_running_loop().kept = asyncio.create_task(asyncio.sleep(60))
"""
        )
        self.run(pytester).assert_outcomes(passed=1)

    def test_a_missing_time_machine_matters_only_to_those_who_ask(
        self, pytester: pytest.Pytester
    ) -> None:
        """Without the extra `test` pytest works; a test that needs it fails and names the extra."""
        pytester.makeconftest("import sys\nsys.modules['time_machine'] = None")
        head = "import asyncio, pytest\n" + ASYNCIO
        pytester.makepyfile(test_asks=head + HOUR, test_does_not=head + REAL)
        result = self.run(pytester, "--continue-on-collection-errors")
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(
            [
                "*ModuleNotFoundError: import of time_machine halted*",
                "*otpy.testing needs the extra `test`: pip install 'otpy-tree[[]test[]]'*",
            ]
        )
