"""`kill -9` at any moment of a step: it is applied whole or not at all, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from otpy_agents.workspace import StepTrees
from tests.agents.engine.server.engine_site import EngineSite, role, writing
from tests.agents.engine.server.killed_engine import (
    POINTS,
    Work,
    begun,
    killed,
    real_step,
    settling,
    step,
)
from tests.agents.host import kill_with_guardians
from tests.examples import some

pytestmark = pytest.mark.real_time


async def outcome(site: EngineSite) -> str:
    """Return the end of the step from the log, which has exactly one; empty if none began."""
    async with site.log() as log:
        await log.verify()
        assert not await log.compare()
        told = [stored.name async for stored in log.read()]
    ends = [name for name in told if name in {"step_completed", "step_failed"}]
    flows = [name for name in told if name in {"workflow_completed", "workflow_failed"}]
    assert len(flows) == told.count("workflow_started")
    assert len(ends) == told.count("step_started")
    return ends[0] if ends else ""


async def check(site: EngineSite, *, applied: bool | None = None) -> None:
    """Let the next command settle the remains, and check the result."""
    async with site.orders():
        pass  # as a read-only command does
    await settling(site)
    end = await outcome(site)
    expected = ["Add it", "Begin"] if end == "step_completed" else ["Begin"]
    assert site.subjects == expected
    assert (site.repository / "new.txt").exists() == (end == "step_completed")
    assert not site.status
    assert not site.trees
    assert len(site.git("worktree", "list").splitlines()) == 1
    assert [path.name for path in site.state.parent.iterdir() if ".wf-" in path.name] == []
    trees = StepTrees(site.repository)
    assert not await trees.leftovers()
    trees.close()
    if applied is not None:
        assert (end == "step_completed") is applied
    assert (await site.run(writing("later\n", "later.txt"))).cause is None
    assert site.subjects == ["Add it", *expected]
    assert not site.git("fsck", "--strict", "--no-dangling")


PARTS = 4
"""Into how many tests the moments of each kind are divided, of which the first lands."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", POINTS)
@pytest.mark.parametrize("part", some(range(PARTS), rest=pytest.mark.long))
async def test_a_step_may_be_killed_at_any_moment(
    tmp_path: Path, what: str, part: int, after: bool
) -> None:
    """Before and after each append to the log, and each command of git."""
    EngineSite(tmp_path / "made").make({"roles/implementer.yaml": role()})
    most = await at_each(step, tmp_path, what, after=after, first=part + 1, stride=PARTS)
    assert most > 5


@pytest.mark.parametrize("what", POINTS)
@pytest.mark.parametrize("applied", [False, True])
async def test_settling_may_be_killed_at_any_moment_too(
    tmp_path: Path, what: str, applied: bool
) -> None:
    """The host was killed before it applied the step, or before it said so."""
    EngineSite(tmp_path / "made").make({"roles/implementer.yaml": role()})
    site = anew(tmp_path)
    most = await asyncio.to_thread(killed, step, site.folder, "append", 0, after=False)
    last = most - (1 if applied else 2)  # the last says that the workflow is over
    site = anew(tmp_path)
    await asyncio.to_thread(killed, step, site.folder, "append", last, after=False)
    assert site.subjects == (["Add it", "Begin"] if applied else ["Begin"])
    shutil.rmtree(tmp_path / "made")
    copy(site.folder, tmp_path / "made")
    assert await at_each(settling, tmp_path, what, after=True, applied=applied) >= 1


def copy(source: Path, target: Path) -> None:
    """Copy the files, without the socket that a killed host has left."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))


def anew(folder: Path) -> EngineSite:
    """Return a copy of the made site, always at the same path, which the log contains."""
    shutil.rmtree(folder / "at-work", ignore_errors=True)
    copy(folder / "made", folder / "at-work")
    return EngineSite(folder / "at-work")


async def at_each(
    work: Work,
    folder: Path,
    what: str,
    *,
    after: bool,
    first: int = 1,
    stride: int = 1,
    applied: bool | None = None,
) -> int:
    """Kill some work at each moment, and check the next command; return the number of moments."""
    at = first
    most = await asyncio.to_thread(killed, work, anew(folder).folder, what, 0, after=after)
    while at <= most:
        site = anew(folder)
        await asyncio.to_thread(killed, work, site.folder, what, at, after=after)
        try:
            await check(site, applied=applied)
        except BaseException as error:
            error.add_note(f"killed {'after' if after else 'before'} {what} {at} of {most}")
            raise
        at += stride
    return most


SLEEPER = """import os, pathlib, time
pathlib.Path({pid!r}).write_text(str(os.getpid()))
pathlib.Path("new.txt").write_text("good")
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_the_worker_of_a_host_that_was_killed_is_ended(site: EngineSite) -> None:
    """The next command ends it before it does anything else (ENG-10)."""
    pid_file = site.folder / "pid"
    site.make({"roles/implementer.yaml": role()})
    (site.repository / "agent.py").write_text(SLEEPER.format(pid=str(pid_file)), encoding="utf-8")
    site.commit("Begin")
    process = begun(real_step, site.folder)
    while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110 - of a program
        await asyncio.sleep(0.05)
    worker = int(pid_file.read_text())
    kill_with_guardians(process.pid or 0)
    await asyncio.to_thread(process.join)
    assert is_alive(worker)
    await settling(site)
    assert not is_alive(worker)
    assert await outcome(site) == "step_failed"
    assert not site.status
    assert not site.trees
    assert any("its host died" in line for line in site.notes)
    assert not await site.rows("approvals")


def sleeping(seconds: str) -> list[psutil.Process]:
    """Return the processes that sleep for exactly these seconds."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        one
        for one in found
        if (one.info["cmdline"] or [])[-2:] == ["sleep", seconds]
        and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def test_the_gates_of_a_host_that_was_killed_are_ended(site: EngineSite) -> None:
    """The next command ends them, if they have not ended with their host."""
    seconds = f"6{os.getpid()}.5"
    gates = f"gates:\n  good:\n    command: [sleep, '{seconds}']\n"
    site.make({"gates.yaml": gates})
    process = begun(step, site.folder)
    while not sleeping(seconds):  # noqa: ASYNC110 - of a program
        await asyncio.sleep(0.05)
    os.kill(process.pid or 0, signal.SIGKILL)
    await asyncio.to_thread(process.join)
    await settling(site)
    assert not sleeping(seconds)
    assert await outcome(site) == "step_failed"
    assert not site.trees
