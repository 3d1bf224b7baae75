from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Strategy, SupervisorSpec
from otpy._runtime.shells import shell_of
from otpy.errors import OtpyError
from otpy.testing import MockClock, NotSettled, settled
from otpy.testing.settling import _in_flight
from tests.runtime.stage import before_each_step
from tests.testing.life import fail_when, forever, slow


async def test_a_tree_at_rest_is_settled_at_once(clock: MockClock) -> None:
    """The wait ends at once, at any depth of the tree and for any sleep of its children."""
    inner = SupervisorSpec("in", [ChildSpec("sleeper", asyncio.sleep, (3600,))])
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=()) as root:
        await settled(root)
    assert clock.now == 0


async def test_a_crash_that_is_about_to_happen_is_waited_for(clock: MockClock) -> None:
    """A child that was woken and will crash has then crashed, and was restarted."""
    told = asyncio.Event()
    tree = SupervisorSpec("app", [ChildSpec("db", fail_when, (told,))])
    async with otpy.start(tree, hooks=()) as root:
        for life in (2, 3, 4):
            told.set()
            await settled(root)
            assert root.child("db").incarnation == life
    assert clock.now == 0


async def test_a_group_restart_is_waited_for_as_long_as_it_takes(clock: MockClock) -> None:
    """Clean-ups and starts take their time; only they move the clock."""
    children = [ChildSpec(name, slow, (2,)) for name in "abc"]
    tree = SupervisorSpec("app", children, strategy=Strategy.ONE_FOR_ALL)
    async with otpy.start(tree, hooks=()) as root:
        assert clock.now == 6
        root.child("b").kill()
        await settled(root, timeout=30)
        assert clock.now == 6 + 1 + 2 + 2 + 6  # b is cut off in its clean-up; c and a are not
        assert [root.child(name).incarnation for name in "abc"] == [2, 2, 2]


async def test_a_delayed_restart_is_not_waited_for(clock: MockClock) -> None:
    """A child that backs off is settled: only the test lets time pass."""
    told = asyncio.Event()
    db = ChildSpec("db", fail_when, (told,), backoff=Backoff.sequence(5))
    async with otpy.start(SupervisorSpec("app", [db]), hooks=()) as root:
        told.set()
        await settled(root)
        (drawn,) = root.snapshot().children
        assert (clock.now, drawn.state, drawn.due_in) == (0, "backing off", 5)
        await clock.advance(5)
        await settled(root)
        assert root.child("db").incarnation == 2


async def test_a_restart_that_failed_and_is_retried_at_once_is_waited_for() -> None:
    """From the end of a child to its next life an operation is in flight, at every single step."""
    steps: list[set[str]] = []

    async def third_time_lucky(*, task_status: TaskStatus[None]) -> None:
        life = otpy.current().incarnation
        if life in {2, 3}:
            raise OSError(life)
        task_status.started()
        await forever()

    tree = SupervisorSpec("app", [ChildSpec("db", third_time_lucky)], intensity=5)
    async with otpy.start(tree, hooks=()) as root:
        root.child("db").kill()
        with before_each_step(lambda _: steps.append({*_in_flight(root)})):
            await settled(root)
        assert root.child("db").incarnation == 4
    while not steps[-1]:  # the steps of the final check
        steps.pop()
    assert set[str]() not in steps
    assert set[str]().union(*steps) == {
        "app/db was told to end",
        "app/db has ended and its supervisor does not know yet",
        "app has an operation in progress",
        "app/db is starting",
        "app/db is to be restarted now",
    }


async def test_requests_in_progress_are_waited_for(clock: MockClock) -> None:
    """Starts and stops by hand count, in static and in dynamic supervisors, at any depth."""
    tree = SupervisorSpec("app", [DynamicSupervisor.spec("pool"), SupervisorSpec("fixed")])
    async with otpy.start(tree, hooks=()) as root:
        pool, fixed = (root.child(name).supervisor for name in ("pool", "fixed"))
        assert pool is not None
        assert fixed is not None
        tasks = [
            asyncio.create_task(pool.start_child(ChildSpec("a", slow, (3,)))),
            asyncio.create_task(fixed.start_child(ChildSpec("b", slow, (4,)))),
        ]
        await settled(root)
        assert clock.now == 4
        assert [task.done() for task in tasks] == [True, True]
        for task in tasks:
            await task
        stop = asyncio.create_task(pool.terminate_child("a"))
        root.whereis("app/fixed/b").exit()  # from outside: its supervisor does not know yet
        await settled(root)
        await stop
        assert clock.now == 4 + 4 + 4
        assert root.whereis("app/fixed/b").incarnation == 2


async def test_only_what_is_below_is_waited_for(clock: MockClock) -> None:
    """A supervisor is settled even while a sibling of it isn't."""
    tree = SupervisorSpec("app", [SupervisorSpec("left"), ChildSpec("right", slow, (3,))])
    async with otpy.start(tree, hooks=()) as root:
        root.child("right").exit()
        left = root.child("left").supervisor
        assert left is not None
        await settled(left)
        assert clock.now == 3
        await settled(root)
        assert clock.now == 9


async def test_a_tree_that_ended_is_settled() -> None:
    """A failed root waits for nothing."""
    told = asyncio.Event()
    tree = SupervisorSpec("app", [ChildSpec("db", fail_when, (told,))], intensity=0)
    waits: list[asyncio.Task[None]] = []
    with pytest.raises(otpy.SupervisorFailed):
        async with otpy.start(tree, hooks=()) as root:
            told.set()
            waits.append(asyncio.create_task(settled(root)))
            await root.wait()
    await waits[0]


def end(db: otpy.Process) -> None:
    db.exit()


def end_its_supervisor(db: otpy.Process) -> None:
    shell_of(db.parent).shut_down(otpy.Normal())


@pytest.mark.parametrize(
    ("act", "in_flight"),
    [(end, "app/in/db was told to end"), (end_its_supervisor, "app/in/db is stopping")],
)
async def test_what_takes_too_long_is_named(
    clock: MockClock, act: Callable[[otpy.Process], None], in_flight: str
) -> None:
    """The error has a type, a path and one line for each thing in progress."""
    tree = SupervisorSpec("app", [SupervisorSpec("in", [ChildSpec("db", slow, (4,))])])
    async with otpy.start(tree, hooks=()) as root:
        act(root.whereis("app/in/db"))
        with pytest.raises(NotSettled) as caught:
            await settled(root, timeout=2)
        assert clock.now == 6
    assert isinstance(caught.value, OtpyError | TimeoutError)
    assert caught.value.path == "app"
    assert in_flight in caught.value.in_flight
    assert str(caught.value).startswith("app: not settled within 2 s: ")
    assert in_flight in str(caught.value)


async def test_a_child_that_waits_for_its_own_tree_is_told_so() -> None:
    """Such a child is in flight itself while it starts."""

    async def impatient(*, task_status: TaskStatus[None]) -> None:
        await settled(otpy.current().root, timeout=1)

    with pytest.raises(otpy.SupervisorFailed, match="app/db is starting"):
        async with otpy.start(SupervisorSpec("app", [ChildSpec("db", impatient)]), hooks=()):
            pass


async def test_cancelling_the_wait_disturbs_nothing(clock: MockClock) -> None:
    """The operation goes on to its end after the wait was cancelled."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("a", slow, (5,))]), hooks=()) as root:
        root.child("a").exit()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await settled(root)
        await settled(root)
        assert clock.now == 15
        assert root.child("a").incarnation == 2


@types.coroutine
def steps_of(coroutine: Coroutine[Any, Any, None]) -> Generator[Any, None, int]:
    """Run `coroutine` and count how often it waits."""
    steps = 0
    while True:
        try:
            waits_for = coroutine.send(None)
        except StopIteration:
            return steps
        steps += 1
        yield waits_for


@pytest.mark.real_time
async def test_a_real_loop_settles_too() -> None:
    """Without a mock clock a few quiet turns count as settled; the wait does not spin."""
    told = asyncio.Event()
    children = [ChildSpec("db", fail_when, (told,)), ChildSpec("api", slow, (0.02,))]
    tree = SupervisorSpec("app", children, strategy=Strategy.ONE_FOR_ALL)
    async with otpy.start(tree, hooks=()) as root:
        told.set()
        steps = await steps_of(settled(root, timeout=5))
        assert [root.child(name).incarnation for name in ("db", "api")] == [2, 2]
        assert steps < 100
        root.child("api").exit()
        with pytest.raises(NotSettled):
            await settled(root, timeout=0.001)
