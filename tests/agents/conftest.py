"""Worlds of mortals and agents, with their stores and repositories."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from otpy_agents.agent import mortal
from otpy_agents.testing import memory_stores
from otpy_agents.tree import app, monitors, pool
from tests.agents.host import Site
from tests.agents.sandbox.dockerd import NoEngine, engine
from tests.agents.store.sessions.session_world import FILES, SQLITE, SessionWorld
from tests.agents.workspace.git_world import GitWorld
from tests.agents.world import FakeWorker, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world whose stores are in memory; they outlive its hosts."""
    made = World(tmp_path)
    monkeypatch.setattr(mortal, "spawn", made.spawn)
    monkeypatch.setattr(monitors, "project_chores", made.chores_of)
    for module in (app, pool):
        monkeypatch.setattr(module, "WorkerProcess", FakeWorker)
    with memory_stores():
        yield made


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder for a work list; the processes that were started for it are ended."""
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=[SQLITE, FILES])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SessionWorld]:
    """A store of each kind."""
    async with AsyncExitStack() as stack:
        yield await SessionWorld(request.param, tmp_path / "sessions", stack).opened()


@pytest.fixture
def git(tmp_path: Path) -> GitWorld:
    """A real repository."""
    return GitWorld(tmp_path)


@pytest.fixture(scope="module")
def docker_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a container engine of our own."""
    # Not below the folder of a test: the path of a socket is at most 107 characters long.
    started = engine(tmp_path_factory.mktemp("d"))
    try:
        socket = started.__enter__()
    except NoEngine as error:
        pytest.skip(f"no container engine: {error}")
    try:
        yield socket
    finally:
        started.__exit__(None, None, None)
