from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

import otpy
from otpy.testing import MockClock
from otpy_monitors import (
    Chore,
    Deletion,
    Finding,
    Sweeping,
    Swept,
    cleanup_daemon,
    cleanup_spec,
    hygiene_supervisor,
)
from tests.monitors.cuts import Cut, cut_everywhere
from tests.monitors.shown import Scene, running


def deleting(log: list[str], *things: str) -> Chore:
    """Return a chore that finds `things` each time, and takes a second to delete one."""

    def perform(thing: str) -> Deletion:
        async def gone() -> None:
            await asyncio.sleep(1)
            log.append(thing)

        return Deletion(thing, gone)

    async def chore() -> AsyncIterator[Deletion]:
        for thing in things:
            yield perform(thing)

    return chore


def fails() -> AsyncIterator[Deletion]:
    raise PermissionError("no")


async def nothing() -> None:
    pass


def swept(scene: Scene) -> list[Finding]:
    return [finding for finding in scene.found if isinstance(finding, Swept)]


async def test_chores_are_done_in_order_and_what_they_found_is_reported(
    scene: Scene, clock: MockClock
) -> None:
    """Chores run one after the other; a chore without a find is not reported."""
    log: list[str] = []
    chores = {"z": deleting(log, "one", "two"), "a": deleting(log), "m": deleting(log, "three")}
    async with running(cleanup_daemon(chores, scene.report)):
        await clock.advance(10)
    assert log == ["one", "two", "three"]
    assert scene.found == [
        Sweeping("z", "one"),
        Sweeping("z", "two"),
        Swept("z", ("one", "two")),
        Sweeping("m", "three"),
        Swept("m", ("three",)),
    ]
    assert scene.times == [0.0, 1.0, 2.0, 2.0, 3.0]
    assert "hygiene: z deletes one" in map(str, scene.found)
    assert "hygiene: z: one, two" in map(str, scene.found)


async def test_each_deletion_is_reported_before_it_begins(scene: Scene, clock: MockClock) -> None:
    """The log names what may be half deleted, even if the host dies meanwhile."""
    reported: list[list[Finding]] = []

    async def gone() -> None:
        reported.append(list(scene.found))

    async def chore() -> AsyncIterator[Deletion]:
        yield Deletion("a", gone)
        yield Deletion("b", gone)

    async with running(cleanup_daemon({"chore": chore}, scene.report)):
        await clock.advance(1)
    a, b = Sweeping("chore", "a"), Sweeping("chore", "b")
    assert reported == [[a], [a, b]]


async def test_they_are_done_again_every_five_minutes(scene: Scene, clock: MockClock) -> None:
    """The next round begins 300 s after the last one ended (TREE-45)."""
    log: list[str] = []
    async with running(cleanup_daemon({"a": deleting(log, "x")}, scene.report)):
        await clock.advance(3600)
    assert scene.times[:6] == [0.0, 1.0, 301.0, 302.0, 602.0, 603.0]
    assert len(log) == 12


async def test_a_chore_that_fails_is_reported_and_the_next_is_done(
    scene: Scene, clock: MockClock
) -> None:
    """A directory that cannot be listed must not keep the others from being cleaned."""
    log: list[str] = []
    chores = {"bad": fails, "a": deleting(log, "x")}
    async with running(cleanup_daemon(chores, scene.report)):
        await clock.advance(310)
    assert swept(scene)[:2] == [Swept("bad", error="PermissionError: no"), Swept("a", ("x",))]
    assert log == ["x", "x"]
    assert "hygiene: bad failed: PermissionError: no" in map(str, scene.found)


async def test_a_deletion_that_fails_is_reported_and_the_next_is_done(
    scene: Scene, clock: MockClock
) -> None:
    """A directory that cannot be removed must not keep the others of its chore."""

    async def refused() -> None:
        raise PermissionError("no")

    async def chore() -> AsyncIterator[Deletion]:
        yield Deletion("a", nothing)
        yield Deletion("b", refused)
        yield Deletion("c", nothing)

    async with running(cleanup_daemon({"chore": chore}, scene.report)):
        await clock.advance(10)
    assert swept(scene) == [Swept("chore", ("a", "c"), "b: PermissionError: no")]
    assert str(scene.found[-1]) == "hygiene: chore: a, c; failed: b: PermissionError: no"


async def test_a_dry_run_reports_and_deletes_nothing(scene: Scene, clock: MockClock) -> None:
    """The deletions it would make are told as such; none is reported as done."""
    log: list[str] = []
    monitor = cleanup_daemon({"a": deleting(log, "x", "y")}, scene.report, dry_run=True)
    async with running(monitor):
        await clock.advance(10)
    assert log == []
    assert scene.found == [Sweeping("a", "x", dry_run=True), Sweeping("a", "y", dry_run=True)]
    assert str(scene.found[0]) == "hygiene: a would delete x"


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_chore_that_finds_the_same_again_does_not_hold_up_the_others(
    scene: Scene, clock: MockClock, dry_run: bool
) -> None:
    """A chore looks until nothing is left, and an undeletable thing is left for ever."""
    log: list[str] = []

    async def refused() -> None:
        raise PermissionError("no")

    async def stubborn() -> AsyncIterator[Deletion]:
        while True:
            yield Deletion("it", refused)

    chores = {"stubborn": stubborn, "a": deleting(log, "x")}
    async with running(cleanup_daemon(chores, scene.report, dry_run=dry_run)):
        await clock.advance(10)
    assert [one.what for one in scene.found if isinstance(one, Sweeping)] == ["it", "x"]
    again = "it: PermissionError: no; it was found again after its deletion"
    expected = [] if dry_run else [Swept("stubborn", error=again), Swept("a", ("x",))]
    assert swept(scene) == expected


class Rubbish:
    """Things to delete in three steps each; `left` is what is still on the disk."""

    def __init__(self) -> None:
        self.left = dict.fromkeys("abc", 3)

    async def chore(self) -> AsyncIterator[Deletion]:
        await asyncio.sleep(0.1)
        for thing in list(self.left):
            yield Deletion(thing, partial(self._delete, thing))

    async def _delete(self, thing: str) -> None:
        while self.left.get(thing):
            await asyncio.sleep(0.1)
            self.left[thing] -= 1
            await asyncio.sleep(0.1)
        self.left.pop(thing, None)


async def test_cut_at_any_await_and_run_again_it_ends_the_same(
    scene: Scene, clock: MockClock
) -> None:
    """Acceptance 19, exhaustively: every await of a round is cut once, and the next round heals."""

    async def attempt(at: int) -> bool:
        rubbish = Rubbish()
        chores = {"first": rubbish.chore, "second": rubbish.chore}
        first = Cut(cleanup_daemon(chores, scene.report, every=1000), at)
        task = asyncio.ensure_future(first)
        await clock.advance(60)
        happened = first.happened
        task.cancel()
        await asyncio.wait({task})
        async with running(cleanup_daemon(chores, scene.report)):
            await clock.advance(60)
        assert rubbish.left == {}
        return happened and at < 100

    assert await cut_everywhere(attempt) > 20


async def test_a_cut_ends_the_chore_and_its_deletion_with_it(
    scene: Scene, clock: MockClock
) -> None:
    """No part of a killed daemon goes on beside the next one."""
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("deletion")

    async def chore() -> AsyncIterator[Deletion]:
        try:
            yield Deletion("it", slow)
        finally:
            ended.append("chore")

    async with running(cleanup_daemon({"chore": chore}, scene.report)):
        await clock.advance(5)
        assert ended == []
    assert ended == ["deletion", "chore"]


async def test_several_daemons_do_not_wait_for_each_other(scene: Scene, clock: MockClock) -> None:
    """A chore of an hour delays only the chores of its own daemon."""
    log: list[str] = []

    async def hangs() -> AsyncIterator[Deletion]:
        await asyncio.sleep(3600)
        yield Deletion("late", nothing)

    daemons = [
        cleanup_spec({"slow": hangs}, scene.report, id="slow-daemon"),
        cleanup_spec({"a": deleting(log, "x")}, scene.report),
    ]
    async with otpy.start(hygiene_supervisor(daemons), hooks=()) as root:
        await clock.advance(310)
        assert [child.id for child in root.snapshot().children] == ["slow-daemon", "cleanup-daemon"]
    assert log == ["x", "x"]
