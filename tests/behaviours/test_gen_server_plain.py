"""A server needs no task until a callback returns an awaitable."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

import anyio
import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    GenServer,
    Killed,
    Normal,
    Process,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.errors import BadReturn, CallFailed
from otpy.server import Caller, NoReply, Reply, ServerRef
from otpy.testing import MockClock
from tests.behaviours.servers import Script, busy, echo, fail, note, running, stop
from tests.runtime.children import Boom, turns

SETTING: ContextVar[int] = ContextVar("setting", default=0)


class Plain(GenServer[Any, Any, Any]):
    """A server with plain callbacks only; its messages are functions, as those of `Script` are."""

    def init(self, log: list[Any]) -> Any:
        self.log = log
        return "state"

    def handle_call(self, request: Any, caller: Caller[Any], state: Any) -> Any:
        return request(self, caller, state)

    def handle_cast(self, request: Any, state: Any) -> Any:
        return request(self, state)

    def terminate(self, reason: Any, state: Any) -> None:
        self.log.append(("terminate", reason, state))


@asynccontextmanager
async def plainly(
    server: type[Plain] = Plain,
) -> AsyncGenerator[tuple[Supervisor, Process, ServerRef[Any, Any], list[Any]]]:
    """Run one `Plain` under a supervisor; yield that, its process, a handle and its log."""
    log: list[Any] = []
    spec = ChildSpec("s", server, (log,), restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
        yield app, app.child("s"), Plain.at("app/s", app), log


def own_tasks(process: Process) -> list[asyncio.Task[Any]]:
    """Return the tasks that are named after the path of the process."""
    return [task for task in asyncio.all_tasks() if task.get_name() == process.path]


def _is_context_of(thing: object, process: Process) -> bool:
    return type(thing) is Context and process in thing.values()


class TestWithoutTask:
    async def test_a_plain_server_never_has_one(self) -> None:
        """This holds from its start, through a call, to its end."""
        seen: list[Any] = []

        def look(server: Plain, caller: Caller[Any], state: Any) -> Reply[Any, Any]:
            seen.append((asyncio.current_task(), otpy.current()))
            return Reply("looked", state)

        async with plainly() as (app, process, ref, _log):
            assert await ref.call(look) == "looked"
            assert seen == [(None, process)]
            assert own_tasks(process) == []
            await app.terminate_child("s")
            assert process.exit_reason == Shutdown()

    async def test_context_variables_last_for_the_life(self) -> None:
        """As in a task, the next callback sees what one callback sets; code outside does not."""

        def add(server: Any, caller: Caller[Any], state: Any) -> Reply[int, Any]:
            SETTING.set(SETTING.get() + 1)
            return Reply(SETTING.get(), state)

        async def add_slowly(server: Any, caller: Caller[Any], state: Any) -> Reply[int, Any]:
            await asyncio.sleep(0)
            return add(server, caller, state)

        async with running() as (_, _process, ref, _log):
            got = [await ref.call(ask) for ask in (add, add, add_slowly, add)]
            assert got == [1, 2, 3, 4]
            assert SETTING.get() == 0

    @pytest.mark.parametrize("outside", [None, 3])
    async def test_what_init_sets_may_be_reset_later(self, outside: int | None) -> None:
        """A token from `init` stays valid in an idle server, even if it changed nothing."""

        class Setting(Plain):
            def init(self, log: list[Any]) -> Any:
                return SETTING.set(SETTING.get())

        def reset(server: Any, caller: Caller[Any], state: Any) -> Reply[Any, Any]:
            SETTING.reset(state)
            return Reply((SETTING.get(), otpy.current()), state)

        token = None if outside is None else SETTING.set(outside)
        async with plainly(Setting) as (_, process, ref, _log):
            await turns(5)
            assert await ref.call(reset) == (outside or 0, process)
        if token is not None:
            SETTING.reset(token)

    async def test_an_idle_server_keeps_no_context(self) -> None:
        """A context that holds only the current process is made again for the first message."""

        def look(server: Plain, caller: Caller[Any], state: Any) -> Reply[Any, Any]:
            return Reply((otpy.current(), len(copy_context())), state)

        async def host() -> None:
            async with plainly() as (_, process, ref, _log):
                await turns(5)
                assert not [c for c in gc.get_objects() if _is_context_of(c, process)]
                assert await ref.call(look) == (process, 1)

        await asyncio.create_task(host(), context=Context())

    async def test_a_plain_callback_may_make_tasks(self) -> None:
        """Such a task belongs to the server, and `otpy.current()` returns that server."""
        found: list[Process] = []

        async def helper(caller: Caller[Any]) -> None:
            await asyncio.sleep(1)
            found.append(otpy.current())
            caller.reply("from the helper")

        def ask(server: Plain, caller: Caller[Any], state: Any) -> NoReply[Any]:
            server.log.append(asyncio.create_task(helper(caller)))
            return NoReply(state)

        async with plainly() as (_, process, ref, _log):
            assert await ref.call(ask) == "from the helper"
            assert found == [process]


class TestIntoATask:
    async def test_the_first_awaitable_is_awaited_once(self) -> None:
        """As with later ones, an awaitable that returns an awaitable is a bad result."""

        async def nested(server: Plain, state: Any) -> Any:
            inner = asyncio.get_running_loop().create_future()
            inner.set_result(NoReply(state))
            return inner

        async with plainly() as (_, process, ref, _log):
            ref.cast(nested)
            reason = await asyncio.wait_for(process.wait(), 1)
            assert isinstance(reason, Crashed)
            assert isinstance(reason.error, BadReturn)

    async def test_the_first_awaitable_makes_a_task_that_is_kept(self) -> None:
        """One callback can so leave what another has entered."""

        async def enter(server: Script, state: Any) -> NoReply[Any]:
            group = anyio.create_task_group()
            await group.__aenter__()
            group.start_soon(asyncio.sleep, 1)
            return NoReply(group)

        async def leave(server: Script, caller: Caller[Any], group: Any) -> Reply[Any, Any]:
            await group.__aexit__(None, None, None)
            return Reply(asyncio.current_task(), "state")

        async with running() as (_, process, ref, _log):
            assert own_tasks(process) == []
            ref.cast(enter)
            ref.cast(lambda server, state: NoReply(state))
            assert [await ref.call(leave)] == own_tasks(process) == [live_of(process).task]

    async def test_timeouts_work_inside_of_the_first(self, clock: MockClock) -> None:
        """The timeouts of asyncio and anyio work, which both need a task."""

        async def late(server: Script, caller: Caller[Any], state: Any) -> Reply[Any, Any]:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.sleep(9)
            with anyio.move_on_after(1):
                await asyncio.sleep(9)
            return Reply("in time", state)

        async with running() as (_, _process, ref, _log):
            assert await ref.call(late) == "in time"
            assert clock.now == 2

    async def test_the_order_of_messages_holds(self) -> None:
        """GEN-08: a message that arrives while the task is made is served by the task, in turn."""
        async with running() as (_, _process, ref, log):
            ref.cast(note(1))
            ref.cast(busy(0))
            ref.cast(note(2))
            await turns(1)
            ref.cast(note(3))
            assert await ref.call(echo(4)) == 4
            assert log == [1, 2, 3]

    async def test_the_first_message_is_not_kept(self) -> None:
        """The first message is freed, although the task that was made for it lives on."""
        async with running() as (_, process, ref, _log):
            first = busy(0)
            kept = weakref.ref(first)
            ref.cast(first)
            del first
            assert await ref.call(echo(1)) == 1
            assert own_tasks(process) == [live_of(process).task]
            gc.collect()
            assert kept() is None

    @pytest.mark.parametrize("early", [True, False])
    async def test_killed_before_the_task_has_begun(self, early: bool) -> None:
        """AIO-04: the coroutine is closed, so Python does not warn."""
        begun: list[str] = []

        async def slow(server: Script, state: Any) -> NoReply[Any]:
            begun.append("begun")
            return NoReply(state)

        def kill_oneself(server: Script, state: Any) -> Any:
            otpy.current().kill()
            return slow(server, state)

        async with running() as (_, process, ref, _log):
            ref.cast(kill_oneself if early else slow)
            process.kill()  # carried out after the callback, before the first step of the task
            assert await process.wait() == Killed()
            assert begun == []


class TestEnds:
    @pytest.mark.parametrize("turn", [0, 1, 5])
    async def test_killed_while_idle_it_ends_at_once(self, turn: int, clock: MockClock) -> None:
        """GEN-19: it ends without `terminate`, even before it has begun."""
        log: list[Any] = []
        spec = ChildSpec("s", Plain, (log,), restart=Restart.TEMPORARY)
        async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
            starting = asyncio.ensure_future(app.start_child(spec))
            await turns(1)
            if turn == 0:  # in the turn of its start
                shell_of(app).tree.order(lambda: live_of(app.child("s")).stop(kill=True))
            await turns(1)
            process = app.child("s")
            await turns(turn)
            process.kill()
            assert await process.wait() == Killed()
            await asyncio.wait([starting])
            assert (clock.now, log) == (0, [])
            assert isinstance(starting.exception(), otpy.OtpyError) is (turn == 0)

    async def test_killed_in_its_own_callback_it_serves_no_more(self) -> None:
        """Later messages are lost, and their callers are told."""

        def kill(server: Plain, state: Any) -> NoReply[Any]:
            otpy.current().kill()
            return NoReply(state)

        async with plainly() as (_, process, ref, log):
            ref.cast(kill)
            ref.cast(note("behind"))
            with pytest.raises(CallFailed) as caught:
                await ref.call(echo(1))
            assert caught.value.reason == process.exit_reason == Killed()
            assert log == []

    @pytest.mark.parametrize("error", [Boom("x"), SystemExit(3), GeneratorExit()])
    async def test_what_a_callback_raises_is_the_reason(self, error: BaseException) -> None:
        """AIO-12: any exception is the reason, with the line that raised it."""
        async with plainly() as (_, process, ref, _log):
            ref.cast(fail(error))
            assert await process.wait() == Crashed(error)
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            assert frame is not None
            assert frame.tb_frame.f_code.co_qualname == "fail.<locals>.do"

    async def test_a_cancellation_out_of_a_callback_is_a_kill(self) -> None:
        """AIO-08: it counts as a cancellation of the task by foreign code."""
        async with plainly() as (_, process, ref, log):
            ref.cast(fail(asyncio.CancelledError()))
            assert await process.wait() == Killed()
            assert log == []

    @pytest.mark.parametrize("where", ["callback", "terminate"])
    async def test_a_failing_terminate_is_the_reason(self, where: str) -> None:
        """GEN-21, GEN-10: this holds without a task too, and the reply is still sent."""

        class Failing(Plain):
            def terminate(self, reason: Any, state: Any) -> None:
                raise Boom("worse")

        async with plainly(Failing) as (_, process, ref, _log):
            if where == "terminate":
                assert await ref.call(stop(Normal(), "reply")) == "reply"
            else:
                ref.cast(fail(Boom("first")))
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert str(reason.error) == "worse"
            context = reason.error.__context__
            assert str(context) == ("first" if where == "callback" else "None")

    @pytest.mark.real_time
    async def test_a_thread_that_it_left_behind_is_waited_for(self) -> None:
        """AIO-13: a stop waits for the thread, as with every other child."""
        entered, free = threading.Event(), threading.Event()

        def hold_on() -> None:
            entered.set()
            free.wait(3)  # a defect fails the test and does not hang it

        def work(server: Plain, state: Any) -> NoReply[Any]:
            server.log.append(asyncio.create_task(asyncio.to_thread(hold_on)))
            return NoReply(state)

        async with plainly() as (_, process, ref, _log):
            ref.cast(work)
            while not entered.is_set():  # noqa: ASYNC110 - a thread cannot set an asyncio event
                await asyncio.sleep(0.001)
            process.exit()
            await turns(5)
            assert process.alive
            assert not live_of(process).runs
            free.set()
            assert await process.wait() == Shutdown()


def test_an_interrupt_in_a_callback_goes_to_the_loop() -> None:
    """Ctrl-C interrupts the program, whichever code is running, and the server ends by it."""
    processes: list[Process] = []

    async def program() -> None:
        async with plainly() as (_, process, ref, _log):
            processes.append(process)
            ref.cast(fail(KeyboardInterrupt()))
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(program())
    assert isinstance(processes[0].exit_reason, Crashed)
