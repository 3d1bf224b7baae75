from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.errors import LedgerClosed
from otpy_agents.store import CooldownRecord, RunStore

pytestmark = pytest.mark.real_time


def cooldown(until: float, agent_cli: str = "claude") -> CooldownRecord:
    return CooldownRecord(
        agent_cli=agent_cli, credential="work", until=until, reason=f"until {until:g}"
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "runs.sqlite3"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[RunStore]:
    """An open store."""
    async with RunStore(path) as opened:
        yield opened


async def test_a_cooldown_is_over_in_time(store: RunStore) -> None:
    """It no longer holds at the second of its end."""
    await store.cooldowns.put(cooldown(10))
    assert await store.cooldowns.at(9.5) == (cooldown(10),)
    assert await store.cooldowns.at(10) == ()


async def test_a_longer_cooldown_stays(store: RunStore, path: Path) -> None:
    """The short limit of one run does not hide the long one of another (C-15)."""
    async with RunStore(path) as other:
        for one, until in ((store, 20), (other, 10), (store, 15)):
            await one.cooldowns.put(cooldown(until))
        await other.cooldowns.put(cooldown(30, "codex"))
        for one in (store, other):
            assert await one.cooldowns.at(0) == (cooldown(20), cooldown(30, "codex"))
    async with RunStore(path) as later:
        assert await later.cooldowns.at(0) == (cooldown(20), cooldown(30, "codex"))


@pytest.mark.parametrize("by", [100.0, -5.0])
async def test_a_cooldown_is_moved_when_the_clock_was_set(
    store: RunStore, path: Path, by: float
) -> None:
    """It moves forward or back for all hosts, once, and only if it is the expected one."""
    await store.cooldowns.put(cooldown(20))
    for before in (20.0, 20.0, 19.0):
        await store.cooldowns.move(cooldown(before), cooldown(before + by))
        assert [one.until for one in await store.cooldowns.at(0)] == [20 + by]
    async with RunStore(path) as other:
        assert [one.until for one in await other.cooldowns.at(0)] == [20 + by]


async def test_siblings_learn_of_it_at_once(store: RunStore) -> None:
    """They hear of it before anything is awaited, and only of news."""
    heard: list[CooldownRecord] = []
    forget = store.cooldowns.listen(heard.append)
    putting = asyncio.ensure_future(store.cooldowns.put(cooldown(20)))
    await asyncio.sleep(0)
    assert heard == [cooldown(20)]
    await putting
    await store.cooldowns.put(cooldown(10))
    await store.cooldowns.put(cooldown(20))
    assert heard == [cooldown(20)]
    forget()
    forget()
    await store.cooldowns.put(cooldown(30))
    assert heard == [cooldown(20)]


async def test_who_looks_learns_of_those_of_other_hosts(store: RunStore, path: Path) -> None:
    """Its siblings learn of them, too, each time one of them looks before a launch."""
    heard: list[CooldownRecord] = []
    store.cooldowns.listen(heard.append)
    async with RunStore(path) as other:
        await other.cooldowns.put(cooldown(10))
        assert heard == []
        assert await store.cooldowns.at(0) == (cooldown(10),)
        assert await store.cooldowns.at(0) == (cooldown(10),)
    assert heard == [cooldown(10)]


async def test_a_cooldown_that_cannot_be_written_holds_here(path: Path) -> None:
    """Siblings are told all the same; the caller gets the error."""
    store = RunStore(path)
    heard: list[CooldownRecord] = []
    store.cooldowns.listen(heard.append)
    with pytest.raises(LedgerClosed):
        await store.cooldowns.put(cooldown(10))
    async with store:
        assert await store.cooldowns.at(0) == (cooldown(10),)
    assert heard == [cooldown(10)]


async def test_what_is_over_is_forgotten(store: RunStore) -> None:
    """Purging deletes it from the file; a shorter cooldown counts again afterwards."""
    await store.cooldowns.put(cooldown(10))
    await store.purge(0)
    assert await store.cooldowns.at(20) == ()
    await store.cooldowns.put(cooldown(5))
    assert await store.cooldowns.at(0) == (cooldown(5),)


async def test_an_ended_cooldown_is_over_for_all_hosts(store: RunStore, path: Path) -> None:
    """A host that knew it sees the end; the entry stays, so that it is not taken for a lost one."""
    async with RunStore(path, as_host=False) as other:
        await store.cooldowns.put(cooldown(20))
        assert await store.cooldowns.at(1) == (cooldown(20),)
        assert await other.cooldowns.end("claude", "work", 5)
        assert not await other.cooldowns.end("claude", "work", 5)
        for one in (store, other):
            assert await one.cooldowns.at(5) == ()
            (over,) = await one.cooldowns.at(0)
            assert (over.until, over.told, over.reason) == (5, 5, "")
        await store.cooldowns.put(cooldown(10))
        assert await other.cooldowns.at(5) == (cooldown(10),)


async def test_a_cooldown_that_was_told_later_is_not_ended(store: RunStore) -> None:
    """A run that began before proves nothing about it (C-15)."""
    told = evolve(cooldown(20), told=8.0)
    await store.cooldowns.put(told)
    assert not await store.cooldowns.end("claude", "work", 9, told_by=7)
    assert await store.cooldowns.at(9) == (told,)
    assert await store.cooldowns.end("claude", "work", 10, told_by=8)


async def test_a_cooldown_that_was_never_written_can_be_ended(path: Path) -> None:
    """Its own host can end it, which alone knows it."""
    store = RunStore(path)
    with pytest.raises(LedgerClosed):
        await store.cooldowns.put(cooldown(10))
    async with store:
        assert await store.cooldowns.end("claude", "work", 5)
        assert await store.cooldowns.at(0) == ()
