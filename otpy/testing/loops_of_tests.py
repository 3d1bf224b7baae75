"""The loops of one function's tests, and how test runners are told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast, final

import pytest
from attrs import frozen

if TYPE_CHECKING:
    from otpy.testing.clock import MockClock


@final
@frozen(eq=False)  # pytest compares by identity, too
class _LoopOn:
    """Makes loops on a clock; a class, so that a test's parameters tell which clock it is on."""

    clock: MockClock

    def __call__(self) -> asyncio.AbstractEventLoop:
        return self.clock.loop_factory()


@final
class Loops:
    """One test is made of a function for each clock.

    A plugin, but only while the tests of such a function are made: pytest-asyncio changes what it
    does for every test as soon as somebody answers its hook.
    """

    def __init__(self, clocks: Mapping[str, MockClock]) -> None:
        """Hold clocks by the names that are shown of the tests."""
        self.factories = {name: _LoopOn(clock) for name, clock in clocks.items()}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_asyncio_loop_factories(
        self,
    ) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Answer pytest-asyncio."""
        return self.factories

    def tell_anyio(self, definition: pytest.Function) -> None:
        """Let anyio's plugin run the tests of a function on these loops only."""
        own = definition.own_markers
        own[:] = [mark for mark in own if mark.args[:1] != ("anyio_backend",)]
        values = [
            pytest.param(("asyncio", {"loop_factory": factory}), id=name)
            for name, factory in self.factories.items()
        ]
        definition.add_marker(pytest.mark.parametrize("anyio_backend", values, scope="module"))


def clock_of(test: pytest.Function) -> MockClock | None:
    """Return the clock that one of the plugins was told to run this very test on, if any."""
    params = test.callspec.params if hasattr(test, "callspec") else {}
    values = [*params.values()]
    backend: object = params.get("anyio_backend")
    if isinstance(backend, tuple):  # of a name and its options
        options = cast("tuple[str, dict[str, Any]]", backend)[1]
        values += options.values()
    return next((value.clock for value in values if isinstance(value, _LoopOn)), None)
