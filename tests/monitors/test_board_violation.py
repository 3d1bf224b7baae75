from __future__ import annotations

import asyncio
import re

from otpy.testing import MockClock
from otpy_monitors import Action, Board, Rule, Subject, Violated, violation_monitor
from tests.monitors.shown import Scene, Worker, running

WIPE = Rule("no-wiping", re.compile(r"rm\s+-rf"), Subject.COMMAND, Action.REAP)
ETC = Rule("not-etc", re.compile("^/etc"), Subject.PATH, Action.LOG)


async def test_each_broken_rule_is_reported_once_per_life(scene: Scene, clock: MockClock) -> None:
    """In the order of the rules; other workers that come and go change nothing."""
    bad = Worker(argv=("rm", "-rf", "/x"), cwd="/etc/x", incarnation=2)
    async with running(violation_monitor(scene.board, scene.report, rules=[WIPE, ETC])):
        with scene.showing(bad):
            await clock.advance(0)
            with scene.showing(Worker("app/pool/b", argv=("ls",))):
                await clock.advance(500)
    assert scene.found == [
        Violated("app/pool/a", 2, WIPE, "rm -rf"),
        Violated("app/pool/a", 2, ETC, "/etc"),
    ]


async def test_the_next_life_is_judged_anew(scene: Scene, clock: MockClock) -> None:
    """A restarted worker that breaks the rule again is reported again."""
    async with running(violation_monitor(scene.board, scene.report, rules=[WIPE])):
        for incarnation in (1, 2):
            with scene.showing(Worker(argv=("rm", "-rf"), incarnation=incarnation)):
                await clock.advance(1)
    assert [one.incarnation for one in scene.found if isinstance(one, Violated)] == [1, 2]


async def test_it_is_woken_by_the_board(scene: Scene, clock: MockClock) -> None:
    """A worker is judged the moment it appears, without a clock."""
    async with running(violation_monitor(scene.board, scene.report, rules=[WIPE])):
        await clock.advance(17.3)
        with scene.showing(Worker(argv=("rm", "-rf"))):
            await clock.advance(0)
            assert scene.times == [17.3]


async def test_it_does_not_poll(scene: Scene, clock: MockClock) -> None:
    """In an hour without news it looks at the board once a minute, and no more often."""
    looks = 0

    class Counting(Worker):
        def look(self):  # type: ignore[no-untyped-def]  # noqa: ANN202
            nonlocal looks
            looks += 1
            return super().look()

    with scene.showing(Counting()):
        async with running(violation_monitor(scene.board, scene.report, rules=[WIPE])):
            await clock.advance(3600)
    assert looks <= 61


async def test_who_waits_for_the_board_leaves_nothing_behind() -> None:
    """A wait that is over, in whatever way, is forgotten: the board may not change for days."""
    board = Board()
    for _ in range(3):
        assert not await board.change(1.0)
    waiting = asyncio.create_task(board.change(1000.0))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert board._waiters == []


async def test_everyone_who_waits_hears_of_a_change() -> None:
    """Workers that come and workers that go both wake all who wait."""
    board = Board()
    waiting = [asyncio.create_task(board.change(9.0)) for _ in range(3)]
    await asyncio.sleep(1)
    with board.showing(Worker().look):
        assert await asyncio.gather(*waiting) == [True, True, True]
        going = asyncio.create_task(board.change(9.0))
        await asyncio.sleep(1)
        assert [one.path for one in board.vitals()] == ["app/pool/a"]
    assert await going
    assert board.vitals() == []
