"""How a left-over task is ended, and where one that refuses is named."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, MutableMapping
from contextlib import closing, suppress
from contextvars import Context, copy_context
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    Restart,
    Supervisor,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._core.protocol import KILL_GRACE
from otpy._runtime import leftovers
from otpy._runtime.leftovers import Leftovers
from otpy._runtime.shells import shell_of
from otpy.reports import ChildAbandoned
from otpy.testing import MockClock, Recording, simulate
from tests.runtime.children import Boom, forever, stubborn, turns
from tests.runtime.leaving import Left, plain


@pytest.mark.usefixtures("clock")
async def test_the_cancellation_says_whose_life_is_over(left: Left) -> None:
    """The message of the cancellation names the child."""
    told: list[object] = []

    async def task() -> None:
        try:
            await forever()
        except asyncio.CancelledError as error:
            told.extend(error.args)
            raise

    async def child() -> None:
        left.behind(task())
        await asyncio.sleep(1)

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])):
        await asyncio.sleep(2)
    assert told == ["app/c has ended"]


async def test_a_clean_up_is_waited_for_at_the_end_of_the_block(
    clock: MockClock, left: Left, reports: Recording
) -> None:
    """The block waits for it within the grace of a cancellation, and no longer than it takes."""

    async def cleans_up() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.75)

    async def child() -> None:
        left.behind(cleans_up())
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
        await asyncio.sleep(1)
    assert clock.now == 1.75
    assert left.tasks[0].done()
    assert reports.of(ChildAbandoned) == ()


class HeldUp(asyncio.SelectorEventLoop):
    """A loop that a program holds up for longer than any grace between any two looks at its time.

    Attributes:
        held_up: Whether it is.
    """

    held_up = False
    _lost = 0.0

    def time(self) -> float:
        """Return a time that is later with each look."""
        self._lost += 2 * KILL_GRACE if self.held_up else 0.0
        return super().time() + self._lost


def test_a_loop_that_is_held_up_makes_no_task_one_that_refuses(
    left: Left, reports: Recording
) -> None:
    """Each has its turn after its cancellation, in mid-life and at the end of the block."""

    async def child() -> None:
        left.behind()
        if otpy.current().incarnation == 1:
            raise Boom
        await forever()

    async def main(loop: HeldUp) -> None:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
            loop.held_up = True
            await turns(10)
            assert left.states == "cr"

    with closing(HeldUp()) as loop:
        loop.run_until_complete(main(loop))
    assert left.states == "cc"
    assert reports.of(ChildAbandoned) == ()


def test_a_task_of_an_ended_life_has_its_turn_though_the_loop_is_held_up(
    left: Left, reports: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made when the tree has ended, and found by the search with which the block ends."""
    contexts: list[Context] = []
    settled = Leftovers.settled

    async def child() -> None:
        contexts.append(copy_context())
        await forever()

    def make_first(self: Leftovers) -> bool:
        if contexts:
            contexts.pop().run(left.behind)
        return settled(self)

    monkeypatch.setattr(Leftovers, "settled", make_first)

    async def main(loop: HeldUp) -> None:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
            await turns(2)
            loop.held_up = True

    with closing(HeldUp()) as loop:
        loop.run_until_complete(main(loop))
    assert left.states == "c"
    assert reports.of(ChildAbandoned) == ()


async def test_a_task_that_refuses_is_named(
    clock: MockClock, left: Left, reports: Recording, release: asyncio.Event
) -> None:
    """The report, the list and the error name it, with its stack, and the block ends."""

    async def child() -> None:
        left.behind(stubborn(release), name="poller")
        await asyncio.sleep(1)
        raise Boom

    spec = SupervisorSpec("app", [ChildSpec("c", child)], intensity=0)
    roots: list[Supervisor] = []
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(spec, hooks=[reports]) as app:
            roots.append(app)
            await app.wait()
    assert clock.now == 2
    (report,) = reports.of(ChildAbandoned)
    assert (report.path, report.incarnation, report.time) == ("app/c", 1, 2)
    assert (report.what, report.name) == ("subtask", "poller")
    assert report.stack[0].startswith("stubborn (")
    assert caught.value.abandoned == ("app/c",)
    (process,) = roots[0].abandoned
    assert process.path == "app/c"
    assert isinstance(process.exit_reason, Crashed)
    release.set()
    await turns(2)
    assert roots[0].abandoned == ()


async def test_a_task_that_swallows_one_cancellation_is_given_up_and_ends(
    clock: MockClock, left: Left, reports: Recording
) -> None:
    """The task is cancelled again when its time is over, and unlisted when it has ended."""

    async def swallows() -> None:
        with suppress(asyncio.CancelledError):
            await forever()
        await forever()

    async def child() -> None:
        left.behind(swallows())
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]) as app:
        await asyncio.sleep(1)
    assert clock.now == 2
    assert reports.one(ChildAbandoned).what == "subtask"
    await turns(2)
    assert left.states == "c"
    assert app.abandoned == ()


async def test_the_log_names_a_task_that_refuses(
    clock: MockClock,
    left: Left,
    release: asyncio.Event,
    logs: list[MutableMapping[str, Any]],
) -> None:
    """The default log of a tree does this."""

    async def child() -> None:
        left.behind(stubborn(release), name="poller")
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
        await clock.advance(1)
    (entry,) = [entry for entry in logs if entry["event"] == "child.abandoned"]
    named = {key: entry[key] for key in ("log_level", "child", "what", "task")}
    assert named == {
        "log_level": "error",
        "child": "app/c",
        "what": "subtask",
        "task": "poller",
    }


async def test_refusers_are_listed_until_they_end(
    clock: MockClock, left: Left, reports: Recording
) -> None:
    """Each life is listed once, however many of its tasks are left, while the tree runs on."""
    first, second = asyncio.Event(), asyncio.Event()

    async def child() -> None:
        if otpy.current().incarnation == 1:
            left.behind(stubborn(first))
            left.behind(stubborn(second))
            await asyncio.sleep(1)
            raise Boom
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]) as app:
        await asyncio.sleep(1.5)
        assert [process.incarnation for process in app.abandoned] == []
        await asyncio.sleep(0.5)
        assert [process.incarnation for process in app.abandoned] == [1]
        assert len(reports.of(ChildAbandoned)) == 2
        first.set()
        await turns(2)
        assert [process.incarnation for process in app.abandoned] == [1]
        second.set()
        await turns(2)
        assert [process.incarnation for process in app.abandoned] == []
    assert clock.now == 2


@pytest.mark.usefixtures("clock")
async def test_what_a_child_that_was_given_up_left_is_listed_when_it_has_ended(left: Left) -> None:
    """The process stays listed while its own task or the left-over one runs."""
    own, other = asyncio.Event(), asyncio.Event()

    async def child() -> None:
        left.behind(stubborn(other))
        await stubborn(own)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child, shutdown=1)])) as app:
        await asyncio.sleep(0)
    (process,) = app.abandoned
    assert shell_of(app).tree.abandoned == {process: "task"}
    own.set()
    await turns(2)
    assert shell_of(app).tree.abandoned == {process: "subtask"}
    other.set()
    await turns(2)
    assert app.abandoned == ()


async def test_a_task_that_breeds_for_ever_does_not_hold_the_block(
    clock: MockClock, left: Left, reports: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task makes another when it is cancelled; the last of them is named."""
    monkeypatch.setattr(leftovers, "_COST", 0.02)
    breeding = True

    async def breeds() -> None:
        try:
            await forever()
        finally:
            if breeding:
                await turns(9)  # no search that was planned earlier comes between
                left.behind(breeds())
                await turns(9)

    async def child() -> None:
        left.behind(breeds())
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]) as app:
        await asyncio.sleep(1)
    assert clock.now == 2
    assert left.states[-2:] == "cr"
    assert len(reports.of(ChildAbandoned)) == 1
    assert [process.path for process in app.abandoned] == ["app/c"]
    breeding = False
    left.tasks[-1].cancel()


@pytest.mark.usefixtures("clock")
async def test_a_future_that_cannot_be_cancelled_is_nobodys_end(left: Left) -> None:
    """An error from its `cancel` affects neither the other tasks nor the supervisor."""

    class Odd(asyncio.Future[None]):
        def cancel(self, msg: Any = None) -> bool:
            raise ValueError(msg)

    odd: list[Odd] = []

    async def waits() -> None:
        odd.append(Odd())
        await odd[0]

    async def child() -> None:
        left.behind(waits(), name="a")
        left.behind(name="b")
        await asyncio.sleep(1)
        raise Boom

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec, ChildSpec("d", forever)])) as app:
        await asyncio.sleep(3)
        assert left.states == "rc"
        assert [process.path for process in app.abandoned] == ["app/c"]
        assert app.child("d").alive
        odd[0].set_result(None)


async def test_a_host_that_is_cancelled_meanwhile_still_waits(
    clock: MockClock, left: Left, release: asyncio.Event
) -> None:
    """The cancellation goes on after the wait, as it does during the stop."""

    async def child() -> None:
        left.behind(stubborn(release))
        await forever()

    async def host() -> None:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
            await asyncio.sleep(1)

    task = asyncio.create_task(host())
    for _ in range(2):
        await asyncio.sleep(0.6)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.now == pytest.approx(1.6)


async def test_a_start_that_fails_leaves_no_task_behind(clock: MockClock, left: Left) -> None:
    """This holds for the failed child, and for those that had started before it."""

    async def start(*, task_status: object) -> None:
        del task_status
        left.behind()
        raise Boom

    children = [ChildSpec("a", plain, (left,)), ChildSpec("b", start)]
    with pytest.raises(SupervisorFailed):
        async with otpy.start(SupervisorSpec("app", children)):
            pass
    assert left.states == "cc"
    assert clock.now == 0


def test_in_a_simulation_tasks_of_one_name_end_in_the_order_they_were_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a seed could give different runs, because asyncio keeps its tasks unordered."""
    told: list[int] = []

    class Wait(asyncio.Future[None]):
        """A future that records when it is cancelled."""

        number = 0

        def cancel(self, msg: object = None) -> bool:
            told.append(self.number)
            return super().cancel(msg)

    async def waits(number: int) -> None:
        wait = Wait()
        wait.number = number
        await wait

    async def child() -> None:
        tasks = [asyncio.create_task(waits(number), name="same") for number in range(20)]
        await asyncio.sleep(1)
        assert len(tasks) == 20

    class Shuffled(set[asyncio.Task[object]]):
        """A set in an arbitrary order."""

        def __iter__(self) -> Iterator[asyncio.Task[object]]:
            found = sorted(super().__iter__(), key=hash)
            random.Random(1).shuffle(found)
            return iter(found)

    def shuffled(loop: asyncio.AbstractEventLoop | None = None) -> Shuffled:
        return Shuffled(all_tasks(loop))

    all_tasks = asyncio.all_tasks
    monkeypatch.setattr(asyncio, "all_tasks", shuffled)
    spec = SupervisorSpec("app", [ChildSpec("c", child, restart=Restart.TEMPORARY)])
    simulate(spec, seed=1, until=3)
    assert told == [*range(20)]
