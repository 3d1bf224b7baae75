"""The pytest plugin: virtual time, trees, and a look at what is left over.

Nothing happens to a test that does not ask for it, in one of three ways:

- it requests one of the fixtures `mock_clock` and `supervisor_tree`;
- it is marked `@pytest.mark.otpy`;
- it is an async test, and the ini option `otpy_mode` is `auto`.

Such a test is watched: see `otpy.testing.guard`. It runs on the mock clock if it requests
`mock_clock`, or for the two other reasons unless the marker says `clock="real"`; the async tests of
pytest-asyncio and of anyio's plugin can.

pytest imports this module in every project that has otpy installed. So it imports nothing of
`otpy.testing` before a test asks for it: time-machine may not even be there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, cast, final

import pytest

from otpy.testing.simulated_test import clock_of

if TYPE_CHECKING:
    from otpy.testing.clock import MockClock
    from otpy.testing.guard import Guard
    from otpy.testing.trees import StartTree

pytest_plugins = ["otpy.testing.simulated_test"]

_MODES = ("strict", "auto")
_MARKER = (
    "otpy(clock='mock', leaks=True): run the test on otpy's mock clock (or clock='real'), and fail"
    " it for tasks, threads, processes and descriptors that it leaves behind (or leaks=False)."
)
_CLOCKS = ("mock", "real")
_FIXTURES = {"mock_clock", "supervisor_tree"}
_GUARD = pytest.StashKey["Guard"]()  # of the test that runs now
_LOOPS = pytest.StashKey["_VirtualLoops"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    parser.addini(
        "otpy_mode",
        "whether every async test is run as if it were marked otpy ('auto'), or none ('strict')",
        default="strict",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker, and refuse a mode that does not exist."""
    config.addinivalue_line("markers", _MARKER)
    if (mode := config.getini("otpy_mode")) not in _MODES:
        raise pytest.UsageError(f"otpy_mode must be one of {', '.join(_MODES)}, got {mode!r}")


# --- who asked for what ---------------------------------------------------------------------------


@final
class _Use:
    """What a test wants of otpy.

    Attributes:
        asked: Whether it is watched at all.
        clock: Whether it runs on the mock clock.
        leaks: Whether what it leaves behind fails it.
    """

    def __init__(self, node: pytest.Function) -> None:
        marker = node.get_closest_marker("otpy")
        auto = node.config.getini("otpy_mode") == "auto" and _is_async(node.obj)
        options: dict[str, Any] = {"clock": "mock", "leaks": True}
        if marker is not None:
            options |= marker.kwargs
            if marker.args or len(options) > 2 or options["clock"] not in _CLOCKS:  # noqa: PLR2004
                pytest.fail(
                    f"{node.nodeid}: otpy() takes clock='mock' or 'real', and leaks=True or False;"
                    f" got {marker.args} and {marker.kwargs}",
                    pytrace=False,
                )
        requested = _FIXTURES & {*node.fixturenames}
        self.asked = marker is not None or auto or bool(requested)
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


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# --- the loop of a test ---------------------------------------------------------------------------


@final
class _VirtualLoops:
    """The clock of a session, and how the plugins that run async tests are told to use it.

    A plugin of its own too, but only while the tests of a function that runs on the clock are
    made: pytest-asyncio changes what it does for every test as soon as somebody answers its hook.
    """

    def __init__(self) -> None:
        from otpy.testing.clock import MockClock  # noqa: PLC0415 - see the module's docstring

        self.clock = MockClock()
        self._factory = self.clock.loop_factory
        self._backend = ("asyncio", {"loop_factory": self._factory})

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_asyncio_loop_factories(
        self,
    ) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Answer pytest-asyncio."""
        return {"mock_clock": self._factory}

    def tell_anyio(self, definition: pytest.Function) -> None:
        """Let anyio's plugin run the tests of a function on this clock only."""
        own = definition.own_markers
        own[:] = [mark for mark in own if mark.args[:1] != ("anyio_backend",)]
        values = [pytest.param(self._backend, id="asyncio")]
        definition.add_marker(pytest.mark.parametrize("anyio_backend", values, scope="module"))

    def run(self, test: pytest.Function) -> bool:
        """Return whether one of the plugins was told to run this very test on the clock."""
        values = test.callspec.params.values() if hasattr(test, "callspec") else ()
        return any(value is self._factory or value is self._backend for value in values)


def _virtual_loops(config: pytest.Config) -> _VirtualLoops:
    if _LOOPS not in config.stash:
        config.stash[_LOOPS] = _VirtualLoops()
    return config.stash[_LOOPS]


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Put the tests of a function on the mock clock, if they want to be there."""
    function = metafunc.definition
    if not (_is_async(function.obj) and _Use(function).clock):
        return (yield)
    loops = _virtual_loops(metafunc.config)
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
    """Tell what a fixture shared with other tests leaves behind from what the test does."""
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
    guard.begin()
    with pytest.MonkeyPatch.context() as patch, guard.whole_test():
        if _is_async(item.obj):
            holder, name = _async_part(item.obj) or (item, "obj")
            patch.setattr(holder, name, guard.around(getattr(holder, name)))
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)  # as above
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail the test for what it has left behind when all its fixtures are gone."""
    try:
        result = yield
        guard = item.config.stash.get(_GUARD, None)
        if guard is not None and (problems := guard.problems_left()):
            pytest.fail("\n\n".join(problems), pytrace=False)
        return result
    finally:
        if _GUARD in item.config.stash:
            del item.config.stash[_GUARD]


# --- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def mock_clock(request: pytest.FixtureRequest) -> MockClock:
    """The clock of the test: virtual time for what it awaits, see `otpy.testing.MockClock`.

    An async test that requests it runs on it. Any other test gets a clock that drives no loop yet:
    `mock_clock.run(…)`.
    """
    loops = _virtual_loops(request.config)
    test: pytest.Function = request.node
    if (simulated := clock_of(test)) is not None:
        return simulated
    if (_is_async(test.obj) or _in_a_loop()) and not loops.run(test):
        pytest.fail(
            "mock_clock: the test does not run on the mock clock. Mark it `asyncio` or `anyio`, not"
            " `otpy(clock='real')`, and request the fixture in its signature.",
            pytrace=False,
        )
    return loops.clock


@pytest.fixture
def supervisor_tree(request: pytest.FixtureRequest) -> StartTree:
    """Start trees that are stopped at the end of the test, see `otpy.testing.StartTree`."""
    guard: Guard | None = request.config.stash.get(_GUARD, None)
    if guard is None or not _is_async(request.node.obj):
        pytest.fail(
            "supervisor_tree: only an async test that requests it in its signature can use it.",
            pytrace=False,
        )
    return cast("StartTree", guard.trees)  # its overloads are for the caller
