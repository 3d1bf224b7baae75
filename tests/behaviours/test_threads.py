"""Trees used from threads: orders work at once, and whatever must be awaited is refused."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvloop

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Killed,
    PartitionSupervisor,
    Process,
    Registry,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours import mailbox
from otpy.behaviours.mailbox import Mailbox
from otpy.behaviours.server import Server
from otpy.errors import WrongThread
from otpy.registry import Keys, Via
from otpy.server import NoReply, Reply
from otpy.signals import ExitSignal
from otpy.specs import DynamicSpec
from otpy.testing import settled
from tests.behaviours.servers import Counter, Get
from tests.runtime.children import forever

pytestmark = pytest.mark.real_time

PATIENCE = 30.0  # seconds; the loop is idle meanwhile, and nothing else wakes it

Main = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["asyncio", "debug", "uvloop"])
def run(request: pytest.FixtureRequest) -> Main:
    """Run a coroutine function; the `debug` loop detects calls from other threads."""

    def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        make = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(debug=request.param == "debug", loop_factory=make) as runner:
            runner.run(main())

    return run


@pytest.fixture
def fine() -> Iterator[None]:
    """Let threads switch after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Log(GenServer[Any, list[Any], list[Any]]):
    """A server that keeps each message, and sets an event when one arrives."""

    def init(self, came: asyncio.Event | None = None) -> list[Any]:
        self.came = came or asyncio.Event()
        return []

    def handle_call(self, request: Any, caller: object, state: list[Any]) -> Any:
        return Reply(state, state)

    def handle_cast(self, request: Any, state: list[Any]) -> NoReply[list[Any]]:
        state.append(request)
        self.came.set()
        return NoReply(state)

    def handle_info(self, message: object, state: list[Any]) -> NoReply[list[Any]]:
        return self.handle_cast(message, state)


class SlowLog(Log):
    """The same server, in a task."""

    async def handle_cast(self, request: Any, state: list[Any]) -> NoReply[list[Any]]:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(0)
        return super().handle_cast(request, state)


async def in_thread(do: Callable[[], object]) -> None:
    """Call `do` in a thread whose end does not wake the loop."""
    raised: list[BaseException] = []

    def target() -> None:
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    for error in raised:
        raise error


@asynccontextmanager
async def started() -> AsyncGenerator[Supervisor]:
    """Start a tree with one child of each kind."""
    children: list[ChildSpec | SupervisorSpec | DynamicSpec] = [
        Registry.spec("names"),
        ChildSpec("log", Log),
        ChildSpec("idle", forever),
        DynamicSupervisor.spec("pool"),
        TaskSupervisor.spec("tasks"),
        PartitionSupervisor.spec("parts", ChildSpec("log", Log), partitions=2),
    ]
    async with otpy.start(SupervisorSpec("app", children)) as root:
        yield root


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [Log, SlowLog])
@pytest.mark.parametrize("how", ["cast", "send"])
@pytest.mark.parametrize("target", ["process", "path", "name", "partition", "function"])
def test_a_message_from_a_thread_is_served_at_once(
    run: Main, log: type[Log], how: str, target: str
) -> None:
    """The message wakes a sleeping loop."""

    async def main() -> None:
        came = asyncio.Event()

        class Named(log):  # type: ignore[valid-type, misc]
            def init(self, came: asyncio.Event | None = None) -> Any:
                Registry.of(otpy.current().root.child("names")).register("log")
                return super().init(came)

        children: list[ChildSpec | SupervisorSpec] = [
            Registry.spec("names", keys=Keys.UNIQUE),
            ChildSpec("log", Named, (came,)),
            PartitionSupervisor.spec("parts", ChildSpec("log", log, (came,)), partitions=1),
        ]
        async with otpy.start(SupervisorSpec("app", children)) as root:
            names = Registry.of(root.child("names"))

            def send() -> None:
                whom: dict[str, Any] = {
                    "process": root.child("log"),
                    "path": "app/log",
                    "name": Via(names, "log"),
                    "partition": Via(PartitionSupervisor(root.child("parts")), 1),
                    "function": lambda: root.child("log"),
                }
                getattr(Log.at(whom[target], root), how)("hello")

            await asyncio.sleep(0)
            for _ in range(3):
                await in_thread(send)
                async with asyncio.timeout(PATIENCE):
                    await came.wait()
                came.clear()

    run(main)


@pytest.mark.parametrize("order", ["exit", "kill", "supervisor.kill", "supervisor.shut_down"])
def test_an_end_that_a_thread_orders_comes_at_once(run: Main, order: str) -> None:
    """The process ends with the reason of the order."""

    async def main() -> None:
        inner = SupervisorSpec("in", [ChildSpec("a", forever)], restart=otpy.Restart.TEMPORARY)
        idle = ChildSpec("idle", forever, restart=otpy.Restart.TEMPORARY)
        async with otpy.start(SupervisorSpec("app", [idle, inner])) as root:
            await asyncio.sleep(0)
            process = root.child("in" if "." in order else "idle")
            if process.supervisor is None:
                do = {"exit": lambda: process.exit(Shutdown("enough")), "kill": process.kill}
            else:
                below = process.supervisor
                do = {
                    "supervisor.kill": below.kill,
                    "supervisor.shut_down": lambda: shell_of(below).shut_down(Shutdown("enough")),
                }
            await in_thread(do[order])
            async with asyncio.timeout(PATIENCE):
                reason = await process.wait()
            assert reason == (Killed() if "kill" in order else Shutdown("enough"))

    run(main)


def test_an_exit_signal_from_a_thread_is_trapped(run: Main) -> None:
    """The signal names the process to which the thread belongs."""

    async def main() -> None:
        trapped: asyncio.Queue[ExitSignal] = asyncio.Queue()

        async def traps() -> None:
            async for signal in otpy.signals.trap_exit():
                trapped.put_nowait(signal)

        async def sends() -> None:
            process = otpy.current().root.child("traps")
            await asyncio.to_thread(process.exit, Shutdown("you"))
            await forever()

        spec = SupervisorSpec("app", [ChildSpec("traps", traps), ChildSpec("sends", sends)])
        async with otpy.start(spec) as root:
            async with asyncio.timeout(PATIENCE):
                signal = await trapped.get()
            assert signal == ExitSignal(root.child("sends"), Shutdown("you"))
            assert root.child("traps").alive

    run(main)


@pytest.mark.parametrize("log", [Log, SlowLog])
@pytest.mark.usefixtures("fine")
def test_no_message_is_lost_or_overtakes_another_of_its_sender(run: Main, log: type[Log]) -> None:
    """Three threads and the loop send to servers that have had no message before."""

    async def main() -> None:
        names, count = [f"log{number}" for number in range(20)], 100
        children = [ChildSpec(name, log) for name in names]
        async with otpy.start(SupervisorSpec("app", children)) as root:
            ready = threading.Barrier(4)

            def send(sender: int) -> None:
                refs = [Log.at(root.child(name)) for name in names]
                ready.wait()
                for number in range(count):
                    for ref in refs:
                        ref.cast((sender, number))

            threads = [threading.Thread(target=send, args=(sender,)) for sender in range(3)]
            for thread in threads:
                thread.start()
            ready.wait()
            refs = [Log.at(root.child(name)) for name in names]
            for number in range(count):
                for ref in refs:
                    ref.cast((3, number))
                await asyncio.sleep(0)
            while any(thread.is_alive() for thread in threads):  # noqa: ASYNC110 - see above
                await asyncio.sleep(0)
            for ref in refs:
                got = await ref.call(None, timeout=PATIENCE)
                assert len(got) == 4 * count
                for sender in range(4):
                    assert [n for who, n in got if who == sender] == [*range(count)]

    run(main)


@pytest.mark.usefixtures("fine")
def test_a_message_that_comes_while_its_server_falls_asleep_is_served(run: Main) -> None:
    """Each message alone must wake the server: a missed one would be the last."""

    async def main() -> None:
        class Echo(GenServer[threading.Event, None, None]):
            def init(self) -> None:
                pass

            def handle_cast(self, request: threading.Event, state: None) -> NoReply[None]:
                request.set()
                return NoReply(None)

        async with otpy.start(SupervisorSpec("app", [ChildSpec("echo", Echo)])) as root:
            ref, lost = Echo.at(root.child("echo")), list[int]()

            def send() -> None:
                for number in range(300):
                    served = threading.Event()
                    ref.cast(served)
                    if not served.wait(PATIENCE):
                        lost.append(number)
                        return

            await asyncio.to_thread(send)
            assert lost == []

    run(main)


@pytest.mark.usefixtures("fine")
def test_messages_of_threads_survive_what_takes_others_back(run: Main) -> None:
    """A `demonitor` looks through the mailbox while a thread adds to it."""

    async def main() -> None:
        class Watcher(Log):
            def handle_cast(self, request: Any, state: list[Any]) -> NoReply[list[Any]]:
                if request == "watch":
                    for _ in range(3):
                        self.monitor(otpy.current().root.child("idle")).demonitor()
                return super().handle_cast(request, state)

        spec = SupervisorSpec("app", [ChildSpec("idle", forever), ChildSpec("w", Watcher)])
        async with otpy.start(spec) as root:
            ref = Watcher.at(root.child("w"))

            def send() -> None:
                for number in range(500):
                    ref.cast(number)
                    ref.cast("watch")

            await asyncio.to_thread(send)
            got = await ref.call(None)
            assert [number for number in got if number != "watch"] == [*range(500)]

    run(main)


def test_a_reply_from_a_thread_arrives_at_once(run: Main) -> None:
    """A server may let threads work on its requests."""

    async def main() -> None:
        class Delegates(GenServer[int, int, None]):
            def init(self) -> None:
                pass

            def handle_call(self, request: int, caller: Any, state: None) -> NoReply[None]:
                threading.Timer(0.01, caller.reply, (request * 2,)).start()
                return NoReply(None)

        async with otpy.start(SupervisorSpec("app", [ChildSpec("d", Delegates)])) as root:
            assert await Delegates.at(root.child("d")).call(21) == 42

    run(main)


# --- what is refused ------------------------------------------------------------------------------


async def _suspend_and_more(root: Supervisor, name: str) -> object:
    ref = Log.at("app/log", root)
    if name == "replace_state":
        return await ref.replace_state(list)
    return await getattr(ref, name)()


async def _of_task(root: Supervisor, name: str) -> object:
    task = TASKS[0]
    try:
        return await getattr(task, name)()
    finally:
        assert task.process.alive


async def _lock(root: Supervisor) -> None:
    async with Registry.of(root.child("names")).lock("key"):
        pass


async def _stream(root: Supervisor) -> None:
    async for _ in TaskSupervisor(root.child("tasks")).stream(asyncio.sleep, [0]):
        pass


TASKS: list[otpy.tasks.Task[None]] = []
MONITORS: list[otpy.signals.Monitor] = []
SPEC = ChildSpec("new", forever)


def pool(root: Supervisor) -> DynamicSupervisor:
    found = root.child("pool").supervisor
    assert isinstance(found, DynamicSupervisor)
    return found


AWAITED: dict[str, Callable[[Supervisor], Any]] = {
    "call": lambda root: Counter.at("app/log", root).call(Get()),
    "call of a process": lambda root: Counter.at(root.child("log")).call(Get()),
    "stop of a server": lambda root: Log.at("app/log", root).stop(),
    "suspend": lambda root: _suspend_and_more(root, "suspend"),
    "resume": lambda root: _suspend_and_more(root, "resume"),
    "get_state": lambda root: _suspend_and_more(root, "get_state"),
    "replace_state": lambda root: _suspend_and_more(root, "replace_state"),
    "Process.suspend": lambda root: root.child("log").suspend(),
    "Process.get_state": lambda root: root.child("log").get_state(),
    "Process.wait": lambda root: root.child("log").wait(),
    "stop_requested": lambda root: root.child("idle").stop_requested(),
    "start_child": lambda root: root.start_child(SPEC),
    "start_child of a pool": lambda root: pool(root).start_child(SPEC),
    "terminate_child": lambda root: root.terminate_child("idle"),
    "terminate_child of a pool": lambda root: pool(root).terminate_child("idle"),
    "restart_child": lambda root: root.restart_child("idle"),
    "delete_child": lambda root: root.delete_child("idle"),
    "retry_now": lambda root: root.retry_now("idle"),
    "get_childspec": lambda root: root.get_childspec("idle"),
    "reconfigure": lambda root: root.reconfigure(SupervisorSpec("app")),
    "which_children": lambda root: root.which_children(),
    "count_children": lambda root: root.count_children(),
    "wait": lambda root: root.wait(),
    "wait_for_restart": lambda root: root.wait_for_restart("idle", after=1),
    "stop": lambda root: root.stop(),
    "monitor, awaited": lambda root: MONITORS[0],
    "spawn_linked": lambda root: TaskSupervisor(root.child("tasks")).spawn_linked(forever),
    "spawn": lambda root: TaskSupervisor(root.child("tasks")).spawn(forever),
    "stream": _stream,
    "children of a task supervisor": lambda root: TaskSupervisor(root.child("tasks")).children(),
    "Task.result": lambda root: _of_task(root, "result"),
    "Task.poll": lambda root: _of_task(root, "poll"),
    "Task.shutdown": lambda root: _of_task(root, "shutdown"),
    "lock": _lock,
    "resize": lambda root: PartitionSupervisor(root.child("parts")).resize(1),
    "settled": settled,
}

REGISTERING: dict[str, Callable[[Process, Registry], object]] = {
    "snapshot": lambda process, names: process.root.snapshot(),
    "monitor": lambda process, names: process.monitor(),
    "demonitor": lambda process, names: MONITORS[0].demonitor(),
    "link": lambda process, names: process.link(process.root.child("idle")),
    "unlink": lambda process, names: process.unlink(process.root.child("idle")),
    "on_exit": lambda process, names: process.on_exit(print),
    "trap_exit": lambda process, names: otpy.signals.trap_exit(),
    "register": lambda process, names: names.register("key"),
    "unregister": lambda process, names: names.unregister("key"),
    "update_value": lambda process, names: names.update_value("key", str),
    "put_meta": lambda process, names: names.put_meta("key", 1),
    "delete_meta": lambda process, names: names.delete_meta("key"),
}


async def refused(operation: Callable[[], Any]) -> None:
    """Expect a `WrongThread` that points to `root.portal()`."""
    with pytest.raises(WrongThread, match=r"root\.portal\(\)") as caught:
        await operation()
    assert caught.value.path.startswith("app")
    caught.value.__traceback__ = None  # its frames would outlive the tree


@pytest.mark.parametrize("name", AWAITED)
async def test_what_is_awaited_is_refused_in_another_loop(name: str) -> None:
    """`asyncio.run` in a thread, as in a sync view, changes nothing; the error names the portal."""
    async with started() as root:
        TASKS[:] = [await TaskSupervisor(root.child("tasks")).spawn(asyncio.sleep, 3600)]
        MONITORS[:] = [root.child("idle").monitor()]
        PartitionSupervisor(root.child("parts"))
        before = root.snapshot()
        await in_thread(lambda: asyncio.run(refused(lambda: AWAITED[name](root))))
        assert root.snapshot() == before
        assert await Log.at("app/log", root).call(None, timeout=1) == []
    TASKS.clear()
    MONITORS.clear()


@pytest.mark.parametrize("name", REGISTERING)
async def test_what_registers_is_refused_in_another_thread(name: str) -> None:
    """This holds for threads of the child itself: they would change dictionaries of the loop."""
    asked: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def child() -> None:
        process = otpy.current()
        names = Registry.of(process.root.child("names"))
        names.register("key")
        MONITORS[:] = [process.root.child("idle").monitor()]

        def use() -> BaseException | None:
            try:
                REGISTERING[name](process, names)
            except WrongThread as error:
                return error.with_traceback(None)
            return None

        asked.set_result(await asyncio.to_thread(use))
        assert names.whereis("key") is process
        await forever()

    async with started() as root:
        await root.start_child(ChildSpec("child", child))
        error = await asked
        assert isinstance(error, WrongThread)
        assert "root.portal()" in str(error)
    MONITORS.clear()


def test_another_loop_in_the_same_thread_is_refused_too() -> None:
    """The caller would wait for a future of another loop."""
    with asyncio.Runner() as own, asyncio.Runner() as other:
        block = started()
        root = own.run(block.__aenter__())
        ref = Log.at(root.child("log"))
        other.run(refused(lambda: ref.call(None)))
        other.run(refused(lambda: root.start_child(SPEC)))
        own.run(block.__aexit__(None, None, None))


async def test_what_has_ended_tells_it_everywhere() -> None:
    """The reason of an end no longer changes, so no caller has to wait for it."""
    async with started() as root:
        process = root.child("idle")

    async def ask() -> None:
        assert await process.wait() == Shutdown()
        assert (await root.wait()) == otpy.Normal()
        await root.stop()

    await in_thread(lambda: asyncio.run(ask()))
    await in_thread(lambda: root.snapshot().render())
    await in_thread(lambda: Log.at("app/log", root).cast("dropped"))
    await in_thread(process.kill)


@pytest.mark.usefixtures("fine")
async def test_a_registry_may_be_looked_at_while_it_changes() -> None:
    """A look-up from a thread never fails while the registry changes."""
    stop, failed = threading.Event(), list[BaseException]()

    async def holder(names: Registry, number: int) -> None:
        while True:
            names.register("shared", number)
            names.register(("own", number))
            await asyncio.sleep(0)
            names.unregister("shared")
            names.unregister(("own", number))

    spec = SupervisorSpec("app", [Registry.spec("names", keys=Keys.DUPLICATE)])
    async with otpy.start(spec) as root:
        names = Registry.of(root.child("names"))
        for number in range(5):
            await root.start_child(ChildSpec(f"h{number}", holder, (names, number)))
        one = root.child("h0")

        def look() -> None:
            try:
                while not stop.is_set():
                    names.lookup("shared")
                    names.count()
                    names.select(lambda entry: entry.value is not None)
                    names.keys(one)
                    names.values("shared", one)
                    names.dispatch("shared", len)
            except BaseException as error:  # noqa: BLE001 - whatever it is
                failed.append(error)

        thread = threading.Thread(target=look)
        thread.start()
        for _ in range(3000):
            await asyncio.sleep(0)
        stop.set()
        thread.join()
    assert failed == []


async def test_a_message_from_a_thread_leaves_nothing_to_the_collector() -> None:
    """It leaves as little as a message from the loop."""
    async with started() as root:
        ref = Log.at(root.child("log"))
        await in_thread(lambda: ref.cast("x"))
        assert await ref.call(None) == ["x"]
        gc.collect()
        await in_thread(lambda: ref.cast("y"))
        await ref.call(None)
        assert gc.collect() == 0


# --- one step of a thread between two steps of the loop -------------------------------------------


def at_once(do: Callable[..., object], *args: Any, patience: float | None = None) -> None:
    """Run `do` in another thread before the next line of the caller."""
    thread = threading.Thread(target=do, args=args)
    thread.start()
    thread.join(patience)


async def test_a_message_that_comes_between_the_last_look_and_the_sleep_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread found the reader awake, and so did not wake it."""
    look = Mailbox.next
    for log in (Log, SlowLog):
        came, late = asyncio.Event(), ["late"]
        async with otpy.start(SupervisorSpec("app", [ChildSpec("log", log, (came,))])) as root:
            ref, server = (
                Log.at(root.child("log")),
                cast("Server", live_of(root.child("log")).behaviour),
            )
            ref.cast("early")
            async with asyncio.timeout(PATIENCE):
                await came.wait()  # and the reader is still awake
            came.clear()

            def looks(mailbox: Mailbox, ref: Any = ref, late: list[str] = late) -> Any:
                message = look(mailbox)
                if message is None and late:
                    at_once(ref.cast, late.pop())
                return message

            monkeypatch.setattr(Mailbox, "next", looks)
            ref.cast("next")
            async with asyncio.timeout(PATIENCE):
                while len(server.state) < 3:
                    await came.wait()
                    came.clear()
            monkeypatch.setattr(Mailbox, "next", look)
            assert await ref.call(None) == ["early", "next", "late"]


async def test_a_message_that_comes_while_others_are_taken_back_is_kept() -> None:
    """The messages of one sender stay in order."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("log", Log)])) as root:
        ref = Log.at(root.child("log"))
        server = cast("Server", live_of(root.child("log")).behaviour)
        ref.cast("first")  # it is served after this turn
        ref.send("unwanted")

        def unwanted(message: object) -> bool:
            at_once(ref.cast, "last")
            return message == "unwanted"

        server.mailbox.discard(unwanted)
        assert await ref.call(None) == ["first", "last"]


async def test_two_first_messages_share_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that makes the queue at the same moment waits for the first one."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("log", Log)])) as root:
        ref, threads = Log.at(root.child("log")), list[threading.Thread]()

        def make() -> deque[Any]:
            if not threads:
                threads.append(threading.Thread(target=ref.cast, args=("thread",)))
                threads[0].start()
                threads[0].join(0.02)  # the thread has finished, or it waits for the loop's thread
            return deque()

        monkeypatch.setattr(mailbox, "deque", make)
        ref.cast("loop")
        threads[0].join()
        assert sorted(await ref.call(None)) == ["loop", "thread"]
