"""Where a plan holds, what it counts, and what it does not touch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, Strategy, SupervisorFailed, SupervisorSpec
from otpy._runtime.tree import INTERPOSER
from otpy.reports import ChildExited, ChildStopped
from otpy.testing import FaultPlan, Injected, MockClock, Recording, faults
from tests.runtime.children import Boom, Journal, forever
from tests.runtime.conftest import journal, logs, release, reports
from tests.testing.failing_children import seen

__all__ = ["journal", "logs", "release", "reports"]


def app(*children: ChildSpec, **options: Any) -> SupervisorSpec:
    return SupervisorSpec("app", children, **options)


def hits(injected: Injected) -> list[tuple[float, str, int]]:
    return [(hit.time, hit.path, hit.incarnation) for hit in injected.hits]


async def seconds(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(1)


# --- which lives ----------------------------------------------------------------------------------


async def test_starts_are_counted_over_all_lives_of_a_path() -> None:
    """`nth=2, times=2` hits the second and the third start, and no other."""
    plan = FaultPlan([faults.crash("app/c", Boom(), at="start", nth=2, times=2)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", seconds), intensity=9), hooks=()):
            await asyncio.sleep(4.5)
    assert hits(injected) == [(1.0, "app/c", 2), (1.0, "app/c", 3)]


async def test_lives_are_counted_though_their_supervisor_is_another() -> None:
    """The second start counts as the second, even in another tree of the same block."""
    plan = FaultPlan([faults.crash("app/c", Boom(), at="start", nth=2)])
    with plan.active() as injected:
        for _ in range(3):
            async with otpy.start(app(ChildSpec("c", forever)), hooks=()):
                await asyncio.sleep(1)
    assert hits(injected) == [(1.0, "app/c", 1)]


async def test_awaits_are_counted_in_each_life_anew() -> None:
    """`nth=3, times=2` hits the third await in each of two lives; the next life runs on."""
    plan = FaultPlan([faults.crash("app/c", Boom(), nth=3, times=2)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", seconds, (100,)), intensity=9), hooks=()):
            await asyncio.sleep(50)
    assert hits(injected) == [(2.0, "app/c", 1), (4.0, "app/c", 2)]


async def test_a_fault_without_end_uses_up_the_restarts() -> None:
    """With `times=None` every life is hit, until the supervisor gives up."""
    plan = FaultPlan([faults.crash("app/c", Boom(), at="start", times=None)])
    with plan.active() as injected:
        with pytest.raises(SupervisorFailed) as caught:
            async with otpy.start(app(ChildSpec("c", forever), intensity=2), hooks=()):
                await forever()
    assert [incarnation for _, _, incarnation in hits(injected)] == [1, 2, 3]
    assert len(caught.value.history) == 3


async def test_a_life_is_hit_once_by_each_fault() -> None:
    """A child that deals with the error is left alone for the rest of that life."""
    caught: list[int] = []

    async def careful() -> None:
        for turn in range(10):
            try:
                await asyncio.sleep(1)
            except ConnectionError:
                caught.append(turn)

    plan = FaultPlan([faults.crash("app/c", ConnectionResetError(), nth=2, times=None)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", careful)), hooks=()):
            await asyncio.sleep(15)
    assert caught == [1, 1]
    assert hits(injected) == [(1.0, "app/c", 1), (10.0, "app/c", 2)]


async def test_only_a_child_that_is_told_to_end_hangs_at_its_stop() -> None:
    """A life that ends by itself just ends; the one that is stopped in the end hangs."""
    plan = FaultPlan([faults.hang("app/c")])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", seconds, (2,))), hooks=()):
            await asyncio.sleep(3)
    assert hits(injected) == [(3.0, "app/c", 2)]


async def test_after_starts_the_count_of_awaits() -> None:
    """With `after`, the await in progress at that time is the first."""
    plan = FaultPlan([faults.crash("app/c", Boom(), nth=3, after=2.5)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", seconds, (100,))), hooks=()):
            await asyncio.sleep(10)
    assert hits(injected) == [(4.0, "app/c", 1)]


async def test_a_pattern_hits_each_child_apart() -> None:
    """A pattern stands for the same fault at each path."""
    plan = FaultPlan([faults.crash("app/*", Boom(), after=1)])
    children = [ChildSpec(name, forever) for name in "ab"]
    tree = app(*children, intensity=9)
    with plan.active() as injected:
        async with otpy.start(tree, hooks=()):
            await asyncio.sleep(5)
    assert hits(injected) == [(1.0, "app/a", 1), (1.0, "app/b", 1)]


async def test_a_fault_that_never_hits_can_be_noticed() -> None:
    """The fault is listed in `missed`: no such path, no such await, a supervisor."""
    plan = FaultPlan(
        [
            faults.crash("app/nobody", Boom()),
            faults.crash("app/c", Boom(), after=1),
            faults.crash("app/c", Boom(), nth=99),
            faults.crash("app/below", Boom()),
            faults.crash("app/c", Boom(), at="message"),
            faults.kill_process("app/c"),
        ]
    )
    below = SupervisorSpec("below", [ChildSpec("d", forever)])
    with plan.active() as injected:
        assert injected.missed == plan.faults
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", forever), below]), hooks=()):
            await asyncio.sleep(5)
    assert injected.missed == (plan.faults[0], *plan.faults[2:])
    (hit,) = injected.hits
    assert hit == (1.0, "app/c", 1, plan.faults[1])


async def test_a_plan_can_be_used_again() -> None:
    """Each block counts for itself, and a replay does the same again."""
    plan = FaultPlan([faults.crash("app/c", Boom("x"), nth=2)])
    seen: list[list[tuple[float, str, int]]] = []
    for _ in range(2):
        began = asyncio.get_running_loop().time()
        with plan.active() as injected:
            async with otpy.start(app(ChildSpec("c", seconds, (9,))), hooks=()):
                await asyncio.sleep(5)
        seen.append([(time - began, path, life) for time, path, life in hits(injected)])
    assert seen == [[(1.0, "app/c", 1)]] * 2


# --- which trees ----------------------------------------------------------------------------------


async def test_only_trees_started_inside_are_hit() -> None:
    """Of three trees with one spec, only the one started in the block is hit."""
    plan = FaultPlan([faults.crash("app/c", Boom(), at="start", times=None)])
    spec = app(ChildSpec("c", seconds, (3,)), intensity=0)
    async with otpy.start(spec.replace(intensity=9), hooks=()) as before:
        with plan.active() as injected:
            with pytest.raises(SupervisorFailed):
                async with otpy.start(spec, hooks=()):
                    await forever()
            await asyncio.sleep(9)
    assert before.failure() is None
    assert hits(injected) == [(0.0, "app/c", 1)]
    async with otpy.start(spec.replace(intensity=9), hooks=()):
        await asyncio.sleep(9)
    assert len(injected.hits) == 1


async def test_two_trees_side_by_side() -> None:
    """Two trees run in one loop at the same time; only the one started in the block is hit."""
    plan = FaultPlan([faults.crash("app/c", Boom(), after=2)])

    async def run(recorder: Recording) -> None:
        async with otpy.start(app(ChildSpec("c", forever)), hooks=[recorder]):
            await asyncio.sleep(5)

    async def run_inside(recorder: Recording) -> None:
        with plan.active():
            await run(recorder)

    inside, outside = Recording(), Recording()
    await asyncio.gather(run_inside(inside), run(outside))
    assert len(inside.of(ChildExited)) == 1
    assert outside.of(ChildExited) == ()


async def test_a_tree_deep_in_unchanged_code_is_hit() -> None:
    """Trees that a child of a tree starts, in a task of its own, are started inside too."""

    async def program() -> None:
        inner = SupervisorSpec("inner", [ChildSpec("c", forever)], intensity=9)
        async with otpy.start(inner, hooks=()) as root:
            await root.wait()

    async def child() -> None:
        await asyncio.create_task(program())

    plan = FaultPlan([faults.crash("inner/c", Boom(), after=1)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("outer", child)), hooks=()):
            await asyncio.sleep(3)
    assert hits(injected) == [(1.0, "inner/c", 1)]


async def test_what_outlives_the_block_is_left_alone() -> None:
    """Leaving the block ends every effect: in trees that run on, and in tasks that start others."""
    plan = FaultPlan(
        [
            faults.crash("app/c", Boom(), after=5),
            faults.crash("app/d", Boom(), at="start", nth=2),
            faults.crash("app/e", Boom(), at="cleanup"),
            faults.hang("app/e"),
            faults.clock_jump(60, after=5),
        ]
    )
    left = asyncio.Event()

    async def run() -> None:
        async with otpy.start(
            app(
                ChildSpec("c", forever),
                ChildSpec("d", seconds, (3,)),
                ChildSpec("e", forever),
                intensity=9,
            ),
            hooks=[recorder],
        ):
            left.set()
            await asyncio.sleep(10)

    async def wait_and_run() -> None:
        await left.wait()
        await asyncio.sleep(1)
        await run()

    recorder = Recording()
    with plan.active() as injected:
        tasks = [asyncio.create_task(run()), asyncio.create_task(wait_and_run())]
        await left.wait()
    await asyncio.gather(*tasks)
    assert injected.hits == ()
    assert injected._block.arm("app/c") == []
    assert {str(report.reason) for report in recorder.of(ChildExited)} == {"normal"}
    assert {str(report.reason) for report in recorder.of(ChildStopped)} == {"shutdown"}
    assert INTERPOSER.get(None) is None


async def test_blocks_may_be_nested() -> None:
    """Both plans hold for a tree in the inner block, one for a tree in the outer."""
    outer = FaultPlan([faults.crash("app/c", Boom(), after=1)])
    inner = FaultPlan([faults.crash("app/c", Boom(), after=2), faults.ignore_cancellation("app/c")])
    tree = app(ChildSpec("c", forever, shutdown=1))
    with outer.active() as in_outer:
        with inner.active() as in_inner:
            async with otpy.start(tree, hooks=()):
                await asyncio.sleep(5)
        async with otpy.start(tree, hooks=()):
            await asyncio.sleep(5)
    assert hits(in_outer) == [(1.0, "app/c", 1)]
    assert hits(in_inner)[:1] == [(3.0, "app/c", 2)]
    assert in_inner.missed == ()


def test_a_block_is_entered_once() -> None:
    """Each use of a plan has a block of its own."""
    block = FaultPlan().active()
    with block:
        with pytest.raises(RuntimeError):
            block.__enter__()
    with pytest.raises(RuntimeError):
        block.__enter__()


def test_a_block_may_be_left_in_another_context() -> None:
    """The two halves of a fixture may run in different contexts; the block ends all the same."""
    from contextvars import copy_context  # noqa: PLC0415 - the test's only use

    block = FaultPlan().active()
    copy_context().run(block.__enter__)
    block.__exit__(None, None, None)
    assert not block._block.open


@pytest.mark.real_time
def test_a_whole_program_is_hit() -> None:
    """`otpy.run` starts its tree inside the block it is called in."""
    plan = FaultPlan([faults.crash("app/c", Boom("injected"), at="start")])
    with plan.active() as injected, pytest.raises(SystemExit):
        otpy.run(app(ChildSpec("c", forever), intensity=0), hooks=())
    assert [hit.path for hit in injected.hits] == ["app/c"]


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", Strategy)
async def test_siblings_are_restarted_as_after_a_real_crash(
    journal: Journal, strategy: Strategy
) -> None:
    """Each strategy does after an injected crash what it does after a real one."""

    async def run(crash: Callable[[], object], plan: FaultPlan) -> tuple[list[str], list[object]]:
        recorder = Recording()
        began = asyncio.get_running_loop().time()
        asyncio.get_running_loop().call_later(1, crash)
        spec = journal.tree("a", "b", "c").replace(strategy=strategy)
        with plan.active():
            async with otpy.start(spec, hooks=[recorder]):
                await asyncio.sleep(2)
        lines, journal.lines = journal.lines, []
        return lines, [seen(report, began) for report in recorder]

    def crash() -> None:
        journal.crash["b"].set()

    real = await run(crash, FaultPlan())
    injected = await run(lambda: None, FaultPlan([faults.crash("app/b", Boom("b"), after=1)]))
    assert injected == real


# --- the clock ------------------------------------------------------------------------------------


async def test_the_wall_clock_jumps_and_timers_do_not(clock: MockClock) -> None:
    """It jumps both ways, at the planned times; sleeping tasks wake up on time."""
    import time  # noqa: PLC0415 - the wall clock, in step with the mock clock

    shown: list[tuple[float, float]] = []
    start = time.time()

    async def child() -> None:
        while True:
            await asyncio.sleep(1)
            shown.append((clock.now, time.time() - start))

    plan = FaultPlan([faults.clock_jump(3600, after=1.5), faults.clock_jump(-7200, after=2.5)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()):
            await asyncio.sleep(3.5)
    assert shown == [(1, 1), (2, 3602), (3, -3597)]
    assert hits(injected) == [(1.5, "", 0), (2.5, "", 0)]
