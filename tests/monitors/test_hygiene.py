from __future__ import annotations

import asyncio

import pytest

from otpy.testing import MockClock
from otpy_monitors import Chore, Swept, cleanup_daemon
from tests.monitors.shown import Scene, running


def done(log: list[str], name: str, *items: str) -> Chore:
    """Return a chore that takes a second and writes its name down."""

    async def chore() -> list[str]:
        await asyncio.sleep(1)
        log.append(name)
        return list(items)

    return chore


async def fails() -> list[str]:
    raise PermissionError("no")


async def test_chores_are_done_in_order_and_what_they_found_is_reported(
    scene: Scene, clock: MockClock
) -> None:
    """One after the other; a chore that found nothing is not worth a word."""
    log: list[str] = []
    chores = {"z": done(log, "z", "one", "two"), "a": done(log, "a"), "m": done(log, "m", "three")}
    async with running(cleanup_daemon(chores, scene.report)):
        await clock.advance(10)
    assert log == ["z", "a", "m"]
    assert scene.found == [Swept("z", ("one", "two")), Swept("m", ("three",))]
    assert scene.times == [1.0, 3.0]


async def test_they_are_done_again_every_five_minutes(scene: Scene, clock: MockClock) -> None:
    """The next round begins 300 s after the last one ended (TREE-45)."""
    log: list[str] = []
    async with running(cleanup_daemon({"a": done(log, "a", "x")}, scene.report)):
        await clock.advance(3600)
    assert scene.times[:3] == [1.0, 302.0, 603.0]
    assert len(log) == 12


async def test_a_chore_that_fails_is_reported_and_the_next_is_done(
    scene: Scene, clock: MockClock
) -> None:
    """One directory that cannot be removed must not keep the others from being cleaned."""
    log: list[str] = []
    async with running(cleanup_daemon({"bad": fails, "a": done(log, "a", "x")}, scene.report)):
        await clock.advance(310)
    assert scene.found[:2] == [Swept("bad", error="PermissionError: no"), Swept("a", ("x",))]
    assert log == ["a", "a"]
    assert "hygiene: bad failed: PermissionError: no" in map(str, scene.found)


@pytest.mark.parametrize("cut", [0.5, 1.5, 2.5, 3.5])
async def test_cut_in_the_middle_and_run_again_it_ends_the_same(
    scene: Scene, clock: MockClock, cut: float
) -> None:
    """Whatever is left of a round is done by the next incarnation (TREE-46, acceptance 19)."""
    rubbish = ["one", "two", "three"]

    async def sweep() -> list[str]:
        swept: list[str] = []
        while rubbish:
            await asyncio.sleep(1)
            swept.append(rubbish.pop())
        return swept

    async with running(cleanup_daemon({"sweep": sweep}, scene.report)):
        await clock.advance(cut)
    async with running(cleanup_daemon({"sweep": sweep}, scene.report)):
        await clock.advance(10)
    assert rubbish == []
