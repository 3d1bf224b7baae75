"""A child that waits for a worker thread: the thread is awaited, then abandoned and named."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import FrameType
from typing import Any

import anyio.to_thread
import pytest

import otpy
from otpy import Abandoned, ChildSpec, Killed, Shutdown, SupervisorSpec
from otpy._runtime import stop
from otpy._runtime.stack import stack_of_thread
from otpy.reports import ChildAbandoned, ChildStopped
from otpy.testing import Recording

pytestmark = pytest.mark.real_time


class Block:
    """A call that blocks its thread until a test releases it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.free = threading.Event()
        self.left = threading.Event()

    def hold_on(self) -> None:
        self.entered.set()
        self.free.wait(3)  # a defect fails the test and does not hang it
        self.left.set()


@pytest.fixture
async def block() -> AsyncGenerator[Block]:
    """Yield a blocking call; it is released at the end, so that no thread remains."""
    block = Block()
    yield block
    block.free.set()
    if block.entered.is_set():
        while not block.left.is_set():  # noqa: ASYNC110 - a thread cannot set an asyncio event
            await asyncio.sleep(0.001)


async def by_asyncio(block: Block) -> None:
    await asyncio.to_thread(block.hold_on)


async def by_anyio(block: Block) -> None:
    await anyio.to_thread.run_sync(block.hold_on, abandon_on_cancel=True)


async def by_patient_anyio(block: Block) -> None:
    await anyio.to_thread.run_sync(block.hold_on)


async def entered(block: Block) -> None:
    """Wait until the thread has begun."""
    while not block.entered.is_set():  # noqa: ASYNC110 - a thread cannot set an asyncio event
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("child", [by_asyncio, by_anyio, by_patient_anyio])
@pytest.mark.parametrize("limit", [0, 0.05])
async def test_a_thread_that_does_not_end_is_given_up(
    reports: Recording,
    block: Block,
    monkeypatch: pytest.MonkeyPatch,
    child: Callable[[Block], Awaitable[None]],
    limit: float,
) -> None:
    """AIO-13: its task is gone, its thread is not: the report says so, with its stack."""
    monkeypatch.setattr(stop, "KILL_GRACE", 0.05)
    spec = ChildSpec("c", child, (block,), shutdown=limit)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await entered(block)
    report = reports.one(ChildAbandoned)
    assert report.what == "thread"
    assert any("hold_on" in line for line in report.stack)
    assert reports.one(ChildStopped).reason == Abandoned(report.stack)


@pytest.mark.parametrize("child", [by_asyncio, by_anyio, by_patient_anyio])
async def test_a_thread_that_ends_in_time_is_a_good_end(
    reports: Recording, block: Block, child: Callable[[Block], Awaitable[None]]
) -> None:
    """The thread ends within the limit: the reason is `Shutdown`, and nothing is abandoned."""
    spec = ChildSpec("c", child, (block,), shutdown=20)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await entered(block)
        asyncio.get_running_loop().call_later(0.02, block.free.set)
    assert reports.one(ChildStopped).reason == Shutdown()
    assert block.left.is_set()
    assert reports.of(ChildAbandoned) == ()


@pytest.mark.parametrize("child", [by_asyncio, by_anyio, by_patient_anyio])
async def test_a_thread_that_still_reports_its_result_is_not_waited_for(
    reports: Recording,
    block: Block,
    monkeypatch: pytest.MonkeyPatch,
    child: Callable[[Block], Awaitable[None]],
) -> None:
    """The loop gets a result before the thread returns from the call that reports it."""
    loop, late = asyncio.get_running_loop(), Block()
    tell = loop.call_soon_threadsafe

    def call_soon_threadsafe(*args: Any, **settings: Any) -> Any:
        told = tell(*args, **settings)
        if threading.current_thread() is not threading.main_thread():
            late.hold_on()
        return told

    async def clean_up_in_thread() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await child(block)

    monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon_threadsafe)
    spec = ChildSpec("c", clean_up_in_thread, shutdown=0.5)
    try:
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
            await asyncio.sleep(0.01)
            loop.call_later(0.02, block.free.set)
        await entered(late)
        assert not late.left.is_set()
    finally:
        late.free.set()
    assert reports.one(ChildStopped).reason == Shutdown()


async def test_a_kill_while_a_thread_is_waited_for_is_bounded_too(
    reports: Recording, block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill that overtakes the wait for a thread has its own deadline."""
    monkeypatch.setattr(stop, "KILL_GRACE", 0.05)
    spec = ChildSpec("c", by_asyncio, (block,), shutdown=60, restart=otpy.Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await entered(block)
        process = app.child("c")
        process.exit()
        await asyncio.sleep(0.01)
        process.kill()
        reason = await asyncio.wait_for(process.wait(), 2)
        assert isinstance(reason, Abandoned)
        assert reports.one(ChildAbandoned).what == "thread"


async def test_a_kill_while_a_thread_is_waited_for_takes_its_end(
    reports: Recording, block: Block
) -> None:
    """A thread that ends after the kill ends the process, once."""
    spec = ChildSpec("c", by_asyncio, (block,), shutdown=60, restart=otpy.Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await entered(block)
        process = app.child("c")
        process.exit()
        await asyncio.sleep(0.01)
        process.kill()
        block.free.set()
        reason = await asyncio.wait_for(process.wait(), 2)
        assert reason in (Killed(), Shutdown())
        assert reports.of(ChildAbandoned) == ()


async def test_threads_of_other_children_are_not_waited_for(
    reports: Recording, block: Block
) -> None:
    """A thread belongs to a child only if it runs in the child's own context."""
    other = Block()
    children = [
        ChildSpec("mine", by_asyncio, (block,), shutdown=20),
        ChildSpec("other", by_asyncio, (other,), shutdown=20),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]) as app:
        await entered(block)
        await entered(other)
        other.free.set()
        await asyncio.wait_for(app.terminate_child("other"), 5)
        assert not block.left.is_set()
        block.free.set()
    assert reports.of(ChildAbandoned) == ()


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_while_threads_are_looked_at(
    *, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython holds a lock meanwhile; a collection could let a thread run that waits for it."""
    may_collect: list[bool] = []
    look = sys._current_frames

    def looking() -> dict[int, FrameType]:
        may_collect.append(gc.isenabled())
        return look()

    monkeypatch.setattr(sys, "_current_frames", looking)
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        stack_of_thread(threading.main_thread())
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert may_collect == [False]
