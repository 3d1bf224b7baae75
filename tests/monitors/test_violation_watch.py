from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy.testing import MockClock
from otpy_monitors import (
    Action,
    Activity,
    AgentAppeared,
    AgentCard,
    AgentGone,
    CommandBlocked,
    CommandRun,
    Custom,
    Feed,
    RuleBook,
    RulesExposed,
    RulesInForce,
    SameCall,
    ToolCallBegan,
    TooManyChildren,
    Unjudged,
    Violated,
    ViolationRule,
    watch_violations,
)
from otpy_monitors.feed import BACKLOG
from otpy_monitors.violation import INBOX
from tests.monitors.agents import card
from tests.monitors.shown import Scene, running

WIPE = ViolationRule("no-wiping", CommandBlocked((re.compile(r"rm\s+-rf"),)), Action.REAP)
BOOK = RuleBook([WIPE])


@pytest.fixture
def feed() -> Feed:
    """A feed without agents."""
    return Feed()


def wipes(at: float, agent: str = "site/a") -> CommandRun:
    return CommandRun(agent, at, "rm -rf /")


def violations(scene: Scene) -> list[tuple[str, int]]:
    """Return the agent of each violation that was found, with the number of its life."""
    return [(one.agent, one.incarnation) for one in scene.found if isinstance(one, Violated)]


async def test_a_deed_is_judged_in_the_moment_it_is_told(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The judgement needs no clock, and each deed is judged alone."""
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        feed.tell(AgentAppeared(0.0, card()))
        await clock.advance(17.3)
        feed.tell(wipes(17.3))
        await clock.advance(0)
        feed.tell(wipes(17.3))
        await clock.advance(0)
    assert violations(scene) == [("site/a", 1)] * 2
    assert scene.times == [0.0, 17.3, 17.3]


async def test_the_rules_in_force_are_told_with_their_digest(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """Each start tells them, so that a log shows which rules held; an empty book tells nothing."""
    book = RuleBook([WIPE], (Path("/etc/rules.yaml"),), "ab12")
    for rules in (book, BOOK, RuleBook([])):
        async with running(watch_violations(feed, scene.report, book=rules)):
            await clock.advance(1)
    assert scene.found == [
        RulesInForce("/etc/rules.yaml", "ab12", ("no-wiping",)),
        RulesInForce("", "", ("no-wiping",)),
    ]
    assert list(map(str, scene.found)) == [
        "1 violation rule in force, from /etc/rules.yaml, sha256 ab12",
        "1 violation rule in force, from Python",
    ]


async def test_agents_that_were_there_before_it_are_judged(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The monitor reads the feed once; deeds before the first monitor are unknown."""
    feed.tell(AgentAppeared(0.0, card()))
    feed.tell(wipes(0.0))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
        assert violations(scene) == []
        feed.tell(wipes(1.0))
        await clock.advance(0)
    assert violations(scene) == [("site/a", 1)]


async def test_what_is_done_while_it_is_dead_is_judged_by_its_next_life(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """It is judged once, against the life that did it; the agent's next life is innocent."""
    feed.tell(AgentAppeared(0.0, card(incarnation=1)))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
        feed.tell(wipes(1.0))
        await clock.advance(0)
    feed.tell(wipes(2.0))
    feed.tell(AgentGone("site/a", 2.0, "crashed"))
    feed.tell(AgentAppeared(3.0, card(incarnation=2)))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
    assert violations(scene) == [("site/a", 1), ("site/a", 1)]


async def test_a_deed_that_was_told_but_not_yet_judged_survives_a_kill(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The monitor is cancelled in the very step in which the deed arrives."""
    feed.tell(AgentAppeared(0.0, card()))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
        feed.tell(wipes(1.0))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
    assert violations(scene) == [("site/a", 1)]


async def test_what_it_had_counted_is_gone_with_it(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """Repeated calls are counted from zero; living children are known again."""
    book = RuleBook(
        [
            ViolationRule("row", SameCall(3), Action.WARN),
            ViolationRule("kids", TooManyChildren(1), Action.NOTIFY),
        ]
    )
    feed.tell(AgentAppeared(0.0, card("site/a")))
    feed.tell(AgentAppeared(0.0, card("site/k1", parent="site/a")))

    def call(number: int) -> ToolCallBegan:
        return ToolCallBegan("site/a", 0.0, f"c{number}", "Bash", {"command": "make"})

    async with running(watch_violations(feed, scene.report, book=book)):
        await clock.advance(1)
        for number in range(2):
            feed.tell(call(number))
        await clock.advance(1)
    async with running(watch_violations(feed, scene.report, book=book)):
        feed.tell(call(3))
        await clock.advance(1)
        assert violations(scene) == []
        feed.tell(AgentAppeared(2.0, card("site/k2", parent="site/a")))
        await clock.advance(1)
    names = [one.rule.name for one in scene.found if isinstance(one, Violated)]
    assert names == ["kids"]


async def test_what_was_lost_while_it_was_away_is_told(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The number of unjudged deeds is reported; the newest deeds are judged."""
    feed.tell(AgentAppeared(0.0, card()))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
    for _ in range(BACKLOG + 2):
        feed.tell(CommandRun("site/a", 1.0, "ls"))
    feed.tell(wipes(1.0))
    async with running(watch_violations(feed, scene.report, book=BOOK)):
        await clock.advance(1)
    told = [one for one in scene.found if isinstance(one, Unjudged)]
    assert told == [Unjudged(3)]
    assert str(told[0]) == "3 activities were not judged: the violation monitor was away"
    assert violations(scene) == [("site/a", 1)]


async def test_a_predicate_that_raises_does_not_end_the_monitor(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The error is reported each time, and the other rules go on."""

    def broken(activity: Activity, of: AgentCard) -> str | None:
        raise RuntimeError("broken")

    book = RuleBook([ViolationRule("own", Custom(broken), Action.LOG), WIPE])
    feed.tell(AgentAppeared(0.0, card()))
    async with running(watch_violations(feed, scene.report, book=book)):
        await clock.advance(1)
        feed.tell(wipes(1.0))
        await clock.advance(1)
    kinds = [type(one).__name__ for one in scene.found]
    assert kinds == ["RulesInForce", "RuleBroken", "RuleBroken", "Violated"]


async def test_an_agent_that_can_change_the_rules_is_reported_whenever_it_is_seen(
    feed: Feed, scene: Scene, clock: MockClock, tmp_path: Path
) -> None:
    """Both an agent that was there at the start and one that appears later are reported."""
    book = RuleBook([WIPE], (tmp_path / "rules.yaml",), "ab12")
    feed.tell(AgentAppeared(0.0, card("site/a", directories=(tmp_path,))))
    async with running(watch_violations(feed, scene.report, book=book)):
        await clock.advance(1)
        feed.tell(AgentAppeared(1.0, card("site/b", directories=(tmp_path,))))
        await clock.advance(1)
    exposed = [one.agent for one in scene.found if isinstance(one, RulesExposed)]
    assert exposed == ["site/a", "site/b"]


STORIES = st.lists(
    st.tuples(st.sampled_from(["appear", "gone", "wipe", "kill", "rest"]), st.sampled_from("ab")),
    max_size=40,
)


@given(STORIES)
def test_wherever_it_is_killed_each_deed_is_judged_once(story: list[tuple[str, str]]) -> None:
    """With kills at any point, in the same step or later, the findings are those without kills."""
    lives = dict.fromkeys("ab", 0)
    expected: list[tuple[str, int]] = []
    scene, feed = Scene(), Feed()
    there: set[str] = set()

    async def play() -> None:
        feed.inbox(INBOX)
        watching = asyncio.create_task(watch_violations(feed, scene.report, book=BOOK))
        for kind, name in story:
            key = f"site/{name}"
            match kind:
                case "appear":
                    lives[name] += 1
                    there.add(name)
                    feed.tell(AgentAppeared(0.0, card(key, incarnation=lives[name])))
                case "gone":
                    there.discard(name)
                    feed.tell(AgentGone(key, 0.0, ""))
                case "wipe":
                    expected.extend([(key, lives[name])] * (name in there))
                    feed.tell(wipes(0.0, key))
                case "kill":
                    watching.cancel()
                    await asyncio.wait({watching})
                    watching = asyncio.create_task(watch_violations(feed, scene.report, book=BOOK))
                case _:
                    await asyncio.sleep(0)
        await asyncio.sleep(1)
        watching.cancel()
        await asyncio.wait({watching})

    MockClock().run(play())
    assert violations(scene) == expected
