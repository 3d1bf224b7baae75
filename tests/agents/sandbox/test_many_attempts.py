from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import psutil
import pytest

from otpy_agents.process.process import WorkerProcess
from otpy_agents.sandbox import Sandbox
from otpy_agents.sandbox.output import Output
from tests.agents.sandbox.scene import Scene


def kept() -> int:
    """Return the number of objects of attempts."""
    gc.collect()
    return sum(issubclass(type(one), WorkerProcess | Output) for one in gc.get_objects())


def threads() -> set[threading.Thread]:
    """Return the threads except those of pools, which may keep a few idle ones."""
    pools = ("asyncio_", "AnyIO worker")
    return {one for one in threading.enumerate() if not one.name.startswith(pools)}


@pytest.mark.real_time
async def test_attempts_leave_nothing_behind(sandbox: Sandbox, tmp_path: Path) -> None:
    """No process, descriptor, thread, task or object (`benchmarks/attempts.py` tries thousands)."""
    me = psutil.Process()

    def state() -> tuple[object, ...]:
        # Other tests of this session may have children that stay, as multiprocessing does.
        children = frozenset(me.children(recursive=True))
        return me.num_fds(), len(asyncio.all_tasks()), children

    scene = Scene(sandbox, tmp_path)

    async def attempts(number: int) -> None:
        for _ in range(number):
            async with scene.shell("echo out; sleep 99 & exit 1") as running:
                assert (await running.wait()).exit_code == 1

    await attempts(3)
    before, there = state(), threads()
    await attempts(20)
    assert state() == before
    for one in threads() - there:
        one.join(5)  # it may be on its way
    assert threads() <= there
    assert kept() <= 2  # those of the last attempt, held by a callback that is on its way
    assert scene.alive() == []


@pytest.mark.real_time
async def test_attempts_at_the_same_time_do_not_touch_each_other(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Each hears its own output and ends its own processes only."""

    async def attempt(number: int) -> str:
        folder = tmp_path / str(number)
        await asyncio.to_thread(folder.mkdir)
        scene = Scene(sandbox, folder)
        async with scene.shell(f"sleep 99 & echo {number}") as running:
            ended = await running.wait()
        assert scene.alive() == []
        return ended.stdout

    said = await asyncio.gather(*(attempt(number) for number in range(8)))
    assert said == [f"{number}\n" for number in range(8)]
