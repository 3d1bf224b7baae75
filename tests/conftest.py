"""Virtual time, and a look at what is left over, for every async test.

A test that is marked `real_time` has the wall clock, and is looked at all the same.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from otpy.testing import MockClock

# A machine that is busy with something else must not fail a test.
settings.register_profile("otpy", deadline=None)
settings.load_profile("otpy")

pytest_plugins = ["otpy.testing.plugin", "pytester"]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before otpy's plugin looks at the marker
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Say in otpy's words what `real_time` means."""
    if metafunc.definition.get_closest_marker("real_time"):
        metafunc.definition.add_marker(pytest.mark.otpy(clock="real"))
    return (yield)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lasts as long as the run: modules and collected tests.

    Tests of memory collect again and again, and each time would look at a million objects.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    """The clock of the running test; an error in a test that is marked `real_time`."""
    return mock_clock
