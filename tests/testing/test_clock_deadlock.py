"""`Deadlock`: raised when no task can ever be woken again, and only then."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from collections.abc import Callable, Coroutine

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from otpy import OtpyError
from otpy.testing import Deadlock, MockClock, virtual_loop
from tests.testing.delays import BRIEF, blocked, slow, stranger, year_in


async def nursery(children: int) -> None:
    """Wait for this many children that are all blocked."""
    async with asyncio.TaskGroup() as group:
        for number in range(children):
            group.create_task(blocked(), name=f"child-{number:02}")


def test_it_is_raised_and_counts_the_blocked() -> None:
    """A tree in which every task waits for ever is an error that says how many wait, and when."""
    with pytest.raises(Deadlock, match=r"12 tasks blocked for .* 0\.0 s: .*child-00") as caught:
        MockClock().run(nursery(11))
    assert caught.value.blocked == 12
    assert {OtpyError, RuntimeError} < {*Deadlock.mro()}


@pytest.mark.parametrize(("children", "cut"), [(9, False), (10, True)])
def test_it_names_ten_tasks_at_most(children: int, cut: bool) -> None:
    """Ten names fit into the message; of more it shows that there are more."""
    with pytest.raises(Deadlock) as caught:
        MockClock().run(nursery(children))
    text = str(caught.value)
    assert text.endswith(", …") is cut
    assert text.count("child-") + text.count("Task-") == 10


def test_it_notes_where_each_of_them_waits() -> None:
    """A name such as Task-7 says nothing; the line of code that waits does. Ten are enough."""
    with pytest.raises(Deadlock, match=r"^1 task blocked") as caught:
        MockClock().run(blocked())
    (note,) = caught.value.__notes__
    assert note.startswith("task Task-")
    assert "which is at\n  blocked (" in note
    with pytest.raises(Deadlock) as caught:
        MockClock().run(nursery(11))
    assert len(caught.value.__notes__) == 10


@pytest.mark.parametrize("forever", [anyio.sleep_forever, lambda: asyncio.sleep(math.inf)])
def test_an_endless_sleep_is_one(forever: Callable[[], Coroutine[None, None, None]]) -> None:
    """A timer that is never due can wake no task."""
    with pytest.raises(Deadlock):
        MockClock().run(forever())


async def test_an_endless_sleep_among_others_is_none(clock: MockClock) -> None:
    """The clock goes to the timers that are due some day, and never to the end of time."""
    endless = asyncio.create_task(asyncio.sleep(math.inf))
    await asyncio.sleep(3600)
    assert clock.now == 3600
    assert not endless.done()
    endless.cancel()


def test_it_breaks_out_of_a_runner() -> None:
    """Any runner of the loop raises it, with the moment at which everything stood still."""
    with asyncio.Runner(loop_factory=MockClock().loop_factory) as runner:
        runner.run(asyncio.sleep(5))
        with pytest.raises(Deadlock, match=r"at 5\.0 s"):
            runner.run(blocked())


def test_the_blocked_may_clean_up_after_it() -> None:
    """Every task that was stuck is cancelled, and its clean-up takes the time it needs."""
    clock = MockClock()
    cleaned: list[float] = []

    async def main() -> None:
        try:
            await blocked()
        finally:
            await asyncio.sleep(5)
            cleaned.append(clock.now)

    with pytest.raises(Deadlock):
        clock.run(main())
    assert cleaned == [5]


def test_idle_pool_threads_raise_no_doubt_about_it() -> None:
    """Threads that wait for work cannot wake a task, and are not suspected of it."""

    async def main() -> None:
        await asyncio.to_thread(slow, seconds=0)
        await anyio.to_thread.run_sync(slow, 7, 0)
        await blocked()

    with pytest.raises(Deadlock, match=r"^(?!.*nothing came)"):
        MockClock().run(main())


async def test_what_a_known_thread_may_bring_is_none() -> None:
    """The clock waits for a call in flight, for as long as nothing else can run."""
    call = asyncio.to_thread(slow, 7, virtual_loop.DEADLOCK_AFTER * 1.5)
    assert await call == 7


async def test_what_an_unknown_thread_may_bring_is_none() -> None:
    """A thread unknown to the loop may still wake a task."""
    assert await stranger(virtual_loop.DEADLOCK_AFTER * 1.5) == 7


def test_what_the_main_thread_may_bring_is_none() -> None:
    """A loop in another thread waits for the main thread, which may still send it work."""
    options = {"loop_factory": MockClock().loop_factory}
    with anyio.from_thread.start_blocking_portal("asyncio", options) as portal:
        time.sleep(virtual_loop.DEADLOCK_AFTER * 1.5)
        assert portal.call(year_in, 86_400) == 2030


def test_in_doubt_it_names_the_suspects(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an unknown thread could have woken a task, the message names the thread and the remedy."""
    monkeypatch.setattr(virtual_loop, "DOUBT", 0.01)

    async def main() -> None:
        threading.Thread(target=slow, args=(0, 2 * BRIEF), name="sqlite").start()
        await blocked()

    with pytest.raises(Deadlock, match=r"nothing came from thread sqlite .*clock\.hold"):
        MockClock().run(main())


def test_in_doubt_it_names_open_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a peer behind a socket could have woken a task, the message names the descriptor."""
    monkeypatch.setattr(virtual_loop, "DOUBT", 0.01)
    ours, theirs = socket.socketpair()

    async def main() -> None:
        asyncio.get_running_loop().add_reader(ours, pytest.fail)
        await blocked()

    with ours, theirs:
        number = ours.fileno()
        with pytest.raises(Deadlock, match=rf"nothing came from descriptor {number} .*clock\.hold"):
            MockClock().run(main())
