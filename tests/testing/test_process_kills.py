"""Kills of the operating system's processes that a child has started, and the real clock."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import otpy
from otpy import ChildSpec, Restart, SupervisorSpec
from otpy.testing import FaultImpossible, FaultPlan, faults
from tests.runtime.children import forever

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]

Codes = list[tuple[float, int | None]]


def app(*children: ChildSpec) -> SupervisorSpec:
    return SupervisorSpec("app", children)


async def by_asyncio() -> int | None:
    process = await asyncio.create_subprocess_exec(*SLEEPER)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def by_shell() -> int | None:
    process = await asyncio.create_subprocess_shell("exec sleep 60")
    return await process.wait()


async def by_anyio() -> int | None:
    async with await anyio.open_process(SLEEPER, stdout=None) as process:
        return await process.wait()


async def in_a_task() -> int | None:
    return await asyncio.create_task(by_asyncio())


async def runner(start: Callable[[], asyncio.Future[int | None]], codes: Codes) -> None:
    code = await start()
    codes.append((otpy.current().incarnation, code))


def spec(id: str, start: Callable[[], Any], codes: Codes) -> ChildSpec:
    return ChildSpec(id, runner, (start, codes), restart=Restart.TEMPORARY)


@pytest.mark.real_time
@pytest.mark.parametrize("start", [by_asyncio, by_shell, by_anyio, in_a_task])
async def test_what_a_child_has_started_is_killed(start: Callable[..., object]) -> None:
    """Any way of starting it counts; the child finds its process dead of SIGKILL."""
    codes: Codes = []
    plan = FaultPlan([faults.kill_process("app/c", after=0.05)])
    with plan.active() as injected:
        async with otpy.start(app(spec("c", start, codes)), hooks=()) as root:
            await root.child("c").wait()
    assert codes == [(1, -signal.SIGKILL)]
    assert [hit.path for hit in injected.hits] == ["app/c"]


@pytest.mark.real_time
async def test_a_process_that_comes_later_is_killed_then() -> None:
    """If none runs at the planned time, the next one to start is hit, once."""
    codes: Codes = []

    async def two() -> None:
        await asyncio.sleep(0.01)
        codes.append((1, await by_asyncio()))
        second = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        codes.append((2, await second.wait()))

    plan = FaultPlan([faults.kill_process("app/c")])
    with plan.active() as injected:
        child = ChildSpec("c", two, restart=Restart.TEMPORARY)
        async with otpy.start(app(child), hooks=()) as root:
            await root.child("c").wait()
    assert codes == [(1, -signal.SIGKILL), (2, 0)]
    assert len(injected.hits) == 1


@pytest.mark.real_time
async def test_nobody_elses_process_is_killed() -> None:
    """A sibling's process survives, and so do the host's and one that was started past asyncio."""
    codes: Codes = []
    plan = FaultPlan([faults.kill_process("app/victim", after=0.05)])
    with subprocess.Popen(SLEEPER) as past:  # noqa: ASYNC220 - this is the one past asyncio
        with plan.active():
            victim, sibling = spec("victim", by_asyncio, codes), ChildSpec("sibling", by_asyncio)
            async with otpy.start(app(sibling, victim), hooks=()) as root:
                host = await asyncio.create_subprocess_exec(*SLEEPER)
                await root.child("victim").wait()
                assert host.returncode is None
                assert past.poll() is None
                assert root.child("sibling").alive
        for process in (host, past):
            process.kill()
        await host.wait()
    assert codes == [(1, -signal.SIGKILL)]


@pytest.mark.real_time
async def test_the_loop_is_as_it_was() -> None:
    """A plan leaves nothing on the loop, also after nested blocks."""
    loop = asyncio.get_running_loop()
    before = dict(vars(loop))
    plan = FaultPlan([faults.kill_process("app/c")])
    with plan.active(), plan.active():
        async with otpy.start(app(ChildSpec("c", forever)), hooks=()):
            await asyncio.sleep(0)
            assert "subprocess_exec" in vars(loop)
    for name in ("subprocess_exec", "subprocess_shell"):
        assert vars(loop).get(name) is before.get(name)


@pytest.mark.real_time
async def test_a_real_clock_cannot_jump() -> None:
    """One clear error, before anything is started."""
    began: list[str] = []

    async def child() -> None:
        began.append("child")

    with FaultPlan([faults.clock_jump(60)]).active():
        with pytest.raises(FaultImpossible, match=r"faults.clock_jump\(60\) needs a MockClock"):
            async with otpy.start(app(ChildSpec("c", child)), hooks=()):
                began.append("tree")
    assert began == []
