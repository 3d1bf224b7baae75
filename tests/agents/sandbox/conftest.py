"""The sandboxes that need no engine, and a scene for each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from otpy_agents.sandbox import BubblewrapSandbox, ProcessSandbox, Sandbox
from tests.agents.sandbox.scene import Scene


def why_no_bubblewrap() -> str:
    """Return the reason why bubblewrap does not work on this machine; empty if it works."""
    argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except OSError as error:
        return f"bubblewrap cannot be started: {error}"
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr.strip()}"


@pytest.fixture(scope="session")
def bubblewrap() -> BubblewrapSandbox:
    """The sandbox `bubblewrap`, where it works."""
    reason = why_no_bubblewrap()
    if reason:
        pytest.skip(reason)
    return BubblewrapSandbox()


@pytest.fixture(params=["process", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Both sandboxes that run processes of this machine."""
    if request.param == "process":
        return ProcessSandbox()
    found: BubblewrapSandbox = request.getfixturevalue("bubblewrap")
    return found


@pytest.fixture
async def scene(sandbox: Sandbox, tmp_path: Path) -> Scene:
    """Runs the jobs of one test."""
    return Scene(sandbox, tmp_path)
