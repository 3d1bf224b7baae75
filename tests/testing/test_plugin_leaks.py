"""The leak check: it names what a test leaves behind, and nothing else."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from otpy.testing import leaks
from tests.testing.conftest import ON_ASYNCIO, RunTests

HEAD = """
import os, socket, subprocess, sys, threading, time
pytestmark = [pytest.mark.asyncio, pytest.mark.otpy(clock="real")]
kept = []
free = threading.Event()

async def loafs():
    await asyncio.Event().wait()

@pytest.fixture(scope="session", autouse=True)
def cleared_away():
    yield
    free.set()
    for thing in kept:
        if isinstance(thing, subprocess.Popen):
            thing.kill()
            thing.wait()
        elif isinstance(thing, threading.Thread):
            thing.join()
        elif isinstance(thing, int):
            os.close(thing)
"""
TASK = "kept.append(asyncio.create_task(loafs(), name='loafer'))"
THREAD = "kept.append(threading.Thread(target=free.wait, name='spinner')); kept[-1].start()"
PROCESS = "kept.append(subprocess.Popen(['sleep', '60']))"
ZOMBIE = (
    "kept.append(subprocess.Popen(['true']));"
    " os.waitid(os.P_PID, kept[0].pid, os.WEXITED | os.WNOWAIT)"
)
DESCRIPTOR = "kept.append(os.open(__file__, os.O_RDONLY))"
LEAKS = [TASK, THREAD, PROCESS, DESCRIPTOR]


def in_test(leak: str, fixtures: str = "") -> str:
    """Return a test that leaves something behind."""
    # The next one keeps the fixture of the session from clearing away before the check.
    return f"{HEAD}\nasync def test_it({fixtures}):\n    {leak}\nasync def test_next(): pass\n"


class TestWhatIsLeftOver:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wait for nothing to end: what these tests leave behind never does."""
        monkeypatch.setattr(leaks, "PATIENCE", 0.0)

    @pytest.mark.parametrize(
        ("leak", "lines"),
        [
            (TASK, ["*: task loafer, which is at", "  loafs (*test_*.py:*)", "  Event.wait (*)"]),
            (THREAD, ["*: thread spinner, which is at", "*Event.wait (*"]),
            (PROCESS, ["*: process *: sleep 60"]),
            (ZOMBIE, ["*: process *: ended, never waited for"]),
            (DESCRIPTOR, ["*: open descriptor *: /*/test_*.py"]),
        ],
        ids=["task", "thread", "process", "zombie", "descriptor"],
    )
    def test_it_fails_the_test_and_is_named(
        self, run_tests: RunTests, leak: str, lines: list[str]
    ) -> None:
        """Each kind is named with a hint to its origin; the next test is fine."""
        result = run_tests(in_test(leak))
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["*ERROR at teardown of test_it*", *lines])

    @pytest.mark.parametrize("leak", LEAKS)
    def test_tests_on_the_mock_clock_are_checked(self, run_tests: RunTests, leak: str) -> None:
        """A test that requests a fixture of the plugin is checked, without any marker."""
        source = in_test(leak, "mock_clock").replace(', pytest.mark.otpy(clock="real")', "")
        run_tests(source).assert_outcomes(passed=2, errors=1)

    @pytest.mark.parametrize("leak", LEAKS)
    def test_tests_of_anyio_are_checked(self, run_tests: RunTests, leak: str) -> None:
        """Leaks under anyio's plugin are found as well."""
        source = in_test(leak, "mock_clock").replace("mark.asyncio", "mark.anyio")
        source = source.replace(', pytest.mark.otpy(clock="real")', "")
        run_tests(source, conftest=ON_ASYNCIO).assert_outcomes(passed=2, errors=1)

    @pytest.mark.parametrize("leak", [THREAD, DESCRIPTOR])
    def test_plain_tests_are_checked(self, run_tests: RunTests, leak: str) -> None:
        """A test that is not async is checked too if it asks for it."""
        source = (
            in_test(leak)
            .replace("pytest.mark.asyncio, ", "")
            .replace("async def test_", "def test_")
        )
        run_tests(source).assert_outcomes(passed=2, errors=1)

    def test_a_fixture_of_the_test_is_checked(self, run_tests: RunTests) -> None:
        """A function-scoped fixture must close what it opens."""
        fixture = f"@pytest.fixture\ndef opened():\n    {DESCRIPTOR}\n"
        run_tests(
            HEAD + fixture + "async def test_it(opened): pass\nasync def test_next(): pass"
        ).assert_outcomes(passed=2, errors=1)

    def test_a_task_in_a_shared_loop_is_found(self, run_tests: RunTests) -> None:
        """A task is left over also if its loop goes on after the test."""
        source = in_test(TASK).replace("mark.asyncio", "mark.asyncio(loop_scope='module')")
        result = run_tests(source)
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["*: task loafer, which is at"])

    def test_an_abandoned_child_is_found(self, run_tests: RunTests) -> None:
        """A child that refuses to stop is left over when its tree has stopped."""
        result = run_tests(
            HEAD.replace('otpy(clock="real")', "otpy")
            + """
async def stubborn():
    while not free.is_set():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if kept:
                raise
async def test_it(supervisor_tree, at_last):
    await supervisor_tree(SupervisorSpec("app", [ChildSpec("mule", stubborn)]), hooks=())
    await asyncio.sleep(0)

@pytest.fixture
async def at_last():
    yield
    kept.append("enough")
""",
            asyncio_mode="auto",
        )
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(["*: task app/mule, which is at"])


class TestWhatMayStay:
    def test_a_thread_has_its_time_to_end_after_a_long_collection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A collection of a big program's objects holds every thread up for a second and more."""
        known, may_end, passed = leaks.Snapshot.take(), threading.Event(), [0.0]
        thread = threading.Thread(target=may_end.wait)

        def sleep(seconds: float) -> None:
            may_end.set()
            thread.join()

        clock = SimpleNamespace(monotonic=lambda: sum(passed), sleep=sleep)
        monkeypatch.setattr(leaks, "time", clock)
        collector = SimpleNamespace(collect=lambda: passed.append(2 * leaks.PATIENCE))
        monkeypatch.setattr(leaks, "gc", collector)
        thread.start()
        assert leaks.left_over(known) == []

    @pytest.mark.parametrize("leak", LEAKS)
    def test_whoever_says_so_may_leave_things_behind(self, run_tests: RunTests, leak: str) -> None:
        """`leaks=False` switches the check off."""
        source = in_test(leak).replace('clock="real"', 'clock="real", leaks=False')
        run_tests(source).assert_outcomes(passed=2)

    def test_a_failing_test_is_not_blamed_for_more(self, run_tests: RunTests) -> None:
        """A test that failed could not clean up, so its leaks are not reported."""
        source = in_test(f"{TASK}; {DESCRIPTOR}; pytest.fail('first')")
        run_tests(source).assert_outcomes(passed=1, failed=1)

    @pytest.mark.parametrize("scope", ["session", "module"])
    @pytest.mark.parametrize("ask", ["shared", "request"])
    def test_shared_fixtures_keep_what_they_have(
        self, run_tests: RunTests, scope: str, ask: str
    ) -> None:
        """The resources of a shared fixture are not a leak of the test that needed it first."""
        leaks = f"{THREAD}; {PROCESS}; {DESCRIPTOR}"
        dynamic = "request.getfixturevalue('shared')" if ask == "request" else "pass"
        run_tests(
            f"{HEAD}\n@pytest.fixture(scope={scope!r})\ndef shared(cleared_away):\n    {leaks}\n"
            f"async def test_it(tmp_path, {ask}):\n    {dynamic}\n"
        ).assert_outcomes(passed=1)

    @pytest.mark.parametrize("mark", ["asyncio", "anyio"])
    @pytest.mark.parametrize("clock", ["mock", "real"])
    def test_what_a_fixture_ends_is_not_left_over(
        self, run_tests: RunTests, mark: str, clock: str
    ) -> None:
        """A test may leave clean-up to its fixtures, for tasks too."""
        run_tests(
            HEAD.replace("mark.asyncio", f"mark.{mark}").replace("real", clock)
            + """
@pytest.fixture
async def started():
    things = []
    yield things
    for task in things:
        task.cancel()
    await asyncio.wait(things)

@pytest.fixture
def opened(monkeypatch):
    things = []
    yield things
    os.close(things[0])

async def test_it(started, opened):
    started.append(asyncio.create_task(loafs()))
    opened.append(os.open(__file__, os.O_RDONLY))
    asyncio.create_task(asyncio.sleep(0))
""",
            conftest=ON_ASYNCIO,
            asyncio_mode="auto" if mark == "asyncio" else "strict",
        ).assert_outcomes(passed=1)

    @pytest.mark.parametrize("scope", ["function", "module"])
    def test_pools_of_the_loop_stay_as_long_as_the_loop(
        self, run_tests: RunTests, scope: str
    ) -> None:
        """Threads of `asyncio.to_thread` and of anyio are not leaks."""
        run_tests(
            HEAD.replace("mark.asyncio", f"mark.asyncio(loop_scope={scope!r})")
            + """
import anyio
async def test_it():
    await asyncio.to_thread(int)
    await anyio.to_thread.run_sync(int)
"""
        ).assert_outcomes(passed=1)

    def test_pythons_own_helpers_stay(self, run_tests: RunTests) -> None:
        """The one helper process of multiprocessing is not a leak, nor is its pipe."""
        result = run_tests(
            HEAD
            + """
from multiprocessing import resource_tracker
async def test_it():
    resource_tracker._resource_tracker = resource_tracker.ResourceTracker()
    kept.append(resource_tracker._resource_tracker)
    kept[-1].ensure_running()
async def test_next():
    kept[-1]._stop()
"""
        )
        result.assert_outcomes(passed=2)

    def test_what_ends_at_once_is_waited_for(self, run_tests: RunTests) -> None:
        """A thread or process that ends right after the test is given a moment."""
        run_tests(
            in_test(
                "threading.Timer(0.05, int).start(); subprocess.Popen(['true']).wait();"
                " asyncio.create_task(asyncio.sleep(0))"
            )
        ).assert_outcomes(passed=2)

    def test_what_only_a_cycle_keeps_open_is_no_leak(self, run_tests: RunTests) -> None:
        """Garbage that has not been collected yet does not count."""
        leak = "files = [open(__file__)]; files.append(files)"
        run_tests(in_test(leak), "-Wignore").assert_outcomes(passed=2)
