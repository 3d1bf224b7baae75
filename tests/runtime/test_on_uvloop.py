"""The whole life of a tree on uvloop, which differs from asyncio's loop in more than speed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import pytest
import uvloop

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    Registry,
    Restart,
    Strategy,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._runtime import leftovers, stop
from otpy.errors import CallTimeout
from otpy.reports import ChildAbandoned
from otpy.testing import Recording
from tests.behaviours.servers import Add, Counter, Get, Script
from tests.runtime.children import Boom, Journal, crash, forever, stubborn
from tests.runtime.leaving import Left

pytestmark = pytest.mark.real_time
Run = Callable[[Awaitable[None]], None]


@pytest.fixture
def run() -> Iterator[Run]:
    """Run a coroutine on a uvloop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield lambda main: runner.run(_awaited(main))


async def _awaited(main: Awaitable[None]) -> None:
    await main


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - there is no event for each condition
            await asyncio.sleep(0)


def test_it_starts_in_order_and_stops_in_reverse(run: Run, journal: Journal) -> None:
    """This includes nested supervisors."""

    async def main() -> None:
        inner = SupervisorSpec("inner", [journal.spec("b"), journal.spec("c")])
        spec = SupervisorSpec("app", [journal.spec("a"), inner, journal.spec("d")])
        async with otpy.start(spec, hooks=()):
            await until(lambda: len(journal.lines) == 4)

    run(main())
    assert journal.lines == ["+a", "+b", "+c", "+d", "-d", "-c", "-b", "-a"]


@pytest.mark.parametrize(
    ("strategy", "after"),
    [
        (Strategy.ONE_FOR_ONE, ["-b", "+b"]),
        (Strategy.REST_FOR_ONE, ["-b", "-c", "+b", "+c"]),
        (Strategy.ONE_FOR_ALL, ["-b", "-c", "-a", "+a", "+b", "+c"]),
    ],
)
def test_a_crash_is_restarted(
    run: Run, journal: Journal, strategy: Strategy, after: list[str]
) -> None:
    """Each strategy is tried, with the others stopped in reverse."""

    async def main() -> None:
        children = [journal.spec(name) for name in "abc"]
        async with otpy.start(SupervisorSpec("app", children, strategy=strategy), hooks=()):
            await until(lambda: len(journal.lines) == 3)
            journal.crash["b"].set()
            await until(lambda: len(journal.lines) == 3 + len(after))
            assert journal.lines[3:] == after

    run(main())


def test_it_gives_up_up_to_the_root(run: Run) -> None:
    """The error has the path of the child that crashed."""

    async def main() -> None:
        spec = SupervisorSpec("inner", [ChildSpec("bad", crash)])
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
            await root.wait()

    with pytest.raises(SupervisorFailed, match="app/inner/bad") as caught:
        run(main())
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.parametrize("shutdown", [0, 0.0104, 0.02])
def test_who_refuses_to_end_is_given_up(
    run: Run, reports: Recording, monkeypatch: pytest.MonkeyPatch, shutdown: float
) -> None:
    """SUP-701: uvloop's timers are whole milliseconds, and a zero delay is no timer."""
    monkeypatch.setattr(stop, "KILL_GRACE", 0.0104)
    release = asyncio.Event()

    async def main() -> None:
        # The good child stops first: the timer stands at its deadline, which is never reached.
        children = [
            ChildSpec("stubborn", stubborn, (release,), shutdown=shutdown),
            ChildSpec("good", forever, shutdown=0.0047),
        ]
        async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
            await asyncio.sleep(0)
        release.set()
        await asyncio.sleep(0.01)

    run(main())
    assert reports.one(ChildAbandoned).path == "app/stubborn"


def test_tasks_that_children_leave_behind_end_with_them(
    run: Run, reports: Recording, monkeypatch: pytest.MonkeyPatch, left: Left
) -> None:
    """Those of an ended life end before the block does; one that refuses is named."""
    monkeypatch.setattr(leftovers, "KILL_GRACE", 0.01)
    release = asyncio.Event()

    async def child() -> None:
        left.behind()
        if otpy.current().incarnation == 1:
            raise Boom
        left.behind(stubborn(release), name="poller")
        await forever()

    async def main() -> None:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
            await until(lambda: left.states == "crr")
        assert left.states == "ccr"
        release.set()
        await asyncio.sleep(0.01)

    run(main())
    assert reports.one(ChildAbandoned).name == "poller"


def test_servers_answer_and_time_out(run: Run) -> None:
    """This covers calls, casts, and a caller with a timeout."""

    def never(*_: object) -> otpy.server.NoReply[None]:
        return otpy.server.NoReply(None)

    async def main() -> None:
        spec = SupervisorSpec(
            "app", [ChildSpec("counter", Counter), ChildSpec("script", Script, ([],))]
        )
        async with otpy.start(spec, hooks=()) as root:
            counter = Counter.at(root.child("counter"))
            counter.cast(Add(2))
            assert await counter.call(Add(3)) == 5
            assert await asyncio.gather(*(counter.call(Get()) for _ in range(9))) == [5] * 9
            script = Script.at(root.child("script"))
            for timeout in (0.0004, 0.0104):
                with pytest.raises(CallTimeout):
                    await script.call(never, timeout=timeout)

    run(main())


def test_children_come_and_go_and_are_found(run: Run) -> None:
    """This covers a pool, a registry and a monitor."""

    async def member() -> None:
        Registry.of(otpy.current().root.child("names")).register("me")
        await forever()

    async def main() -> None:
        pool = DynamicSupervisor.spec("pool")
        spec = SupervisorSpec("app", [Registry.spec("names"), pool])
        async with otpy.start(spec, hooks=()) as root:
            names, workers = Registry.of(root.child("names")), root.child("pool").supervisor
            assert isinstance(workers, DynamicSupervisor)
            child = await workers.start_child(
                ChildSpec("member", member, restart=Restart.TEMPORARY)
            )
            assert child is not None
            await until(lambda: bool(names.lookup("me")))
            heard = child.monitor()
            await workers.terminate_child(child)
            assert (await heard).reason == otpy.Shutdown()
            assert names.lookup("me") == []

    run(main())


def test_threads_processes_and_generators_end_with_their_child(run: Run) -> None:
    """Some of these are implemented by uvloop, others by asyncio."""
    ended: list[str] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            ended.append("generator")

    async def child() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
        )
        try:
            async for number in numbers():
                await asyncio.to_thread(ended.append, f"thread {number}")
                await forever()
        finally:
            process.kill()
            await process.wait()
            ended.append("process")

    async def main() -> None:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=()):
            await until(lambda: bool(ended))

    run(main())
    assert sorted(ended) == ["generator", "process", "thread 1"]
