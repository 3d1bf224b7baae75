"""Shared fixtures of the tests of the clock and of the pytest plugin."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable

import pytest

# The oldest anyio asks for trio even where it is not installed.
ON_ASYNCIO = "import pytest\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n"

RunTests = Callable[..., pytest.RunResult]


@pytest.fixture
async def busy() -> AsyncIterator[threading.Event]:  # async: set before the loop joins its threads
    """Hand out an event for threads to wait for; set at the end, so that none is left over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunTests:
    """Run a test file under pytest with the plugin and few others; every warning is an error."""
    # Importing the other plugins would take seconds in each run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(
        source: str,
        *options: str,
        conftest: str = "",
        plugins: tuple[str, ...] = ("pytest_asyncio.plugin", "anyio.pytest_plugin"),
        **ini: str,
    ) -> pytest.RunResult:
        if "pytest_asyncio.plugin" in plugins:
            ini = {"asyncio_default_fixture_loop_scope": "function", **ini}
        pytester.makeini("\n".join(["[pytest]", *(f"{k} = {v}" for k, v in ini.items())]))
        pytester.makeconftest(conftest)
        pytester.makepyfile(f"import asyncio, pytest, otpy\nfrom otpy import *\n{source}")
        loaded = [f"-p{name}" for name in ("otpy.testing.plugin", "no:cacheprovider", *plugins)]
        return pytester.runpytest_inprocess(*loaded, "--strict-markers", "-Werror", *options)

    return run
