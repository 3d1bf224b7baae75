"""Shared fixtures of the tests of the real CLIs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.e2e.clis import Clis, Unavailable, cache_folder, install
from tests.agents.e2e.home import Home

MakeHome = Callable[..., Home]


@pytest.fixture(scope="session")
def clis() -> Clis:
    """The installed CLIs; tests are skipped if they cannot be installed."""
    try:
        return install()
    except Unavailable as error:
        pytest.skip(f"the agent CLIs are missing: {error}")


@pytest.fixture
def home_of(clis: Clis) -> Iterator[MakeHome]:
    """Returns a function that makes a home for CLIs, for a URL; homes last as long as the test."""
    # Not `tmp_path`: gemini ignores settings below a folder that other users may write to.
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attempt-", dir=cache) as folder:

        def make(cli: str, url: str, *also: str) -> Home:
            made = Path(tempfile.mkdtemp(prefix=f"{cli}-", dir=folder))
            return Home(cli, url, made, clis, also)

        yield make
