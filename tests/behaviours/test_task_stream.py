from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otpy
from otpy import (
    Crashed,
    Exit,
    InvalidSpec,
    Killed,
    Normal,
    Shutdown,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import NotRunning, TaskTimeout
from otpy.tasks import Exited, Ok, OnTimeout, TaskFailed
from otpy.testing import MockClock
from tests.behaviours.actor import actor
from tests.examples import examples
from tests.runtime.children import Boom, own_exit


@pytest.fixture
async def tasks() -> AsyncGenerator[TaskSupervisor]:
    """Start a task supervisor as the root of its tree."""
    async with otpy.start(TaskSupervisor.spec("tasks"), hooks=()) as root:
        yield TaskSupervisor(root)


async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def fail_if_negative(seconds: float) -> float:
    await asyncio.sleep(abs(seconds))
    if seconds < 0:
        raise Boom
    return seconds


async def leave(_: int) -> None:
    raise Exit(Normal())


async def test_results_come_in_the_order_of_the_items(
    tasks: TaskSupervisor, clock: MockClock
) -> None:
    """Tasks run side by side, up to the limit, and their results wait for their turn (TSK-11)."""
    stream = tasks.stream(nap, [3, 1, 2, 1], max_concurrency=2)
    assert [result async for result in stream] == [Ok(3), Ok(1), Ok(2), Ok(1)]
    assert clock.now == 4


async def test_results_come_as_they_are_ready_if_asked(
    tasks: TaskSupervisor, clock: MockClock
) -> None:
    """Without order, the first result comes first (TSK-11)."""
    stream = tasks.stream(nap, [3, 1, 2, 1], max_concurrency=2, ordered=False)
    assert [result async for result in stream] == [Ok(1), Ok(3), Ok(2), Ok(1)]
    assert clock.now == 4


@pytest.mark.usefixtures("clock")
async def test_items_are_taken_only_when_there_is_room(tasks: TaskSupervisor) -> None:
    """An endless source does no harm, and a slow reader slows it down."""
    taken: list[int] = []

    def source() -> Iterator[float]:
        for number in count():
            taken.append(number)
            yield 0.1

    stream = tasks.stream(nap, source(), max_concurrency=3)
    assert taken == []
    async with aclosing(stream):
        assert await anext(stream) == Ok(0.1)
        await asyncio.sleep(50)
        assert len(taken) == 3
        assert await anext(stream) == Ok(0.1)
        await asyncio.sleep(50)
        assert len(taken) == 4
    assert await tasks.children() == []


async def test_an_empty_stream_ends_at_once(tasks: TaskSupervisor) -> None:
    """Without items there are no tasks and no results."""
    assert [result async for result in tasks.stream(nap, [])] == []


async def test_a_slow_task_ends_the_stream(tasks: TaskSupervisor, clock: MockClock) -> None:
    """By default the reader gets TaskTimeout, and the other tasks are shut down (TSK-11)."""
    results: list[object] = []
    with pytest.raises(TaskTimeout, match=r"tasks/nap#\d: took longer than timeout=5 s"):
        async for result in tasks.stream(nap, [1, 9, 2, 8], max_concurrency=4):
            results.append(result)  # noqa: PERF401 - what came before the error counts
    assert results == [Ok(1)]
    assert clock.now == 5
    assert await tasks.children() == []


async def test_a_slow_task_is_killed_if_asked(tasks: TaskSupervisor, clock: MockClock) -> None:
    """Only that task ends, and its result names the reason (TSK-11)."""
    stream = tasks.stream(
        nap, [1, 9, 2], max_concurrency=1, timeout=3, on_timeout=OnTimeout.KILL_TASK
    )
    first, second, third = [result async for result in stream]
    assert (first, third) == (Ok(1), Ok(2))
    assert isinstance(second, Exited)
    assert isinstance(second.reason, Crashed)
    assert isinstance(second.reason.error, TaskTimeout)
    assert clock.now == 6


@pytest.mark.parametrize("on_timeout", OnTimeout)
async def test_who_returned_in_the_very_turn_of_its_limit_was_not_late(
    tasks: TaskSupervisor, on_timeout: OnTimeout
) -> None:
    """The task has returned, its end is not yet known, and its time is over: the result counts."""

    async def at_once(item: int) -> int:
        return item

    stream = tasks.stream(at_once, [1, 2], timeout=0, on_timeout=on_timeout)
    assert [result async for result in stream] == [Ok(1), Ok(2)]


@pytest.mark.usefixtures("clock")
async def test_no_limit_is_no_limit(tasks: TaskSupervisor) -> None:
    """With None, a task may take any time."""
    assert [r async for r in tasks.stream(nap, [99], timeout=None)] == [Ok(99)]


async def test_a_crash_ends_a_linked_stream(tasks: TaskSupervisor) -> None:
    """Code outside of processes gets the error, and the other tasks are shut down (TSK-11)."""
    with pytest.raises(TaskFailed) as caught:
        async for _ in tasks.stream(fail_if_negative, [5, -1], max_concurrency=2):
            raise AssertionError
    assert isinstance(caught.value.__cause__, Boom)
    assert await tasks.children() == []


async def test_the_first_crash_is_the_one_that_is_told(tasks: TaskSupervisor) -> None:
    """Of several crashes, the reader gets the first (TSK-11)."""
    with pytest.raises(TaskFailed, match=r"tasks/fail_if_negative: "):
        async for _ in tasks.stream(fail_if_negative, [-1, -1], max_concurrency=2):
            raise AssertionError


async def test_a_crash_ends_the_process_that_reads_the_stream(clock: MockClock) -> None:
    """The process ends with the reason of the task, and no task remains (TSK-03, TSK-11)."""
    async with otpy.start(SupervisorSpec("app", [TaskSupervisor.spec("tasks")])) as root:
        tasks, ann = TaskSupervisor(root.child("tasks")), await actor(root)

        async def read() -> None:
            async for _ in tasks.stream(fail_if_negative, [5, -1, -2], max_concurrency=3):
                raise AssertionError

        await ann.tell(read)
        reason = await ann.process.wait()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, Boom)
        await clock.advance(0)
        assert await tasks.children() == []


async def test_a_crash_is_a_result_of_an_unlinked_stream(tasks: TaskSupervisor) -> None:
    """The other tasks go on (TSK-11)."""
    stream = tasks.stream(fail_if_negative, [2, -1, 1], linked=False, max_concurrency=3)
    first, second, third = [result async for result in stream]
    assert (first, third) == (Ok(2), Ok(1))
    assert isinstance(second, Exited)
    assert isinstance(second.reason, Crashed)


async def test_a_normal_end_without_result_disturbs_nobody(tasks: TaskSupervisor) -> None:
    """It is not a crash, even in a linked stream."""
    assert [r async for r in tasks.stream(leave, [1])] == [Exited(Normal())]


@pytest.mark.parametrize("reason", [Killed(), Normal()])
async def test_a_stream_ends_with_its_owner(clock: MockClock, reason: otpy.ExitReason) -> None:
    """Whatever the reason, no task remains, even if the stream is not collected (TSK-11)."""
    async with otpy.start(SupervisorSpec("app", [TaskSupervisor.spec("tasks")])) as root:
        tasks, ann = TaskSupervisor(root.child("tasks")), await actor(root)
        streams: list[object] = []

        async def read_one() -> None:
            stream = tasks.stream(nap, [1, 60, 70], linked=False, max_concurrency=3, timeout=None)
            streams.append(stream)
            assert await anext(stream) == Ok(1)

        await ann.ask(read_one)
        left = await tasks.children()
        assert len(left) == 2
        own_exit(ann.process, reason)
        assert await ann.process.wait() == reason
        expected = Killed() if reason == Killed() else Shutdown()
        assert [await process.wait() for process in left] == [expected, expected]
        streams.clear()
        gc.collect()
        await clock.advance(0)


async def test_leaving_the_loop_ends_the_tasks(clock: MockClock, tasks: TaskSupervisor) -> None:
    """A `break` closes the stream as soon as it is collected (TSK-11)."""
    async for _ in tasks.stream(nap, [1, 60, 70], max_concurrency=3, timeout=None):
        break
    await clock.advance(0)
    assert await tasks.children() == []


async def test_a_source_that_raises_ends_the_stream(tasks: TaskSupervisor) -> None:
    """Its error reaches the reader, and the tasks end."""

    def source() -> Iterator[float]:
        yield 4.0
        raise Boom

    with pytest.raises(Boom):
        async for _ in tasks.stream(nap, source(), max_concurrency=2):
            raise AssertionError
    assert await tasks.children() == []


async def test_the_end_of_the_supervisor_ends_the_stream(
    clock: MockClock, tasks: TaskSupervisor
) -> None:
    """The reader gets the ends of running tasks, and no further task can start."""
    stream = tasks.stream(nap, [50, 1], linked=False, max_concurrency=1, timeout=None)
    reading = asyncio.ensure_future(anext(stream))
    await clock.advance(0)
    await tasks.supervisor.stop()
    assert await reading == Exited(Shutdown())
    with pytest.raises(NotRunning):
        await anext(stream)


@pytest.mark.parametrize(
    "options",
    [
        {"max_concurrency": 0},
        {"max_concurrency": True},
        {"timeout": -1},
        {"timeout": "5"},
        {"on_timeout": "exit"},
    ],
)
async def test_bad_options_are_refused_at_the_call(
    tasks: TaskSupervisor, options: dict[str, int]
) -> None:
    """The message names the option (TSK-11)."""
    with pytest.raises(InvalidSpec, match=next(iter(options))):
        tasks.stream(nap, [1], **options)  # type: ignore[arg-type]


# --- properties -----------------------------------------------------------------------------------

SECONDS = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.0])


class Load:
    """A counter of the tasks that run at the same time."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def nap(self, job: tuple[int, float]) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(job[1])
        except asyncio.CancelledError:
            await asyncio.sleep(job[1])  # a slow clean-up
            raise
        finally:
            self.now -= 1
        return job[0]


@settings(max_examples=examples(60))
@given(st.lists(SECONDS, max_size=12), st.integers(1, 5), st.booleans(), SECONDS)
def test_every_item_has_one_result(
    naps: list[float], size: int, ordered: bool, pause: float
) -> None:
    """They are in order if asked, within the limit, and no task remains (TSK-11)."""
    load = Load()

    async def main() -> list[int]:
        got: list[int] = []
        async with otpy.start(TaskSupervisor.spec("tasks"), hooks=()) as root:
            tasks = TaskSupervisor(root)
            stream = tasks.stream(load.nap, enumerate(naps), max_concurrency=size, ordered=ordered)
            async for result in stream:
                assert isinstance(result, Ok)
                got.append(result.value)
                await asyncio.sleep(pause)
            assert await tasks.children() == []
        return got

    got = MockClock().run(main())
    assert (got if ordered else sorted(got)) == list(range(len(naps)))
    assert load.most <= size
    assert load.now == 0


@settings(max_examples=examples(60))
@given(
    st.lists(SECONDS, min_size=1, max_size=8),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 3),
    st.floats(0, 6),
    st.sampled_from(["close", "cancel", "kill"]),
)
def test_nothing_is_left_whenever_a_stream_is_cut_off(
    naps: list[float], size: int, ordered: bool, wanted: int, when: float, how: str
) -> None:
    """No task remains after a close, a cancellation or a kill of the reader at any time."""
    load = Load()

    async def main() -> None:
        tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks")])
        async with otpy.start(tree, hooks=()) as root:
            tasks, ann = TaskSupervisor(root.child("tasks")), await actor(root)

            async def read() -> None:
                stream = tasks.stream(
                    load.nap, enumerate(naps), max_concurrency=size, ordered=ordered
                )
                async with aclosing(stream):
                    async for _ in stream:
                        if how == "close" and load.now <= wanted:
                            break
                if how == "close":
                    assert await tasks.children() == []

            if how == "kill":
                await ann.tell(read)
                await asyncio.sleep(when)
                ann.process.kill()
                await ann.process.wait()
            else:
                reading = asyncio.create_task(read())
                if how == "cancel":
                    await asyncio.sleep(when)
                    reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading
            await asyncio.sleep(0)
            if how == "cancel":
                assert await tasks.children() == []
            await asyncio.sleep(4)  # a killed reader cannot wait for the clean-ups
            assert await tasks.children() == []

    MockClock().run(main())
    assert load.most <= size
    assert load.now == 0


async def test_the_clean_up_may_be_cancelled_too(clock: MockClock, tasks: TaskSupervisor) -> None:
    """Tasks that were asked to end still do so, although the wait for them was cancelled."""
    load = Load()
    stream = tasks.stream(load.nap, [(0, 3.0), (1, 0.5)], ordered=False, max_concurrency=2)
    assert await anext(stream) == Ok(1)
    closing = asyncio.create_task(stream.aclose())
    await clock.advance(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await asyncio.sleep(3.5)
    assert load.now == 0
    assert await tasks.children() == []


async def test_the_clean_up_is_one_wait_that_a_second_cancellation_ends(
    clock: MockClock, tasks: TaskSupervisor
) -> None:
    """This holds even if the first one came while a task was starting."""
    load = Load()

    async def read() -> None:
        async for _ in tasks.stream(load.nap, [(0, 5.0), (1, 5.0)], max_concurrency=2):
            pass

    for turn in range(12):
        reading = asyncio.create_task(read())
        for _ in range(turn):
            await asyncio.sleep(0)
        reading.cancel()
        await clock.advance(0.1)
        reading.cancel()
        await clock.advance(0)
        assert reading.done(), turn
        await asyncio.sleep(5)
        assert load.now == 0
        assert await tasks.children() == []
