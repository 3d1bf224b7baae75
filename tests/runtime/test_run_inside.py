"""`otpy.run` in the test's own process: its use of loops, signals and threads."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import otpy
from otpy import AutoShutdown, ChildSpec, DynamicSupervisor, InvalidSpec, Restart, SupervisorSpec
from otpy._runtime import run as run_module
from otpy._runtime.shells import shell_of
from otpy.testing import Recording, assert_reports
from tests.runtime.children import Journal, crash, forever, unready

pytestmark = pytest.mark.real_time
LEAVE = run_module.leave


@pytest.fixture(autouse=True)
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each status with which the process would have been left at once."""
    left: list[int] = []
    monkeypatch.setattr(run_module, "leave", left.append)
    return left


async def work() -> None:
    """Return at once."""


def ending(*children: ChildSpec, start: Any = work) -> SupervisorSpec:
    job = ChildSpec("job", start, restart=Restart.TEMPORARY, significant=True)
    return SupervisorSpec("app", [*children, job], auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)


def unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore a closed loop's message about a task that never ended."""


def raise_signal(*numbers: signal.Signals) -> None:
    for number in numbers:
        signal.raise_signal(number)


def test_it_returns_when_the_tree_has_ended(
    reports: Recording, capsys: pytest.CaptureFixture[str], left: list[int]
) -> None:
    """It leaves signals, loop and threads as they were."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    otpy.run(ending(ChildSpec("a", forever)), hooks=[reports])
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert_reports(list(reports)[-1:], "app stopped: shutdown")
    assert capsys.readouterr().err == "otpy: app ended: shutdown\n"
    assert left == []


@pytest.mark.parametrize(
    ("before", "rarely", "inside"),
    [(700, True, 50_000), (700, False, 700), (90_000, True, 90_000), (0, True, 0)],
)
def test_garbage_is_collected_rarely_while_it_runs(
    before: int, rarely: bool, inside: int, left: list[int]
) -> None:
    """An option turns this off, and a rarer or disabled collection of the program stays."""
    seen: list[int] = []

    async def look() -> None:
        seen.append(gc.get_threshold()[0])

    usual = gc.get_threshold()
    gc.set_threshold(before, 10, 10)
    try:
        otpy.run(ending(start=look), hooks=(), collect_rarely=rarely)
        seen.append(gc.get_threshold()[0])
    finally:
        gc.set_threshold(*usual)
    assert seen == [inside, before]


def test_threads_of_the_program_itself_are_not_waited_for(left: list[int]) -> None:
    """`run` returns without waiting for a thread that ran before the tree did."""
    free = threading.Event()
    own = threading.Thread(target=free.wait, args=(5,))
    own.start()
    try:
        otpy.run(ending(), hooks=())
        assert left == []
        assert own.is_alive()
    finally:
        free.set()
        own.join()


def test_a_failing_root_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """It raises `SystemExit` with 1, even when the tree could not start."""
    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", [ChildSpec("bad", crash)]), hooks=())
    assert caught.value.code == 1
    assert "gave up" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", [ChildSpec("bad", unready)]), hooks=())
    assert caught.value.code == 1
    assert "did not start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("numbers", "status", "said"),
    [
        ([signal.SIGINT], 130, "stopping"),
        ([signal.SIGTERM], 143, "stopping"),
        ([signal.SIGTERM, signal.SIGINT], 143, "killing"),
    ],
)
def test_signals_are_the_status(
    journal: Journal,
    capsys: pytest.CaptureFixture[str],
    numbers: list[signal.Signals],
    status: int,
    said: str,
) -> None:
    """The first decides the status, the second kills."""

    async def child() -> None:
        asyncio.get_running_loop().call_soon(raise_signal, *numbers)
        await journal.child("c")

    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=())
    assert caught.value.code == status
    assert said in capsys.readouterr().err
    assert journal.lines == ["+c", "-c"]


def test_a_signal_before_the_tree_exists_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    """It ends the program as soon as the tree has begun."""
    original = run_module._Program.run

    def run(self: Any) -> int:
        signal.raise_signal(signal.SIGTERM)
        return original(self)

    def late() -> None:
        pytest.fail("the signal was lost")

    async def alarm() -> None:
        await asyncio.sleep(0.5)
        late()

    monkeypatch.setattr(run_module._Program, "run", run)
    job = ChildSpec("job", alarm, restart=Restart.TEMPORARY, significant=True)
    spec = SupervisorSpec("app", [job], auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    with pytest.raises(SystemExit) as caught:
        otpy.run(spec, hooks=())
    assert caught.value.code == 143


@pytest.mark.parametrize("numbers", [1, 2])
def test_signals_while_the_tree_starts(
    numbers: int, capsys: pytest.CaptureFixture[str], journal: Journal
) -> None:
    """The first cancels the start and stops in order, the second kills."""

    async def starts_for_ever(*, task_status: object) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(raise_signal, *[signal.SIGTERM] * numbers)
        try:
            await asyncio.sleep(1 if numbers == 2 else 60)
        finally:
            journal.lines.append("-c" if asyncio.current_task() is not None else "")

    children = [
        journal.spec("a"),
        ChildSpec("c", starts_for_ever, shutdown=60, restart=Restart.TEMPORARY),
    ]
    begun = time.monotonic()
    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", children), hooks=())
    assert caught.value.code == 143
    assert time.monotonic() - begun < 0.7
    assert sorted(journal.lines) == ["+a", "-a", "-c"]
    assert "Traceback" not in capsys.readouterr().err


def test_a_signal_after_the_end_changes_nothing() -> None:
    """The tree has already ended, so there is nothing to stop."""

    async def child() -> None:
        root = otpy.current().parent
        assert isinstance(root, otpy.Supervisor)
        await asyncio.sleep(0.01)  # until the block is entered
        shell_of(root).on_end = lambda: signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit) as caught:
        otpy.run(ending(start=child), hooks=())
    assert caught.value.code == 143


def test_a_signal_while_the_root_gives_up_is_the_status(journal: Journal) -> None:
    """The end was wanted, so the status is that of the signal."""

    async def child() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, signal.raise_signal, signal.SIGTERM)
        raise ValueError

    children = [journal.spec("a", 0.05), ChildSpec("c", child)]
    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", children, intensity=0), hooks=())
    assert caught.value.code == 143


def test_keyboard_interrupt_in_a_child_is_a_signal(journal: Journal) -> None:
    """It reaches the runner, which stops the tree in order."""

    async def child() -> None:
        raise KeyboardInterrupt

    tree = SupervisorSpec("app", [journal.spec("a"), ChildSpec("c", child)])
    with pytest.raises(SystemExit) as caught:
        otpy.run(tree, hooks=())
    assert caught.value.code == 130
    assert journal.lines == ["+a", "-a"]


def test_left_over_tasks_are_cancelled() -> None:
    """AIO-20: a task that a child left behind does not outlive the program."""
    seen: list[str] = []

    async def helper() -> None:
        try:
            await forever()
        finally:
            seen.append("helper")

    async def child() -> None:
        tasks.append(asyncio.create_task(helper()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    otpy.run(ending(start=child), hooks=())
    assert seen == ["helper"]
    assert tasks[0].cancelled()


@pytest.mark.parametrize("kind", ["task", "thread"])
def test_what_refuses_to_end_is_named_and_left(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    left: list[int],
    kind: str,
) -> None:
    """The process ends without waiting for helper tasks and threads that do not end."""
    free = threading.Event()
    monkeypatch.setattr(run_module, "KILL_GRACE", 0.02)
    threads: list[threading.Thread] = []

    async def refuses() -> None:
        while True:
            try:
                await forever()
            except asyncio.CancelledError:
                if free.is_set():
                    raise

    async def child() -> None:
        if kind == "task":
            tasks.append(asyncio.create_task(refuses(), name="refuser"))
        else:
            thread = threading.Thread(target=free.wait, args=(5,), name="refuser")
            thread.start()
            threads.append(thread)
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    otpy.run(ending(start=child), hooks=())
    free.set()
    for thread in threads:
        thread.join(5)
    assert left == [0]
    err = capsys.readouterr().err
    if kind == "task":
        assert "otpy: task refuser refuses to end" in err
        assert "refuses (" in err
        tasks[0].get_loop().set_exception_handler(unheard)
    else:
        assert "otpy: thread refuser does not end" in err
        assert "Condition.wait (" in err


def test_a_third_signal_leaves_at_once(capsys: pytest.CaptureFixture[str], left: list[int]) -> None:
    """This works wherever the program is, and prints its stack first."""

    async def child() -> None:
        raise_signal(signal.SIGINT, signal.SIGINT, signal.SIGTERM)
        await forever()

    with pytest.raises(SystemExit):
        otpy.run(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=())
    assert left == [143]
    err = capsys.readouterr().err
    assert "SIGTERM for the third time" in err
    assert "raise_signal(signal.SIGINT, signal.SIGINT, signal.SIGTERM)" in err


def test_leaving_flushes_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffered output is not lost."""
    calls: list[object] = []
    monkeypatch.setattr(os, "_exit", calls.append)
    monkeypatch.setattr(sys.stdout, "flush", lambda: calls.append("stdout"))
    monkeypatch.setattr(sys.stderr, "flush", lambda: calls.append("stderr"))
    LEAVE(3)
    assert calls == ["stdout", "stderr", 3]


def test_a_bad_spec_is_refused_before_anything_happens() -> None:
    """No loop and no signal handler is made: the caller gets `InvalidSpec`."""
    with pytest.raises(InvalidSpec):
        otpy.run("junk", hooks=())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_an_idle_program_hears_a_signal_at_once() -> None:
    """The signal may reach another thread, or come just before the loop sleeps."""

    async def wake() -> None:
        timer = threading.Timer(0.02, signal.raise_signal, [signal.SIGTERM])
        timer.start()
        await asyncio.sleep(1)  # the loop would notice here at the latest
        timer.join()

    begun = time.monotonic()
    with pytest.raises(SystemExit) as caught:
        otpy.run(SupervisorSpec("app", [ChildSpec("wake", wake)]), hooks=())
    assert caught.value.code == 143
    assert time.monotonic() - begun < 0.7


def test_a_pool_may_be_a_program(reports: Recording) -> None:
    """Any supervisor may be the root."""

    async def child() -> None:
        shell_of(otpy.current().parent).shut_down(otpy.Normal())

    async def fill() -> AsyncGenerator[otpy.DynamicSupervisor]:
        async with otpy.start(DynamicSupervisor.spec("pool"), hooks=[reports]) as pool:
            await pool.start_child(ChildSpec("c", child))
            yield pool

    otpy.run(asynccontextmanager(fill))
    assert_reports(list(reports)[-1:], "pool stopped: normal")


async def test_it_refuses_a_loop_that_runs() -> None:
    """The error says what to use instead, and nothing is left behind."""
    with pytest.raises(RuntimeError, match=r"use otpy\.start\(\)"):
        otpy.run(SupervisorSpec("app"))


def test_it_refuses_another_thread() -> None:
    """Signals reach the main thread only."""
    caught: list[str] = []

    def elsewhere() -> None:
        try:
            otpy.run(SupervisorSpec("app"))
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    (message,) = caught
    assert message.endswith("belongs in the main thread; use otpy.start()")
