"""The pytest plugin: virtual time, trees, seeds, and a check for leftovers.

Nothing happens to a test that does not ask for it, in one of four ways:

- it requests one of the fixtures `mock_clock`, `supervisor_tree` and `start_supervised`;
- it is marked `@pytest.mark.otpy`;
- it is an async test, and the ini option `otpy_mode` is `auto`;
- it is marked `@pytest.mark.otpy_simulate(seeds=…)`.

Such a test is watched: see `otpy.testing.guard`. It runs on the mock clock if it requests
`mock_clock`, or for the next two reasons unless the marker says `clock="real"`; for the last one
it runs once per seed, on a simulated loop. The async tests of pytest-asyncio and of anyio's plugin
can.

pytest imports this module in every project that has otpy installed. So it imports nothing of
`otpy.testing` before a test asks for it: time-machine may not even be there.
"""

from __future__ import annotations

import asyncio
import inspect
import shlex
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, cast, final

import pytest

if TYPE_CHECKING:
    from otpy.testing.clock import MockClock
    from otpy.testing.guard import Guard
    from otpy.testing.loops_of_tests import Loops
    from otpy.testing.trees import StartChild, StartTree, Trees

_MODES = ("strict", "auto")
_SIMULATE = "otpy_simulate"
_MARKERS = {
    "otpy(clock='mock', leaks=True)": "run the test on otpy's mock clock (or clock='real'), and"
    " fail it for tasks, threads, processes and descriptors that it leaves behind (leaks=False: do"
    " not).",
    f"{_SIMULATE}(seeds)": "run the async test once per seed (whole numbers), on a simulated loop"
    " that draws from the seed which ready task goes on next.",
}
_CLOCKS = ("mock", "real")
_FIXTURES = {"mock_clock", "supervisor_tree", "start_supervised"}
_GUARD = pytest.StashKey["Guard"]()  # of the test that runs now
_MOCK_LOOPS = pytest.StashKey["Loops"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(
        "otpy_mode",
        "whether every async test is run as if it were marked otpy ('auto'), or none ('strict')",
        default="strict",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the markers, and refuse a mode that does not exist."""
    for marker, meaning in _MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    if (mode := config.getini("otpy_mode")) not in _MODES:
        raise pytest.UsageError(f"otpy_mode must be one of {', '.join(_MODES)}, got {mode!r}")


# --- who asked for what ---------------------------------------------------------------------------


@final
class _Use:
    """The settings of a test for otpy.

    Attributes:
        asked: Whether it is watched at all.
        clock: Whether it runs on the mock clock.
        seeds: Whether it runs on simulated loops instead.
        leaks: Whether what it leaves behind fails it.
    """

    def __init__(self, node: pytest.Function) -> None:
        marker = node.get_closest_marker("otpy")
        auto = node.config.getini("otpy_mode") == "auto" and _is_async(node.obj)
        options: dict[str, Any] = {"clock": "mock", "leaks": True}
        if marker is not None:
            options |= marker.kwargs
            if marker.args or len(options) > 2 or options["clock"] not in _CLOCKS:  # noqa: PLR2004
                text = "otpy() takes clock='mock' or 'real', and leaks=True or False; got"
                pytest.fail(
                    f"{node.nodeid}: {text} {marker.args} and {marker.kwargs}", pytrace=False
                )
        requested = _FIXTURES & {*node.fixturenames}
        self.seeds = node.get_closest_marker(_SIMULATE) is not None
        if self.seeds and options["clock"] == "real":
            text = f"{_SIMULATE} has no use for clock='real'"
            pytest.fail(f"{node.nodeid}: {text}", pytrace=False)
        self.asked = marker is not None or auto or bool(requested) or self.seeds
        self.clock = options["clock"] == "mock" and (
            marker is not None or auto or "mock_clock" in requested
        )
        self.leaks = bool(options["leaks"])


def _async_part(test: Any) -> tuple[Any, str] | None:
    """Return which attribute of what holds the async function of a property test, if it is one."""
    return (test.hypothesis, "inner_test") if hasattr(test, "hypothesis") else None


def _is_async(test: Any) -> bool:
    part = _async_part(test)
    return inspect.iscoroutinefunction(getattr(*part) if part else test)


def _clock_of(test: pytest.Function) -> MockClock | None:
    from otpy.testing.loops_of_tests import clock_of  # noqa: PLC0415 - see the module's docstring

    return clock_of(test)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# --- the loop of a test ---------------------------------------------------------------------------


def _mock_loops(config: pytest.Config) -> Loops:
    """Return the loops of all tests on the mock clock: one object, so that they can share one."""
    if _MOCK_LOOPS not in config.stash:
        from otpy.testing.clock import MockClock  # noqa: PLC0415 - see the module's docstring
        from otpy.testing.loops_of_tests import Loops  # noqa: PLC0415

        config.stash[_MOCK_LOOPS] = Loops({"asyncio": MockClock()})
    return config.stash[_MOCK_LOOPS]


def _seeded_loops(function: pytest.Function) -> Loops:
    from otpy.testing.loops_of_tests import Loops  # noqa: PLC0415 - see the module's docstring
    from otpy.testing.simulated_loop import SeededClock  # noqa: PLC0415

    return Loops({f"seed={seed}": SeededClock(seed) for seed in _seeds(function)})


def _seeds(function: pytest.Function) -> list[int]:
    marker = function.get_closest_marker(_SIMULATE)
    assert marker is not None  # noqa: S101 - the caller has seen it
    seeds: object = marker.kwargs.get("seeds")
    listed: list[object] = [*seeds] if isinstance(seeds, Iterable) else []
    numbers = [seed for seed in listed if isinstance(seed, int)]
    if marker.args or {*marker.kwargs} != {"seeds"} or not numbers or numbers != listed:
        text = f"{_SIMULATE} takes seeds=, at least one whole number; got"
        pytest.fail(f"{function.nodeid}: {text} {marker.args} and {marker.kwargs}", pytrace=False)
    # A property test would bring chance of its own, and the seed alone would not repeat it.
    if not inspect.iscoroutinefunction(function.obj):
        pytest.fail(f"{function.nodeid}: {_SIMULATE} is for async tests", pytrace=False)
    return numbers


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Put the tests of a function on the mock clock, or one on each seed, if they want it."""
    function = metafunc.definition
    use = _Use(function)
    if use.seeds:
        loops = _seeded_loops(function)
    elif use.clock and _is_async(function.obj):
        loops = _mock_loops(metafunc.config)
    else:
        return (yield)
    if "anyio_backend" in metafunc.fixturenames:
        loops.tell_anyio(function)
    metafunc.config.pluginmanager.register(loops)
    try:
        return (yield)
    finally:
        metafunc.config.pluginmanager.unregister(loops)


# --- the watch over a test ------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to watch a test that asked for it."""
    if isinstance(item, pytest.Function) and (use := _Use(item)).asked:
        from otpy.testing.guard import Guard  # noqa: PLC0415 - see the module's docstring

        item.config.stash[_GUARD] = Guard(checks_leaks=use.leaks)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Tell the leftovers of a shared fixture from those of the test."""
    guard = request.config.stash.get(_GUARD, None)
    if guard is None:
        return (yield)
    if fixturedef.scope == "function":
        guard.begin()
        return (yield)
    with guard.sharing():
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)  # inside pytest's capturing, which has descriptors
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run the test inside its guard."""
    __tracebackhide__ = True
    guard = item.config.stash.get(_GUARD, None)
    if guard is None or not isinstance(item, pytest.Function):
        return (yield)
    if _Use(item).seeds and _clock_of(item) is None:
        pytest.fail(
            f"{_SIMULATE}: nobody runs the test on a simulated loop. Mark it `asyncio` or `anyio`.",
            pytrace=False,
        )
    guard.begin()
    with pytest.MonkeyPatch.context() as patch, guard.whole_test():
        if _is_async(item.obj):
            holder, name = _async_part(item.obj) or (item, "obj")
            patch.setattr(holder, name, guard.around(getattr(holder, name)))
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)  # as above
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail the test for its leftovers after all its fixtures are gone."""
    try:
        result = yield
        guard = item.config.stash.get(_GUARD, None)
        if guard is not None and (problems := guard.problems_left()):
            pytest.fail("\n\n".join(problems), pytrace=False)
        return result
    finally:
        if _GUARD in item.config.stash:
            del item.config.stash[_GUARD]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the line that runs a failing seed again."""
    report = yield
    if report.failed and item.get_closest_marker(_SIMULATE) is not None:
        report.sections.append(("otpy: run it again", f"pytest {shlex.quote(item.nodeid)}"))
    return report


# --- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def mock_clock(request: pytest.FixtureRequest) -> MockClock:
    """The clock of the test: virtual time for its awaits, see `otpy.testing.MockClock`.

    An async test that requests it runs on it; if it is simulated, this is the clock of its seed.
    Any other test gets a clock that drives no loop yet: `mock_clock.run(…)`.
    """
    test: pytest.Function = request.node
    if (clock := _clock_of(test)) is not None:
        return clock
    if _is_async(test.obj) or _in_a_loop():
        pytest.fail(
            "mock_clock: the test does not run on the mock clock. Mark it `asyncio` or `anyio`, not"
            " `otpy(clock='real')`, and request the fixture in its signature.",
            pytrace=False,
        )
    return next(iter(_mock_loops(request.config).factories.values())).clock


@pytest.fixture
def supervisor_tree(request: pytest.FixtureRequest) -> StartTree:
    """Start trees that are stopped at the end of the test, see `otpy.testing.StartTree`."""
    return cast("StartTree", _trees(request))  # its overloads are for the caller


@pytest.fixture
def start_supervised(request: pytest.FixtureRequest) -> StartChild:
    """Start one child, stopped at the end of the test, see `otpy.testing.StartChild`."""
    return _trees(request).start_child


def _trees(request: pytest.FixtureRequest) -> Trees:
    guard: Guard | None = request.config.stash.get(_GUARD, None)
    if guard is None or not _is_async(request.node.obj):
        pytest.fail(
            f"{request.fixturename}: only an async test that requests it in its signature can use"
            " it.",
            pytrace=False,
        )
    return guard.trees
