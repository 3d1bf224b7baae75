"""The fixture `supervisor_tree`: how long its trees live, and what a crash in them means."""

from __future__ import annotations

import pytest

from tests.testing.conftest import RunTests

CHILDREN = """
pytestmark = pytest.mark.asyncio
log = []

async def waits(name=None):
    try:
        await asyncio.Event().wait()
    finally:
        log.append(name)

async def crashes():
    await asyncio.sleep(60)
    raise OSError("no contact")

async def unclean():
    try:
        await asyncio.Event().wait()
    finally:
        raise OSError("no contact")

async def unready():
    raise OSError("no contact")

def tree(*starts, name="app", **options):
    ids = [start.__name__ for start in starts]
    return SupervisorSpec(name, [ChildSpec(*both) for both in zip(ids, starts)], **options)
"""
GIVES_UP = "otpy.SupervisorFailed: app/crashes: app gave up: more than 0 restarts in 5 s"


class TestTheLifeOfATree:
    def test_it_is_stopped_when_the_test_function_ends(self, run_tests: RunTests) -> None:
        """Trees stop after the test function, the latest first, and before its fixtures end."""
        run_tests(
            CHILDREN
            + """
def named(name):
    return SupervisorSpec(name, [ChildSpec("waits", waits, args=(name,))])

@pytest.fixture
async def first(supervisor_tree):
    yield await supervisor_tree(named("first"), hooks=())
    assert log == ["third", "second", "first"]

async def test_three(first, supervisor_tree, mock_clock):
    await supervisor_tree(named("second"), hooks=())
    await supervisor_tree(DynamicSupervisor.spec("pool"), hooks=())
    root = await supervisor_tree(named("third"), hooks=())
    assert root.child("waits").alive and first.child("waits").alive
    assert log == []
    mock_clock.pause()
""",
            asyncio_mode="auto",
        ).assert_outcomes(passed=1)

    def test_it_is_stopped_although_the_test_failed(self, run_tests: RunTests) -> None:
        """A failing test leaves no tree behind, and its own failure is shown."""
        result = run_tests(
            CHILDREN
            + """
async def test_fails(supervisor_tree):
    await supervisor_tree(tree(waits), hooks=())
    assert log

async def test_then():
    assert log == [None]
"""
        )
        result.assert_outcomes(failed=1, passed=1)
        result.stdout.fnmatch_lines(["E       assert []"])

    def test_a_tree_that_does_not_start_raises_where_it_was_asked_for(
        self, run_tests: RunTests
    ) -> None:
        """The caller gets the error, and the test passes."""
        run_tests(
            CHILDREN
            + """
async def test_unready(supervisor_tree, mock_clock):
    async def unready(*, task_status):
        raise OSError("no contact")
    with pytest.raises(otpy.errors.TreeStartFailed):
        await supervisor_tree(tree(waits, unready), hooks=())
    with pytest.raises(InvalidSpec):
        await supervisor_tree("app")
    with pytest.raises(TimeoutError):
        async def slow(*, task_status):
            await asyncio.Event().wait()
        async with asyncio.timeout(1):
            await supervisor_tree(tree(waits, slow), hooks=())
    assert log == [None, None]
"""
        ).assert_outcomes(passed=1)

    @pytest.mark.parametrize("options", ["", ", hooks=[seen.append]"])
    def test_hooks_are_those_of_start(self, run_tests: RunTests, options: str) -> None:
        """Reports are logged, unless a hook gets them."""
        result = run_tests(
            CHILDREN
            + f"""
seen = []
async def test_hooks(supervisor_tree, mock_clock):
    await supervisor_tree(tree(crashes), crashes="**"{options})
    await mock_clock.advance(90)
    pytest.fail(f"seen {{len(seen) > 0}}")
"""
        )
        result.stdout.fnmatch_lines([f"*seen {bool(options)}"])
        assert ("child.exited" in result.stdout.str()) is not bool(options)

    @pytest.mark.parametrize(
        ("mark", "clock"), [("asyncio", "mock"), ("asyncio", "real"), ("anyio", "mock")]
    )
    def test_a_root_that_gives_up_fails_the_test(
        self, run_tests: RunTests, mark: str, clock: str
    ) -> None:
        """The test is interrupted where it waits, and fails with the root's error, once."""
        result = run_tests(
            CHILDREN.replace("sleep(60)", "sleep(0.01)").replace("mark.asyncio", f"mark.{mark}")
            + f"""
@pytest.fixture
async def after():
    yield
    await asyncio.sleep(0)

@pytest.mark.otpy(clock={clock!r})
async def test_waits(supervisor_tree, after):
    await supervisor_tree(tree(crashes, intensity=0), hooks=())
    await asyncio.Event().wait()  # here

@pytest.mark.otpy(clock={clock!r})
async def test_then():
    await asyncio.sleep(0)
""",
            asyncio_mode="auto" if mark == "asyncio" else "strict",
        )
        result.assert_outcomes(failed=1, passed=1)
        result.stdout.fnmatch_lines(
            ["*OSError: no contact", ">       await asyncio.Event().wait()  # here", f"*{GIVES_UP}"]
        )

    def test_a_root_may_give_up_before_the_test_begins(self, run_tests: RunTests) -> None:
        """A test whose fixture's tree has already failed does not begin."""
        result = run_tests(
            CHILDREN
            + """
@pytest.fixture
async def app(supervisor_tree):
    await supervisor_tree(tree(crashes, intensity=0), hooks=())
    await asyncio.sleep(100)

async def test_app(app, mock_clock):
    pytest.fail("never")
""",
            asyncio_mode="auto",
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"*{GIVES_UP}"])

    def test_a_tree_belongs_to_the_loop_of_its_test(self, run_tests: RunTests) -> None:
        """A tree that a fixture started on another loop could not be stopped; it is refused."""
        result = run_tests(
            CHILDREN
            + """
import pytest_asyncio
@pytest_asyncio.fixture(loop_scope="module")
async def app(supervisor_tree):
    await supervisor_tree(tree(waits), hooks=())
async def test_app(app):
    pass
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*RuntimeError: supervisor_tree was called on another loop*"])

    def test_only_async_tests_have_trees(self, run_tests: RunTests) -> None:
        """Without a running loop, a request for a tree is an error that says so."""
        result = run_tests("def test_plain(supervisor_tree): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["supervisor_tree: only an async test *"])


class TestCrashes:
    @pytest.mark.parametrize(
        ("child", "line"),
        [
            (
                "crashes",
                "app/crashes crashed * did not expect (crashes='app/crashes' would):",
            ),
            ("unclean", "app/unclean crashed in its life 1, which the test did not expect*"),
        ],
    )
    def test_an_unexpected_crash_fails_the_test(
        self, run_tests: RunTests, child: str, line: str
    ) -> None:
        """A child that raised is named with its exception, also if it was restarted or stopped."""
        result = run_tests(
            CHILDREN
            + f"""
async def test_crash(supervisor_tree, mock_clock):
    await supervisor_tree(tree(waits, {child}), hooks=())
    await mock_clock.advance(90)
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([line, "Traceback*", "OSError: no contact"])

    def test_a_pattern_is_that_of_the_other_tools(self, run_tests: RunTests) -> None:
        """One star is one segment, as in a fault: here it matches no child."""
        result = run_tests(
            CHILDREN
            + """
async def test_crash(supervisor_tree, mock_clock):
    await supervisor_tree(tree(waits, crashes), hooks=(), crashes="*")
    await mock_clock.advance(90)
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["* did not crash, as the test expected"])

    @pytest.mark.parametrize("crashes", ["app/crashes", "app/*", "**", ["app/crashes"]])
    def test_an_expected_crash_is_fine(self, run_tests: RunTests, crashes: object) -> None:
        """A child that the test has named, or a pattern of its path, may raise."""
        run_tests(
            CHILDREN
            + f"""
async def test_crash(supervisor_tree, mock_clock):
    await supervisor_tree(tree(waits, crashes), hooks=(), crashes={crashes!r})
    await mock_clock.advance(90)
"""
        ).assert_outcomes(passed=1)

    def test_an_expected_crash_must_happen(self, run_tests: RunTests) -> None:
        """A test that waits for a crash that never comes does not pass."""
        result = run_tests(
            CHILDREN
            + """
async def test_crash(supervisor_tree):
    await supervisor_tree(tree(waits), hooks=(), crashes=["app/waits", "app/typo"])
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["app/typo did not crash, as the test expected"])

    def test_a_child_that_fails_to_start_on_request_is_its_callers_affair(
        self, run_tests: RunTests
    ) -> None:
        """The caller gets the error, so the test does not fail for it."""
        run_tests(
            CHILDREN
            + """
async def test_request(supervisor_tree):
    async def unready(*, task_status):
        raise OSError("no contact")
    root = await supervisor_tree(tree(waits), hooks=())
    with pytest.raises(otpy.errors.StartFailed):
        await root.start_child(ChildSpec("unready", unready))
"""
        ).assert_outcomes(passed=1)

    def test_a_hook_that_raises_is_a_crash(self, run_tests: RunTests) -> None:
        """A report hook is taken off the stream when it raises, and the test fails."""
        result = run_tests(
            CHILDREN
            + """
def hook(report):
    raise OSError("no contact")
async def test_hook(supervisor_tree):
    await supervisor_tree(tree(waits), hooks=[hook])
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*function hook* failed, which the test did not expect*"])

    def test_a_crash_is_told_with_another_failure(self, run_tests: RunTests) -> None:
        """The failure of the test itself is shown, with the crash as a note on it."""
        result = run_tests(
            CHILDREN
            + """
async def test_both(supervisor_tree, mock_clock):
    await supervisor_tree(tree(crashes), hooks=(), crashes="app/typo")
    await mock_clock.advance(90)
    assert log
"""
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["E       assert []", "*app/crashes crashed in its life 1*"])
        result.stdout.no_fnmatch_line("*app/typo did not crash*")


class TestOneChild:
    def test_it_is_started_and_stopped(self, run_tests: RunTests) -> None:
        """It runs when the test gets it, and is stopped when the test function ends."""
        run_tests(
            CHILDREN
            + """
async def test_it(start_supervised):
    child = await start_supervised(ChildSpec("waits", waits, args=("it",)), hooks=())
    assert child.alive and child.path == "test/waits"
    assert child.root.child("waits") is child
    await start_supervised(ChildSpec("waits", waits, args=("other",)), hooks=())
    assert log == []

async def test_then():
    assert log == ["other", "it"]
""",
        ).assert_outcomes(passed=2)

    @pytest.mark.parametrize(
        ("crashes", "seconds", "outcome", "shown"),
        [
            (True, 90, "passed", "*1 passed*"),
            (True, 30, "failed", "*test/crashes did not crash, as the test expected"),
            (False, 90, "failed", "*crashed in its life 1, * did not expect (crashes=True would):"),
            ("'test/*'", 90, "failed", "*crashes is 'test/[*]', wanted True or False*"),
        ],
    )
    def test_a_crash_is_expected_or_fails_the_test(
        self, run_tests: RunTests, crashes: object, seconds: int, outcome: str, shown: str
    ) -> None:
        """A crash counts as in a tree; `crashes` needs no path, as the test did not choose one."""
        result = run_tests(
            CHILDREN
            + f"""
async def test_it(start_supervised, mock_clock):
    await start_supervised(ChildSpec("crashes", crashes), hooks=(), crashes={crashes})
    await mock_clock.advance({seconds})
"""
        )
        result.assert_outcomes(**{outcome: 1})
        result.stdout.fnmatch_lines([shown])

    def test_it_is_one_child(self, run_tests: RunTests) -> None:
        """A whole tree has a fixture of its own."""
        run_tests(
            CHILDREN
            + """
async def test_it(start_supervised):
    with pytest.raises(InvalidSpec, match="start_supervised: a ChildSpec"):
        await start_supervised(tree(waits))

async def declines(*, task_status):
    raise Ignore

async def test_not(start_supervised):
    with pytest.raises(otpy.errors.NotRunning):
        await start_supervised(ChildSpec("declines", declines))
"""
        ).assert_outcomes(passed=2)
        result = run_tests("def test_plain(start_supervised): pass")
        result.stdout.fnmatch_lines(["start_supervised: only an async test *"])


class TestExceptionsInTheLoop:
    def test_one_that_nobody_retrieved_fails_the_test(self, run_tests: RunTests) -> None:
        """A task that failed unseen, and a callback that raised, are named with the exception."""
        result = run_tests(
            CHILDREN
            + """
@pytest.mark.otpy
async def test_task():
    asyncio.create_task(crashes(), name="courier")
    await asyncio.sleep(90)

@pytest.mark.otpy
async def test_callback():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)

@pytest.mark.otpy(clock="real")
async def test_then():
    assert asyncio.get_running_loop().get_exception_handler()
"""
        )
        result.assert_outcomes(failed=2, passed=1)
        result.stdout.fnmatch_lines(
            ["Task exception was never retrieved", "*name='courier'*", "OSError: no contact"]
        )
        result.stdout.fnmatch_lines(["Exception in callback*", "ZeroDivisionError: *"])

    def test_one_that_comes_late_fails_the_test_too(self, run_tests: RunTests) -> None:
        """An error that occurs only during the teardown fails the teardown."""
        result = run_tests(
            CHILDREN
            + """
@pytest.fixture
async def late():
    asyncio.get_running_loop()
    yield
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)

async def test_late(late, mock_clock):
    pass
""",
            asyncio_mode="auto",
        )
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines(["ZeroDivisionError: *"])

    def test_a_handler_of_ones_own_is_left_alone(self, run_tests: RunTests) -> None:
        """The owner of an exception handler checks the exceptions; the handler stays afterwards."""
        run_tests(
            CHILDREN
            + """
@pytest.fixture(scope="module", autouse=True)
async def handler():
    asyncio.get_running_loop().set_exception_handler(lambda *_: log.append("mine"))

class TestShared:
    pytestmark = pytest.mark.asyncio(loop_scope="module")
    @pytest.mark.otpy(clock="real")
    async def test_mine(self):
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    async def test_still_mine(self):
        assert log == ["mine"]
        assert asyncio.get_running_loop().get_exception_handler() is not None
""",
            asyncio_mode="auto",
            asyncio_default_fixture_loop_scope="module",
        ).assert_outcomes(passed=2)
