"""A run whose state cannot be stored: its agent goes on, and nothing new is begun."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from itertools import accumulate
from typing import Any

import pytest

from otpy_agents.errors import LedgerUnwritable
from otpy_agents.run import Ending, RunControl
from otpy_agents.run.host.facts import AttemptBegan, Fact, RunLeft
from otpy_agents.run.host.handle import RunHandle
from otpy_agents.run.host.host import RunHost
from otpy_agents.run.host.store_outage import StoreOutage
from otpy_agents.store import RunStore
from otpy_agents.testing import ExitWith, Hang, Script, Write
from tests.agents.run.scripts import network, ok, plays, silent, writes
from tests.agents.run.stage import Stage

FULL = os.strerror(errno.ENOSPC)


class Disk:
    """The disk of the store; while it is full every change fails as SQLite's do on a real one."""

    def __init__(self) -> None:
        self.full = False
        self.refused: list[float] = []

    def below(self, host: RunHost) -> None:
        """Become the disk of a host."""
        store = host._site.store
        change = store._file.change

        async def limited(work: Callable[[Any], Awaitable[Any]]) -> Any:
            if self.full:
                self.refused.append(asyncio.get_running_loop().time())
                raise LedgerUnwritable(store.path, FULL)
            return await change(work)

        store._file.change = limited  # type: ignore[method-assign]

    def fills(self, fact: Fact) -> None:
        """Fill up as soon as an attempt begins; this is a listener."""
        self.full |= isinstance(fact, AttemptBegan)

    def free_after(self, seconds: float) -> None:
        """Have room again."""
        asyncio.get_running_loop().call_later(seconds, setattr, self, "full", False)


@pytest.fixture
def disk() -> Disk:
    return Disk()


async def begin(stage: Stage, disk: Disk, host: RunHost) -> RunHandle:
    """Submit a run while there is room."""
    disk.below(host)
    return await host.submit(stage.order())


async def stored(stage: Stage, run: str) -> tuple[int | None, list[int]]:
    """Return the exit code of a run and its attempts, as they are stored."""
    async with RunStore(stage.path, as_host=False) as store:
        found = await store.run(run)
    return found.record.exit_code, [attempt.number for attempt in found.attempts]


def works(seconds: float) -> Script:
    return plays(Write(text="done", after=seconds), ExitWith())


async def test_an_agent_goes_on_until_there_is_room_again(stage: Stage, disk: Disk) -> None:
    """One line names the file and the reason; the state is stored once there is room."""
    async with stage.host(works(100.0), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        disk.free_after(50.0)
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert len(stage.sandbox.played) == 1
    lines = [line for line in stage.log if "state file" in line]
    assert lines[0] == (
        f"[supervisor] state file {stage.path}: {FULL};"
        " the agent goes on, nothing new is started until it can be written"
    )
    assert [line.split(" again")[0] for line in lines[1:]] == ["[supervisor] state file: written"]
    assert await stored(stage, handle.id) == (0, [1])


async def test_the_disk_is_asked_ever_less_often(stage: Stage, disk: Disk) -> None:
    """The pause grows from 1 to 30 seconds, whatever the agent writes in the meantime."""
    talk = plays(*writes(*(f"line {number}" for number in range(400)), each=0.5), ExitWith())
    async with stage.host(talk, listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        disk.free_after(130.0)
        await handle.wait()
    first, *later = disk.refused
    expected = list(accumulate([1, 2, 4, 8, 16, 30, 30, 30], initial=first))[1:]
    assert later == pytest.approx(expected)


async def test_an_answer_that_cannot_be_stored_is_heard_all_the_same(
    stage: Stage, disk: Disk
) -> None:
    """After half a minute the host gives up; the run is still unfinished in the store."""
    async with stage.host(ok("found it"), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        result = await handle.wait()
    assert (result.ending, handle.answer) == (Ending.SUCCEEDED, "found it")
    assert any("the end of the run could not be stored" in line for line in stage.log)
    assert (await stored(stage, handle.id))[0] is None


async def test_no_attempt_begins_that_cannot_be_stored(stage: Stage, disk: Disk) -> None:
    """The run ends there, and can be resumed once there is room."""
    async with stage.host(network(), ok(), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        with pytest.raises(LedgerUnwritable, match=FULL):
            await handle.wait()
        assert len(stage.sandbox.played) == 1
        assert [type(fact.error) for fact in stage.told(RunLeft)] == [LedgerUnwritable]
        disk.full = False
    async with stage.host(ok()) as host:
        result = await (await host.resume(handle.id)).wait()
    assert result.ending is Ending.SUCCEEDED


async def test_a_first_attempt_that_cannot_be_stored_is_not_begun(stage: Stage, disk: Disk) -> None:
    """No agent is at work that could go on."""
    async with stage.host(ok()) as host:
        disk.below(host)
        handle = await host.submit(stage.order())
        disk.full = True
        with pytest.raises(LedgerUnwritable):
            await handle.wait()
        disk.full = False
    assert stage.sandbox.played == []


@pytest.mark.parametrize("control", [RunControl.CANCEL, RunControl.KILL])
async def test_a_run_is_ended_at_once_on_a_full_disk(
    stage: Stage, disk: Disk, control: RunControl
) -> None:
    """It waits for its agent only, not for the disk."""
    async with stage.host(silent(), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        await asyncio.sleep(10.0)
        began = asyncio.get_running_loop().time()
        assert (await handle.ask(control)).accepted
        result = await handle.wait()
        assert asyncio.get_running_loop().time() - began < 1.0
        disk.full = False
    assert result.user_stop is not None
    assert stage.sandbox.alive == ()


async def test_what_was_asked_on_a_full_disk_is_stored_later(stage: Stage, disk: Disk) -> None:
    """The cancel is stored once there is room, while the agent still takes its time."""
    async with stage.host(plays(Hang(), deaf=True), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        await asyncio.sleep(10.0)
        assert (await handle.ask(RunControl.CANCEL)).accepted
        disk.full = False
        result = await handle.wait()
    assert result.ending is Ending.CANCELLED
    assert await stored(stage, handle.id) == (130, [1])


async def test_what_needs_room_is_refused_with_the_reason(stage: Stage, disk: Disk) -> None:
    """Only a stop is carried out without being stored."""
    async with stage.host(works(60.0), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        await asyncio.sleep(10.0)
        answered = await handle.ask(RunControl.RETRY_NOW)
        disk.full = False
        await handle.wait()
    assert not answered.accepted


async def test_a_host_ends_in_time_on_a_full_disk(stage: Stage, disk: Disk) -> None:
    """Nothing of its runs is alive; they are unfinished, so that the next host can resume them."""
    async with stage.host(silent(), listeners=[disk.fills]) as host:
        handle = await begin(stage, disk, host)
        await asyncio.sleep(10.0)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5.0
    assert stage.sandbox.alive == ()
    assert (await stored(stage, handle.id))[0] is None


def test_the_wait_doubles_up_to_half_a_minute() -> None:
    """The outage counts as hopeless half a minute after the attempt has ended."""
    found = StoreOutage.found(0.0, flying=True, before=None)
    delays = [found.delay]
    for _ in range(6):
        found = StoreOutage.found(found.again, flying=True, before=found)
        delays.append(found.delay)
    assert delays == [1, 2, 4, 8, 16, 30, 30]
    assert not found.is_due(found.again - 1, flying=True)
    assert found.is_due(found.again - 1, flying=False)
    assert not found.is_hopeless(1e9)
    alone = StoreOutage.found(1000.0, flying=False, before=found)
    assert (alone.is_hopeless(1029.0), alone.is_hopeless(1030.0)) == (False, True)
