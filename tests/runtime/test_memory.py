"""What ended lives leave behind: nothing."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor, Process, Restart, SupervisorFailed, SupervisorSpec
from tests.runtime.children import forever


def count(kind: type) -> int:
    """Return how many objects of exactly this class the garbage collector knows."""
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


async def test_a_life_does_not_keep_the_one_before_alive() -> None:
    """This holds even if a variable of the child holds its process or the reason of its restart."""
    lives = 0
    rest = asyncio.Event()

    async def child() -> None:
        nonlocal lives
        lives += 1
        me = otpy.current()
        last = me.last_exit
        if lives < 200:
            raise ValueError(last)
        rest.set()
        await asyncio.get_running_loop().create_future()

    before = count(Process)
    spec = SupervisorSpec("app", [ChildSpec("c", child)], intensity=1000)
    async with otpy.start(spec, hooks=()):
        await rest.wait()
        assert count(Process) - before <= 3


async def test_restarts_leave_no_cycles_for_the_collector() -> None:
    """The objects of a life go when the life goes."""
    lives = 0
    rest = asyncio.Event()

    async def child() -> None:
        nonlocal lives
        lives += 1
        if lives < 100:
            raise ValueError
        rest.set()
        await asyncio.get_running_loop().create_future()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)], intensity=1000), hooks=()):
        gc.collect()
        gc.disable()
        try:
            await rest.wait()
            assert gc.collect() < 100
        finally:
            gc.enable()


async def test_a_namesake_is_not_blamed_for_an_earlier_child() -> None:
    """The path and the cause are those of the child that failed last."""

    async def inner() -> None:
        raise RuntimeError("inner trouble")

    async def outer() -> None:
        raise ValueError("outer trouble")

    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(DynamicSupervisor.spec("pool", intensity=0), hooks=()) as pool:
            failing = SupervisorSpec(
                "x", [ChildSpec("deep", inner)], intensity=0, restart=Restart.TEMPORARY
            )
            process = await pool.start_child(failing)
            assert process is not None
            await process.wait()
            await pool.start_child(ChildSpec("x", outer))
            await pool.wait()
    assert caught.value.path == "pool/x"
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.usefixtures("clock")
async def test_a_nested_supervisor_that_starts_is_stopped_by_its_own_deadline() -> None:
    """A child below it that is never ready, with an endless limit, does not delay the stop."""

    async def never(*, task_status: object) -> None:
        del task_status
        await asyncio.get_running_loop().create_future()

    deep = ChildSpec("deep", never, shutdown=otpy.INFINITY)
    spec = SupervisorSpec("app", [SupervisorSpec("sub", [deep], shutdown=0.5)])
    clock = asyncio.get_running_loop().time

    async def host() -> None:
        async with otpy.start(spec, hooks=()):
            pass

    task = asyncio.create_task(host())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert task.cancelled()
    assert clock() <= 1 + 0.5 + 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_an_eager_task_factory_does_not_run_children_in_their_supervisor() -> None:
    """A child may call its supervisor from its first line on."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    started: list[int] = []

    async def parent() -> None:
        pool = otpy.current().parent
        assert isinstance(pool, otpy.Supervisor)
        started.append((await pool.count_children()).specs)
        await asyncio.get_running_loop().create_future()

    try:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", parent)]), hooks=()):
            await asyncio.sleep(1)
    finally:
        loop.set_task_factory(None)
    assert started == [1]


async def test_children_that_come_and_go_leave_nothing_for_the_collector() -> None:
    """They end by themselves, by a crash, or because the supervisor stops them."""

    async def end(crash: bool) -> None:
        await asyncio.sleep(0)
        if crash:
            raise ValueError

    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                for crash in (False, True):
                    spec = ChildSpec("c", end, (crash,), restart=Restart.TEMPORARY)
                    process = await pool.start_child(spec)
                    assert process is not None
                    await process.wait()
                idle = await pool.start_child(ChildSpec("idle", asyncio.sleep, (9,)))
                assert idle is not None
                await pool.terminate_child(idle)
                del process, idle
            assert gc.collect() < 20
        finally:
            gc.enable()


async def test_an_ordered_stop_needs_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each child has its deadline, and reuses the timer of the one before."""
    loop = asyncio.get_running_loop()
    timers = 0
    call_at = loop.call_at

    def counted(*args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return call_at(*args, **kwargs)

    children = [ChildSpec(f"c{number}", forever) for number in range(20)]
    async with otpy.start(SupervisorSpec("app", children), hooks=()):
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "call_at", counted)
    assert timers == 1


@pytest.mark.parametrize(("first", "second"), [(10.0, 2.0), (2.0, 10.0)])
@pytest.mark.usefixtures("clock")
async def test_a_deadline_is_that_of_the_child_being_stopped(first: float, second: float) -> None:
    """The timer that is reused may be earlier or later than needed."""
    clock = asyncio.get_running_loop().time

    async def stubborn() -> None:
        while True:
            try:
                await forever()
            except asyncio.CancelledError:
                cancelled.append(clock())
                if len(cancelled) > 1:
                    raise

    cancelled: list[float] = []
    children = [
        ChildSpec("stubborn", stubborn, shutdown=second),
        ChildSpec("good", forever, shutdown=first),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=()):
        await asyncio.sleep(0)
        began = clock()
    assert [when - began for when in cancelled] == [0, second]
    assert clock() - began == second


@pytest.mark.usefixtures("clock")
async def test_who_has_raised_a_childs_error_too_lives_on() -> None:
    """The frames of a crash are cleared, but not those of other code that caught the same error."""
    error = ConnectionError("for everybody")

    async def crashes() -> None:
        await asyncio.sleep(1)
        if otpy.current().incarnation <= 2:
            raise error
        await asyncio.sleep(60)

    async def catches() -> str:
        try:
            raise error
        except ConnectionError:
            await asyncio.sleep(10)
        return "still here"

    bystander = asyncio.create_task(catches())
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", crashes)]), hooks=()) as app:
        await app.wait_for_restart("c", after=2)
        assert await asyncio.wait_for(bystander, 60) == "still here"
