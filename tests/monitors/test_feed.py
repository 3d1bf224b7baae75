from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy import InvalidSpec
from otpy_monitors import (
    Activity,
    AgentAppeared,
    AgentCard,
    AgentGone,
    Feed,
    OutputSeen,
    Progressed,
    RestBegan,
    RestEnded,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    UnknownAgent,
    UsageSeen,
)
from tests.monitors.agents import card


def said(text: str, agent: str = "site/a", at: float = 1.0) -> Progressed:
    return Progressed(agent, at, text)


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({"stall": 0.0}, "stall is 0.0, wanted seconds above 0"),
        ({"stall": float("nan")}, "stall is nan"),
        ({"stall": 5.0, "warn_stall_at": 5.0}, "warn_stall_at is 5.0, wanted less than stall, 5"),
        ({"warn_stall_at": 5.0}, "stall is None, wanted seconds, because warn_stall_at is given"),
        ({"long_tools": {"Bash": -1.0}}, r"long_tools\['Bash'\] is -1.0, wanted seconds above 0"),
        ({"directories": (Path("here"),)}, "a folder is 'here', wanted an absolute path"),
        ({"cwd": Path("here")}, "a folder is 'here', wanted an absolute path"),
    ],
)
def test_a_card_that_can_never_work_is_refused(declared: dict[str, Any], complaint: str) -> None:
    """The error comes where it is written, with the agent, the value got and the value wanted."""
    with pytest.raises(InvalidSpec, match=f"card of 'site/a': {complaint}"):
        card(**declared)


def test_a_fact_cannot_be_changed_by_who_told_it() -> None:
    """A recorded call keeps its input, even if the caller changes the original."""
    given_to = {"path": "a"}
    call = ToolCallBegan("site/a", 1.0, "c1", "Write", given_to)
    given_to["path"] = "b"
    assert call.input == {"path": "a"}
    with pytest.raises(TypeError):
        call.input["path"] = "c"  # type: ignore[index]


def test_agents_can_be_looked_up_as_long_as_they_are_there() -> None:
    """Agents are listed in order of appearance; a new life under a key replaces the old one."""
    feed = Feed()
    one, two, again = card("site/a"), card("site/b"), card("site/a", incarnation=2)
    for appeared in (one, two):
        feed.tell(AgentAppeared(0.0, appeared))
    assert feed.cards() == (one, two)
    feed.tell(AgentAppeared(1.0, again))
    assert feed.cards() == (two, again)
    assert feed.card("site/a") == again
    feed.tell(AgentGone("site/a", 2.0, "done"))
    assert feed.cards() == (two,)


@pytest.mark.parametrize("look", [Feed.card, Feed.last_progress, Feed.tools, Feed.waiting])
def test_an_agent_that_is_not_there_cannot_be_looked_up(
    look: Callable[[Feed, str], object],
) -> None:
    """An agent that never appeared, or is gone, is unknown; its activities change nothing."""
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card()))
    feed.tell(AgentGone("site/a", 1.0, "done"))
    feed.tell(said("late"))
    for agent in ("site/a", "site/b"):
        with pytest.raises(UnknownAgent, match=f"no agent {agent!r} is there"):
            look(feed, agent)


@pytest.mark.parametrize(
    "activity",
    [
        said("x", at=7.0),
        ToolCallBegan("site/a", 7.0, "c", "Bash"),
        ToolCallEnded("site/a", 7.0, "c"),
        UsageSeen("site/a", 7.0, "r", "m", 1, 1),
        TurnEnded("site/a", 7.0),
        RestEnded("site/a", 7.0),
    ],
)
def test_progress_is_what_an_adapter_reads(activity: Activity) -> None:
    """Messages, tool calls, tokens and turns count, and so does the end of a wait (G-05)."""
    feed = Feed()
    feed.tell(AgentAppeared(3.0, card()))
    assert feed.last_progress("site/a") == 3.0
    feed.tell(activity)
    assert feed.last_progress("site/a") == 7.0


def test_bytes_are_no_progress() -> None:
    """G-05: an agent that only prints bytes makes no progress."""
    feed = Feed()
    feed.tell(AgentAppeared(3.0, card()))
    feed.tell(OutputSeen("site/a", 7.0, 100))
    assert feed.last_progress("site/a") == 3.0


def test_open_calls_and_waits_are_known_until_they_end() -> None:
    """Calls come oldest first; progress ends a wait too, and a new life has neither."""
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card()))
    calls = [ToolCallBegan("site/a", 1.0, name, "Bash") for name in ("c1", "c2")]
    for call in calls:
        feed.tell(call)
    assert feed.tools("site/a") == tuple(calls)
    feed.tell(ToolCallEnded("site/a", 2.0, "c1"))
    feed.tell(ToolCallEnded("site/a", 2.0, "never begun"))
    assert feed.tools("site/a") == (calls[1],)
    feed.tell(RestBegan("site/a", 3.0, "rate limit"))
    assert feed.waiting("site/a") == "rate limit"
    feed.tell(RestEnded("site/a", 4.0))
    assert feed.waiting("site/a") is None
    feed.tell(RestBegan("site/a", 5.0, "an answer"))
    feed.tell(said("on", at=6.0))
    assert feed.waiting("site/a") is None
    feed.tell(AgentAppeared(7.0, card(incarnation=2)))
    assert feed.tools("site/a") == ()


def test_who_subscribes_hears_everything_until_it_closes() -> None:
    """A subscriber hears each activity when it is told; closing twice does no harm."""
    feed, heard = Feed(), list[Activity]()
    feed.tell(said("before"))
    with feed.subscribe(heard.append) as subscription:
        feed.tell(said("now"))
        assert heard == [said("now")]
        subscription.close()
        feed.tell(said("after"))
    assert heard == [said("now")]


def test_one_of_two_equal_subscriptions_can_end() -> None:
    """The other still listens."""
    feed, heard = Feed(), list[Activity]()
    first, _ = feed.subscribe(heard.append), feed.subscribe(heard.append)
    first.close()
    feed.tell(said("x"))
    assert heard == [said("x")]


async def test_a_hook_that_raises_disturbs_nobody() -> None:
    """The teller goes on, all others hear, the loop's handler is told; the hook hears the next."""
    feed, heard = Feed(), list[Activity]()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def broken(activity: Activity) -> None:
        heard.append(activity)
        raise RuntimeError("broken")

    with feed.subscribe(broken), feed.subscribe(heard.append):
        feed.tell(said("one"))
        feed.tell(said("two"))
    assert heard == [said("one")] * 2 + [said("two")] * 2
    assert [str(context["exception"]) for context in told] == ["broken", "broken"]


def test_everyone_hears_the_same_order() -> None:
    """An activity told by a listener comes after the one it heard, for later listeners too."""
    feed, first, last = Feed(), list[Activity](), list[Activity]()
    feed.tell(AgentAppeared(0.0, card()))
    gone = AgentGone("site/a", 1.0, "reaped")

    def acts(activity: Activity) -> None:
        first.append(activity)
        if activity == said("bad"):
            feed.tell(gone)
            assert feed.cards() == ()  # look-ups change at once

    with feed.subscribe(acts), feed.subscribe(last.append):
        feed.tell(said("bad"))
    assert first == last == [said("bad"), gone]


async def test_an_inbox_outlives_its_reader() -> None:
    """Unread activities wait, in order; a reader that is cancelled takes nothing."""
    feed = Feed()
    feed.tell(said("before the first reader"))
    inbox = feed.inbox("reader")
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    feed.tell(said("one"))
    waiting.cancel()  # at the moment of an arrival
    await asyncio.wait({waiting})
    feed.tell(said("two"))
    assert feed.inbox("reader") is inbox
    assert [await inbox.get(), await inbox.get()] == [said("one"), said("two")]
    assert len(inbox) == 0


async def test_inboxes_of_different_names_are_independent() -> None:
    """Each reader gets every activity."""
    feed = Feed()
    one, other = feed.inbox("one"), feed.inbox("other")
    feed.tell(said("x"))
    assert await one.get() == await other.get() == said("x")


async def test_an_inbox_knows_the_cards_of_what_was_read() -> None:
    """A restarted reader must not judge old deeds by the card of a new life."""
    feed = Feed()
    old, new, other = card(), card(incarnation=2), card("site/b")
    feed.tell(AgentAppeared(0.0, old))
    inbox = feed.inbox("reader")
    feed.tell(said("bad"))
    feed.tell(AgentGone("site/a", 2.0, "crashed"))
    feed.tell(AgentAppeared(3.0, new))
    feed.tell(AgentAppeared(3.0, other))
    seen: list[tuple[AgentCard, ...]] = []
    while len(inbox):
        seen.append(inbox.cards())
        await inbox.get()
    assert [*seen, inbox.cards()] == [(old,), (old,), (), (new,), (new, other)]


async def test_a_full_inbox_loses_the_oldest_and_says_so() -> None:
    """Its memory has a bound; the card of a lost appearance is still known."""
    feed = Feed()
    inbox = feed.inbox("reader", limit=2)
    feed.tell(AgentAppeared(0.0, card()))
    for text in ("one", "two", "three"):
        feed.tell(said(text))
    assert [await inbox.get(), await inbox.get()] == [said("two"), said("three")]
    assert inbox.cards() == (card(),)
    assert (inbox.take_lost(), inbox.take_lost()) == (2, 0)


async def test_a_reader_of_a_long_backlog_lets_others_in() -> None:
    """A thousand unread activities do not hold the loop up."""
    feed, turns = Feed(), 0
    inbox = feed.inbox("reader")
    for _ in range(1000):
        feed.tell(said("x"))

    async def other() -> None:
        nonlocal turns
        while len(inbox):
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    for _ in range(1000):
        await inbox.get()
    await beside
    assert turns >= 9


@given(st.lists(st.sampled_from(["put", "get"]), max_size=60), st.integers(1, 5))
def test_an_inbox_is_a_queue_with_a_bound(steps: list[str], limit: int) -> None:
    """For any order of telling and reading: first in, first out, the newest kept."""
    feed = Feed()
    inbox = feed.inbox("reader", limit=limit)
    model: list[Activity] = []
    lost = 0
    for number, step in enumerate(steps):
        if step == "put":
            feed.tell(said(str(number)))
            model.append(said(str(number)))
            lost += len(model) > limit
            model = model[-limit:]
        elif model:
            got = inbox.get().__await__()
            with pytest.raises(StopIteration) as done:
                next(got)
            assert done.value.value == model.pop(0)
        assert len(inbox) == len(model)
    assert inbox.take_lost() == lost
