"""The thread that names the child that blocks the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, GenServer, InvalidSpec, SupervisorSpec
from otpy.observe import LoopBlocked, watch_loop
from otpy.server import NoReply
from otpy.testing import MockClock
from tests.runtime.children import turns

BLOCK = 0.3


class Log:
    """A logger that records its entries, with their times."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def error(self, event: str, **fields: Any) -> None:
        self.entries.append({"event": event, "at": time.perf_counter(), **fields})


def block() -> None:
    time.sleep(BLOCK)


async def blocks() -> None:
    """Block the loop once, a little after the start."""
    await asyncio.sleep(0.02)
    block()
    await asyncio.get_running_loop().create_future()


class Slow(GenServer[None, None, None]):
    """A server that blocks the loop in a callback without a task."""

    def init(self) -> None:
        return None

    def handle_cast(self, request: None, state: None) -> otpy.server.Result[None]:
        block()
        return NoReply(state)


async def facts_of(*children: ChildSpec, log: Log | None = None) -> list[LoopBlocked]:
    """Run `children` until a block was reported; return the facts."""
    facts: asyncio.Queue[LoopBlocked] = asyncio.Queue()
    options = {"interval": 0.01, "limit": 0.05, "logger": log or Log()}
    watch = ChildSpec("watch", watch_loop, (facts.put_nowait,), options)
    async with otpy.start(SupervisorSpec("app", [watch, *children]), hooks=()) as app:
        if not children:
            await asyncio.sleep(0.02)
            block()
        elif children[0].start is Slow:
            Slow.at("app/c", root=app).cast(None)
        first = await asyncio.wait_for(facts.get(), 5)
    assert all(thread.name != "otpy loop watch" for thread in threading.enumerate())
    return [first, *(facts.get_nowait() for _ in range(facts.qsize()))]


@pytest.mark.real_time
async def test_a_child_that_blocks_the_loop_is_named_with_its_stack() -> None:
    """AIO-01: the entry has path, incarnation, seconds and stack, and comes during the block."""
    log = Log()
    (fact,) = await facts_of(ChildSpec("c", blocks), log=log)
    told = time.perf_counter()
    assert (fact.path, fact.incarnation) == ("app/c", 1)
    assert BLOCK - 0.05 <= fact.seconds < 5
    assert [line.split()[0] for line in fact.stack] == ["blocks", "block"]
    (entry,) = log.entries
    assert (entry["event"], entry["child"], entry["incarnation"]) == ("loop.blocked", "app/c", 1)
    assert "block (" in entry["stack"]
    assert entry["at"] < told - 0.01
    assert entry["seconds"] < fact.seconds


@pytest.mark.real_time
async def test_it_logs_where_the_program_does(caplog: pytest.LogCaptureFixture) -> None:
    """It logs like the reports of a tree, from its own thread."""
    facts: asyncio.Queue[LoopBlocked] = asyncio.Queue()
    watch = ChildSpec("watch", watch_loop, (facts.put_nowait,), {"interval": 0.01, "limit": 0.05})
    async with otpy.start(SupervisorSpec("app", [watch, ChildSpec("c", blocks)]), hooks=()):
        await asyncio.wait_for(facts.get(), 5)
    (record,) = (record for record in caplog.records if record.name == "otpy")
    assert vars(record)["event"] == "loop.blocked"
    assert vars(record)["child"] == "app/c"
    assert "block (" in record.getMessage()


@pytest.mark.real_time
async def test_a_task_that_a_child_started_is_that_childs(
    request: pytest.FixtureRequest,
) -> None:
    """The loop runs such a task in the child's context."""
    if "uvloop" in type(asyncio.get_running_loop()).__module__:
        return  # before Python 3.12, it shows no context

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(blocks())

    (fact,) = await facts_of(ChildSpec("c", parent))
    assert fact.path == "app/c"


@pytest.mark.real_time
async def test_a_server_that_blocks_in_a_callback_is_named() -> None:
    """The server has no task by which it could be found."""
    (fact,) = await facts_of(ChildSpec("c", Slow))
    assert fact.path == "app/c"
    assert fact.stack[-1].startswith("block (")
    assert [line.split()[0] for line in fact.stack] == ["Slow.handle_cast", "block"]


@pytest.mark.real_time
async def test_a_block_by_nobody_of_the_tree_says_so() -> None:
    """In this test, the host of the tree blocks."""
    log = Log()
    facts = await facts_of(log=log)
    assert (facts[0].path, facts[0].incarnation) == ("", 0)
    assert log.entries[0]["child"] == "no child"


@pytest.mark.real_time
async def test_a_loop_that_turns_is_not_reported() -> None:
    """This holds however busy the loop is."""
    facts: list[LoopBlocked] = []
    options = {"interval": 0.01, "limit": 1, "logger": Log()}
    spec = SupervisorSpec("app", [ChildSpec("watch", watch_loop, (facts.append,), options)])
    async with otpy.start(spec, hooks=()):
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            await turns(1)
    assert facts == []


async def test_it_does_not_hold_a_virtual_clock_up(clock: MockClock) -> None:
    """A test does not have to wait for the work of the thread."""
    spec = SupervisorSpec("app", [ChildSpec("watch", watch_loop)])
    async with otpy.start(spec, hooks=()):
        began = time.perf_counter()
        for _ in range(1000):
            await asyncio.sleep(60)
        assert time.perf_counter() - began < 1.5  # 2 s and more, if each jump waited for the thread


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("name", ["interval", "limit"])
async def test_its_times_are_seconds(name: str, seconds: Any) -> None:
    """A wrong value is refused by name, before any thread starts."""
    with pytest.raises(InvalidSpec, match=f"watch_loop: {name} is"):
        await watch_loop(**{name: seconds})
