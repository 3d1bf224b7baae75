"""`@pytest.mark.otpy_simulate(seeds=…)`: a test of its own for each seed, on a simulated loop.

A part of the plugin `otpy.testing.plugin`, for async tests that pytest-asyncio or anyio's plugin
runs.
"""

from __future__ import annotations

import asyncio
import inspect
import shlex
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard, final

import pytest

if TYPE_CHECKING:
    from otpy.testing.clock import MockClock

_NAME = "otpy_simulate"
_MARKER = (
    f"{_NAME}(seeds): run the async test once per seed (whole numbers), on a simulated loop that"
    " draws from the seed which ready task goes on next."
)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    config.addinivalue_line("markers", _MARKER)


@final
class _SeededLoops:
    """The loops of one test function; a plugin only while its tests are made."""

    def __init__(self, seeds: Iterable[int]) -> None:
        # Late, as in `otpy.testing.plugin`, which loads this module.
        from otpy.testing.simulated_loop import SeededClock  # noqa: PLC0415

        self.factories = {f"seed={seed}": SeededClock(seed).loop_factory for seed in seeds}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_asyncio_loop_factories(
        self,
    ) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Let pytest-asyncio make one test per loop."""
        return self.factories

    def tell_anyio(self, definition: pytest.Function) -> None:
        """Let anyio's plugin make one test per loop."""
        own = definition.own_markers
        own[:] = [mark for mark in own if mark.args[:1] != ("anyio_backend",)]
        values = [
            pytest.param(("asyncio", {"loop_factory": factory}), id=name)
            for name, factory in self.factories.items()
        ]
        definition.add_marker(pytest.mark.parametrize("anyio_backend", values, scope="module"))


@pytest.hookimpl(wrapper=True, trylast=True)  # the last that is registered answers first
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Make the tests of a marked function."""
    marker = metafunc.definition.get_closest_marker(_NAME)
    if marker is None:
        return (yield)
    loops = _SeededLoops(_seeds(metafunc.definition, marker))
    if "anyio_backend" in metafunc.fixturenames:
        loops.tell_anyio(metafunc.definition)
    metafunc.config.pluginmanager.register(loops)
    try:
        return (yield)
    finally:
        metafunc.config.pluginmanager.unregister(loops)


def clock_of(test: pytest.Function) -> MockClock | None:
    """Return the clock of a marked test; None of any other, and of one that no plugin runs."""
    if test.get_closest_marker(_NAME) is None or not hasattr(test, "callspec"):
        return None
    from otpy.testing.simulated_loop import SeededClock  # noqa: PLC0415 - as above

    for value in test.callspec.params.values():
        factory: object = value[1].get("loop_factory") if _is_backend(value) else value
        owner: object = getattr(factory, "__self__", None)
        if isinstance(owner, SeededClock):
            return owner
    return None


def _is_backend(value: object) -> TypeGuard[tuple[str, dict[str, object]]]:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict)  # pyright: ignore[reportUnknownArgumentType] # noqa: PLR2004


def _seeds(function: pytest.Function, marker: pytest.Mark) -> list[int]:
    seeds: object = marker.kwargs.get("seeds")
    listed: list[object] = [*seeds] if isinstance(seeds, Iterable) else []
    numbers = [seed for seed in listed if isinstance(seed, int)]
    if marker.args or {*marker.kwargs} != {"seeds"} or not numbers or numbers != listed:
        text = f"{_NAME} takes seeds=, at least one whole number, got"
        pytest.fail(f"{function.nodeid}: {text} {marker.args} and {marker.kwargs}", pytrace=False)
    if not inspect.iscoroutinefunction(function.obj):
        pytest.fail(f"{function.nodeid}: {_NAME} is for async tests", pytrace=False)
    return numbers


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marked test that no plugin would run on the loops of its seeds."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker(_NAME) is None:
        return
    if clock_of(item) is None:
        pytest.fail(
            f"{item.nodeid}: {_NAME} needs somebody who runs async tests: mark it `asyncio` or"
            " `anyio` too, or set asyncio_mode = auto.",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the line that runs a failing seed again."""
    report = yield
    if report.failed and isinstance(item, pytest.Function) and clock_of(item) is not None:
        report.sections.append(("otpy: run it again", f"pytest {shlex.quote(item.nodeid)}"))
    return report
