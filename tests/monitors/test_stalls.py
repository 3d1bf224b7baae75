from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_monitors import (
    Activity,
    AgentAppeared,
    AgentGone,
    Feed,
    OutputSeen,
    Progressed,
    RestBegan,
    RestEnded,
    Stalled,
    StallWarned,
    ToolCallBegan,
    ToolCallEnded,
)
from otpy_monitors.stalls import StallWatch, silence
from tests.monitors.agents import card

AGENTS = ("site/a", "site/b")
CARDS: tuple[dict[str, Any], ...] = (
    {},
    {"stall": 4.0},
    {"stall": 7.0, "warn_stall_at": 5.0, "long_tools": {"Bash": 12.0}},
)


@pytest.mark.parametrize(
    ("declared", "calls", "warns_at", "stalls_at"),
    [
        ({"stall": 10.0}, [], None, 110.0),
        ({"stall": 10.0, "warn_stall_at": 8.0}, [], 108.0, 110.0),
        ({"stall": 10.0, "warn_stall_at": 8.0}, [("Bash", 100.0)], 108.0, 110.0),
        ({"stall": 10.0, "long_tools": {"Bash": 60.0}}, [("Bash", 100.0)], None, 160.0),
        ({"stall": 10.0, "long_tools": {"Bash": 60.0}}, [("Bash", 95.0)], None, 155.0),
        ({"stall": 10.0, "long_tools": {"Bash": 5.0}}, [("Bash", 100.0)], None, 110.0),
        ({"stall": 10.0, "long_tools": {"*": 60.0}}, [("Bash", 100.0)], None, 160.0),
        ({"stall": 10.0, "long_tools": {"*": 60.0, "Bash": 30.0}}, [("Bash", 100.0)], None, 130.0),
        (
            {"stall": 10.0, "warn_stall_at": 8.0, "long_tools": {"Bash": 60.0, "Task": 90.0}},
            [("Task", 90.0), ("Bash", 100.0), ("Read", 100.0)],
            178.0,
            180.0,
        ),
    ],
)
def test_a_long_call_puts_a_stall_off_until_its_own_limit(
    declared: dict[str, Any],
    calls: list[tuple[str, float]],
    warns_at: float | None,
    stalls_at: float,
) -> None:
    """A stall never comes before the agent's own limit; its warning keeps the declared lead."""
    tools = [ToolCallBegan("site/a", at, str(at), tool) for tool, at in calls]
    found = silence(card(**declared), 100.0, tools)
    assert found is not None
    assert (found.since, found.warns_at, found.stalls_at) == (100.0, warns_at, stalls_at)
    assert found.tool == (calls[-1][0] if calls else "")


def test_who_declares_no_limit_may_be_silent_for_ever() -> None:
    """C-01: an open call of a tool with a limit does not change that."""
    call = ToolCallBegan("site/a", 0.0, "c", "Bash")
    assert silence(card(long_tools={"Bash": 5.0}), 0.0, [call]) is None


class Plain:
    """Finds the same by checking every agent at every moment."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.warned: set[tuple[str, float]] = set()
        self.stalled: set[tuple[str, float]] = set()

    def judge(self, now: float) -> list[Stalled | StallWarned]:
        found: list[Stalled | StallWarned] = []
        for one in self.feed.cards():
            if self.feed.waiting(one.agent) is not None:
                continue
            heard = self.feed.last_progress(one.agent)
            silent = silence(one, heard, self.feed.tools(one.agent))
            if silent is None:
                continue
            assert one.stall is not None
            life, key = (one.path, one.incarnation, now - heard, one.stall), (one.agent, heard)
            if now >= silent.stalls_at and key not in self.stalled:
                self.stalled.add(key)
                self.warned.add(key)
                found.append(Stalled(*life, one.agent, silent.tool))
            elif silent.warns_at is not None and now >= silent.warns_at and key not in self.warned:
                self.warned.add(key)
                found.append(StallWarned(*life, one.agent, silent.stalls_at - now, silent.tool))
        return found


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[int, Activity]]:
    """Return what two agents do, with the seconds in between."""
    told: list[tuple[int, Activity]] = []
    now = 0
    for _ in range(draw(st.integers(0, 25))):
        pause = draw(st.integers(0, 9))
        now += pause
        agent, at = draw(st.sampled_from(AGENTS)), float(now)
        call = draw(st.sampled_from(["c1", "c2"]))
        activities: list[Activity] = [
            AgentAppeared(at, card(agent, **draw(st.sampled_from(CARDS)))),
            AgentGone(agent, at, "gone"),
            Progressed(agent, at, "message"),
            OutputSeen(agent, at, 1),
            ToolCallBegan(agent, at, call, draw(st.sampled_from(["Bash", "Read"]))),
            ToolCallEnded(agent, at, call),
            RestBegan(agent, at, "input"),
            RestEnded(agent, at),
        ]
        told.append((pause, draw(st.sampled_from(activities))))
    return told


@given(stories(), st.sampled_from(CARDS), st.integers(0, 25))
def test_it_finds_what_asking_all_the_time_would_find(
    story: list[tuple[int, Activity]], declared: dict[str, Any], late: int
) -> None:
    """The findings and their times are the same, though the watch looks only when it planned to.

    A watch that begins in the middle finds the rest, as after the death of a monitor.
    """
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card("site/a", **declared)))
    for _, activity in story[:late]:
        feed.tell(activity)
    watch, plain = StallWatch(feed), Plain(feed)
    now = sum(pause for pause, _ in story[:late])
    last: tuple[int, Activity] = (30, OutputSeen("site/a", 0.0, 1))
    for pause, activity in [*story[late:], last]:
        for _ in range(pause):
            now += 1
            planned = watch.due
            expected = plain.judge(now)
            if expected:
                assert planned is not None
                assert planned <= now
            found = watch.judge(now) if planned is not None and planned <= now else []
            assert sorted(map(str, found)) == sorted(map(str, expected))
            assert set(found) == set(expected)
        feed.tell(activity)
        before = watch.due
        earlier = watch.hear(activity)
        after = watch.due
        assert earlier == (after is not None and (before is None or after < before))
    assert watch.due is None or watch.due > now


def test_progress_plans_nothing_anew() -> None:
    """Messages cost no timer: the planned time turns out to be too early, once."""
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card(stall=10.0)))
    watch = StallWatch(feed)
    for second in range(1, 9):
        message = Progressed("site/a", float(second), "message")
        feed.tell(message)
        assert not watch.hear(message)
    assert watch.due == 10.0
    assert watch.judge(10.0) == []
    assert watch.due == 18.0


def test_findings_come_in_the_order_in_which_they_were_due() -> None:
    """The order holds after a long blocked loop too; an overdue stall has no warning."""
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card("site/a", stall=20.0, warn_stall_at=15.0)))
    feed.tell(AgentAppeared(0.0, card("site/b", stall=10.0, warn_stall_at=5.0)))
    found = StallWatch(feed).judge(17.0)
    assert [(type(one), one.agent) for one in found] == [
        (Stalled, "site/b"),
        (StallWarned, "site/a"),
    ]
    assert str(found[0]) == "stalled: no progress for 17.0 s, limit 10 s"
    assert str(found[1]) == "no progress for 17.0 s; counts as stalled in 3.0 s"
