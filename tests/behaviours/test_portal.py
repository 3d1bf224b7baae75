"""`root.portal()`: how threads wait for the work of a tree."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import pytest
import uvloop

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    Portal,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime import portal as portal_module
from otpy._runtime.shells import shell_of
from otpy.errors import (
    AlreadyStarted,
    CallFailed,
    CallingSelf,
    CallTimeout,
    NotFound,
    NotRunning,
    StartFailed,
)
from tests.behaviours.servers import Add, Counter, Get, Script
from tests.runtime.children import forever, unready

pytestmark = pytest.mark.real_time

T = TypeVar("T")
Main = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
VARIABLE: ContextVar[str] = ContextVar("variable", default="nothing")


@pytest.fixture(params=["asyncio", "debug", "uvloop"])
def run(request: pytest.FixtureRequest) -> Main:
    """Run a coroutine function; the `debug` loop detects calls from other threads."""

    def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        make = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(debug=request.param == "debug", loop_factory=make) as runner:
            runner.run(main())

    return run


async def threaded(do: Callable[[], T]) -> T:
    """Run `do` in a thread of its own; return its result after the thread has ended."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def give(value: Any, error: BaseException | None) -> None:
        if result.cancelled():
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    def target() -> None:
        value, error = None, None
        try:
            value = do()
        except BaseException as raised:  # noqa: BLE001 - for whoever waits
            error = raised
        loop.call_soon_threadsafe(give, value, error)

    thread = threading.Thread(target=target)
    thread.start()
    try:
        return await result
    finally:
        thread.join()


async def until(number: int, root: Supervisor) -> None:
    """Wait until `number` threads wait for the tree."""
    while len(shell_of(root).tree.calls.waiting) < number:  # noqa: ASYNC110 - a thread cannot set an asyncio event
        await asyncio.sleep(0.001)


def tree(*children: ChildSpec) -> SupervisorSpec:
    return SupervisorSpec("app", [ChildSpec("counter", Counter), *children])


def test_a_thread_uses_a_tree(run: Main) -> None:
    """Like a sync view, a thread calls, casts, starts, inspects and stops children."""

    async def main() -> None:
        pool = DynamicSupervisor.spec("pool")
        async with otpy.start(SupervisorSpec("app", [*tree().children, pool])) as root:
            portal = root.portal()

            def view() -> None:
                counter = Counter.at("app/counter", root)
                assert portal.call(counter, Add(2)) == 2
                assert portal.call(counter, Get(), timeout=None) == 2
                portal.cast(counter, Add(3))
                assert portal.call(counter, Get(), 1.0) == 5
                process = portal.start_child(root.child("pool"), ChildSpec("x", forever))
                assert process is not None
                assert process.path == "app/pool/x"
                assert process.alive
                assert portal.start_child(root, ChildSpec("y", forever)) is root.child("y")
                assert [node.id for node in portal.call(root.snapshot).children][-1] == "y"
                portal.call(root.terminate_child, "y")
                assert process.exit_reason is None
                process.kill()
                assert portal.call(process.wait) == otpy.Killed()

            await threaded(view)

    run(main)


def test_what_a_call_raises_reaches_the_thread(run: Main) -> None:
    """The thread gets the same error as a caller in the loop."""

    async def main() -> None:
        async with otpy.start(tree(ChildSpec("script", Script, ([],)))) as root:
            portal = root.portal()
            untyped: Any = portal

            def silent(*_: object) -> otpy.server.NoReply[None]:
                return otpy.server.NoReply(None)

            def view() -> None:
                script, nobody = Script.at("app/script", root), Counter.at("app/nobody", root)
                with pytest.raises(CallTimeout):
                    portal.call(script, silent, timeout=0.001)
                with pytest.raises(CallFailed):
                    portal.call(nobody, Get())
                with pytest.raises(NotFound):
                    portal.call(root.terminate_child, "nobody")
                with pytest.raises(AlreadyStarted):
                    portal.start_child(root, ChildSpec("script", forever))
                with pytest.raises(StartFailed):
                    portal.start_child(root, ChildSpec("bad", unready))
                with pytest.raises(TypeError, match="is not a supervisor"):
                    portal.start_child(root.child("script"), ChildSpec("x", forever))
                with pytest.raises(TypeError, match="functools"):
                    untyped.call(forever, timeout=1)
                with pytest.raises(SystemExit):  # is the caller's own affair
                    portal.call(sys.exit, 3)

            await threaded(view)
            assert await Counter.at("app/counter", root).call(Get()) == 0

    run(main)


def test_functions_are_called_in_the_loop(run: Main) -> None:
    """This holds for plain functions, coroutine functions and those that return a future."""

    async def main() -> None:
        here = threading.get_ident()

        def plain(number: int) -> tuple[int, int, str]:
            return number, threading.get_ident(), VARIABLE.get()

        async def coroutine(number: int) -> tuple[int, int, str]:
            await asyncio.sleep(0)
            return plain(number)

        def awaitable(number: int) -> asyncio.Future[tuple[int, int, str]]:
            return asyncio.ensure_future(coroutine(number))

        async with otpy.start(tree()) as root:
            portal = root.portal()

            def view() -> None:
                VARIABLE.set("of the thread")
                for function in (plain, coroutine, awaitable):
                    found: Any = portal.call(function, 7)
                    assert found == (7, here, "of the thread")

            await threaded(view)

    run(main)


async def test_a_child_is_who_asks_in_its_own_thread() -> None:
    """`otpy.current()` and the owner of a task are the same in the thread."""

    async def child(*, task_status: Any) -> None:
        task_status.started(await asyncio.to_thread(use))
        await forever()

    async def done() -> str:
        return "done"

    def use() -> tuple[object, object]:
        process = otpy.current()
        tasks = TaskSupervisor(process.root.child("tasks"))
        portal = process.root.portal()
        task = portal.call(tasks.spawn, done)
        return task.owner, portal.call(task.result)

    spec = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), ChildSpec("c", child)])
    async with otpy.start(spec) as root:
        assert root.child("c").value == (root.child("c"), "done")


def test_a_task_that_a_thread_starts_can_be_cancelled(run: Main) -> None:
    """The future cancels it, even before it has begun, and a waiting thread learns of that."""

    async def main() -> None:
        begun, ended = threading.Event(), threading.Event()

        async def work() -> None:
            begun.set()
            try:
                await forever()
            finally:
                ended.set()

        async with otpy.start(tree()) as root:
            portal = root.portal()

            def view() -> None:
                future: Future[None] = portal.start_task_soon(work, name="mine")
                assert begun.wait(5)
                assert future.cancel()
                assert ended.wait(5)
                with pytest.raises(CancelledError):
                    future.result(5)
                assert portal.start_task_soon(asyncio.sleep, 0, "result").result(5) == "result"

            await threaded(view)
            begun.clear()
            futures: list[Future[None]] = []

            def regret() -> None:
                futures.append(portal.start_task_soon(work))
                futures[0].cancel()

            thread = threading.Thread(target=regret)
            thread.start()
            thread.join()  # the loop is blocked meanwhile
            await asyncio.sleep(0.01)
            assert not begun.is_set()
            assert futures[0].cancelled()
            assert not shell_of(root).tree.calls.waiting

    run(main)


async def test_a_task_that_cancels_itself_is_cancelled_for_the_thread_too() -> None:
    """The thread gets `CancelledError`, as with anyio's portal."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with otpy.start(tree()) as root:
        with pytest.raises(CancelledError):
            await threaded(lambda: root.portal().call(cancelled))


async def test_its_tasks_have_names() -> None:
    """A task is named after its function, unless the caller gives another name."""

    async def name() -> str:
        task = asyncio.current_task()
        return "" if task is None else task.get_name()

    async with otpy.start(tree()) as root:
        portal = root.portal()
        assert "test_its_tasks_have_names" in await threaded(lambda: portal.call(name))
        named: Callable[[], str] = lambda: portal.start_task_soon(name, name="me").result()  # noqa: E731
        assert await threaded(named) == "me"


async def test_the_loop_itself_is_refused() -> None:
    """The loop would wait for itself; only a cast is possible, which does not wait."""
    async with otpy.start(tree()) as root:
        portal, counter = root.portal(), Counter.at("app/counter", root)
        assert repr(portal) == "<Portal 'app'>"
        for wrong in (
            lambda: portal.call(counter, Get()),
            lambda: portal.call(root.snapshot),
            lambda: portal.start_child(root, ChildSpec("x", forever)),
            lambda: portal.start_task_soon(forever),
        ):
            with pytest.raises(CallingSelf, match="await it here"):
                wrong()
        portal.cast(counter, Add(1))
        assert await counter.call(Get()) == 1
        assert not shell_of(root).tree.calls.waiting


def test_after_the_tree_has_ended_everything_is_refused_at_once(run: Main) -> None:
    """This holds while the loop still runs, and after it is closed."""
    kept: list[Callable[[], None]] = []

    async def main() -> None:
        async with otpy.start(tree()) as root:
            portal, counter = root.portal(), Counter.at("app/counter", root)
            await root.stop()

            def view() -> None:
                for operation in (
                    lambda: portal.call(counter, Get()),
                    lambda: portal.call(root.snapshot),
                    lambda: portal.cast(counter, Add(1)),
                    lambda: portal.start_child(root, ChildSpec("x", forever)),
                    lambda: portal.start_task_soon(forever),
                ):
                    with pytest.raises(NotRunning, match=r"^app: "):
                        operation()

            kept.append(view)
            await threaded(view)

    run(main)
    thread = threading.Thread(target=kept[0])
    thread.start()
    thread.join()


async def test_a_loop_that_is_closed_without_a_stop_refuses_too() -> None:
    """No thread hangs after a program that ended without stopping its tree."""
    loop = asyncio.new_event_loop()
    found: list[Portal] = []

    async def leave() -> None:
        root = await otpy.start(tree(), hooks=()).__aenter__()
        found.append(root.portal())

    def program() -> None:
        loop.run_until_complete(leave())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    await asyncio.to_thread(program)
    with pytest.raises(NotRunning):
        await threaded(lambda: found[0].call(forever))
    with pytest.raises(NotRunning):  # in the thread in which the loop ran
        await asyncio.to_thread(lambda: found[0].call(forever))


def test_a_thread_may_stop_the_tree(run: Main) -> None:
    """The thread is told that the tree has stopped, although nothing in the tree runs any more."""

    async def main() -> None:
        async with otpy.start(tree()) as root:
            stopping = asyncio.ensure_future(threaded(lambda: root.portal().call(root.stop)))
            assert await root.wait() == otpy.Normal()
        await stopping

    run(main)


def test_calls_that_wait_for_the_tree_end_with_it(run: Main) -> None:
    """Each call ends as it would in the loop."""

    async def main() -> None:
        slow = ChildSpec("slow", asyncio.sleep, (60,))

        async def starting(*, task_status: object) -> None:
            await forever()

        def silent(*_: object) -> otpy.server.NoReply[None]:
            return otpy.server.NoReply(None)

        async with otpy.start(tree(slow, ChildSpec("script", Script, ([],)))) as root:
            portal, script = root.portal(), Script.at("app/script", root)
            process = root.child("slow")
            waiting = [
                asyncio.ensure_future(threaded(do))
                for do in (
                    lambda: portal.call(script, silent, timeout=None),
                    lambda: portal.call(process.wait),
                    lambda: portal.start_child(root, ChildSpec("new", starting, shutdown=0.01)),
                )
            ]
            await until(len(waiting), root)
        got = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(got[0], CallFailed)
        assert got[1] == Shutdown()
        assert isinstance(got[2], otpy.OtpyError)

    run(main)


def test_what_a_block_leaves_behind_is_cancelled(
    run: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task outlives the block, except one that refuses to end, and no thread waits for that."""
    monkeypatch.setattr(portal_module, "KILL_GRACE", 0.01)

    async def main() -> None:
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        async with otpy.start(tree()) as root:
            portal = root.portal()
            waiting = [
                asyncio.ensure_future(threaded(do))
                for do in (lambda: portal.call(forever), lambda: portal.call(stubborn))
            ]
            await until(len(waiting), root)
        assert not shell_of(root).tree.calls.waiting
        for thread in waiting:
            with pytest.raises(NotRunning):
                await thread
        release.set()
        await asyncio.sleep(0.001)

    run(main)


def test_a_host_that_is_cancelled_lets_calls_end_too(
    run: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even after several cancellations, the host ends only when no thread waits any more."""
    monkeypatch.setattr(portal_module, "KILL_GRACE", 0.05)

    async def main() -> None:
        calls: list[asyncio.Future[None]] = []

        async def host() -> None:
            async with otpy.start(tree()) as root:
                calls.append(asyncio.ensure_future(threaded(lambda: root.portal().call(forever))))
                await until(1, root)
                await forever()

        task = asyncio.create_task(host())
        await asyncio.sleep(0.02)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(NotRunning):
            await calls[0]
        await asyncio.wait([task])
        assert task.cancelled()

    run(main)


async def test_a_call_that_comes_with_the_end_of_the_tree_is_not_forgotten() -> None:
    """The call was on its way when the last turn of the loop was over."""
    async with otpy.start(tree()) as root:
        portal, futures = root.portal(), list[Future[None]]()
        await root.stop()
        thread = threading.Thread(target=lambda: futures.append(call.future))
        call = portal_module.PortalCall(shell_of(root).tree.calls, root, lambda: None, "late")
        # Like a thread that has not yet looked whether the tree has ended:
        shell_of(root).tree.calls.waiting[call] = None
        thread.start()
        thread.join()
    with pytest.raises(NotRunning):
        futures[0].result(0)
    assert isinstance(portal, Portal)


async def test_nothing_is_left_to_the_collector() -> None:
    """This holds for a call that succeeds and for one that fails."""
    async with otpy.start(tree()) as root:
        portal, counter = root.portal(), Counter.at("app/counter", root)

        def use() -> None:
            portal.call(counter, Get())
            with suppress(NotFound):
                portal.call(root.terminate_child, "nobody")

        await asyncio.to_thread(use)
        gc.collect()
        gc.disable()
        try:
            await asyncio.to_thread(use)
            assert gc.collect() == 0
        finally:
            gc.enable()
