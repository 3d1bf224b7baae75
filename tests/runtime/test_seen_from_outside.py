"""Python's own view of the tasks of another process, which exists since 3.14."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime import program

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(sys.version_info < (3, 14), reason="Python cannot do it before 3.14"),
]
ROOT = Path(program.__file__).parents[2]
STACKS = {
    "app/plain": ["live", "service"],
    "app/resource": ["live", "_enter_or_await", "LiveProcess.stop_requested"],
    "app/limited": ["live", "_awaited"],
    "app/awaiting": ["live", "ServerTask.live"],
    "app/inner/last": ["live", "service"],
}
"""Of each child that has a task, outermost first. The steps of one with `max_step` hide its own."""


@pytest.fixture(params=["asyncio", "uvloop"])
def running(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a program with a child of each kind; yield its PID."""
    started = subprocess.Popen(
        [sys.executable, program.__file__, "kinds", request.param],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert started.stdout is not None
    with started:
        while started.stdout.readline() != "+last\n":
            assert started.poll() is None
        yield started.pid
        started.kill()


def seen(how: str, pid: int) -> str:
    """Return the output of `python -m asyncio` about the process `pid`."""
    command = [sys.executable, "-m", "asyncio", how, str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if "insufficient permissions" in done.stdout:
        pytest.skip("the kernel lets no process look into another")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_pstree_draws_the_children_of_a_running_tree(running: int) -> None:
    """Each has its path and its suspended coroutines; a plain server has no task."""
    stacks: dict[str, list[str]] = {}
    stack: list[str] = []
    for kind, name in re.findall(r"── (\(T\))? ?(\S+)", seen("pstree", running)):
        if kind:
            stack = stacks[name] = []
        else:
            stack.append(name)
    assert {name: stack for name, stack in stacks.items() if "/" in name} == STACKS


def test_ps_lists_the_children_of_a_running_tree(running: int) -> None:
    """The table has the same content, innermost first."""
    rows = [line.split() for line in seen("ps", running).splitlines()]
    lines = {row[2]: " ".join(row[3:]).partition(" 0x")[0] for row in rows[2:]}
    wanted = {name: " -> ".join(reversed(stack)) for name, stack in STACKS.items()}
    assert {name: stack for name, stack in lines.items() if "/" in name} == wanted
