"""The silence of each agent, and the time of the next look at it. Reads no clock."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, final

from attrs import define, evolve, frozen

from otpy_monitors.activity import ANY_TOOL
from otpy_monitors.errors import UnknownAgent
from otpy_monitors.findings import Stalled, StallWarned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy_monitors.activity import Activity, AgentCard, ToolCallBegan
    from otpy_monitors.feed import Feed


@final
@frozen
class Silence:
    """The consequences of one agent's silence, and their times.

    Attributes:
        since: When it began.
        stalls_at: When it counts as a stall.
        warns_at: When it is warned of; None for not at all.
        tool: The tool that was called last and has not ended; empty if none is open.
        excused: Seconds of it that do not count.
    """

    since: float
    stalls_at: float
    warns_at: float | None
    tool: str
    excused: float = 0.0

    def without(self, seconds: float) -> Silence:
        """Return the silence without that many seconds."""
        warns_at = None if self.warns_at is None else self.warns_at + seconds
        return evolve(self, stalls_at=self.stalls_at + seconds, warns_at=warns_at, excused=seconds)


def silence(card: AgentCard, heard: float, tools: Iterable[ToolCallBegan]) -> Silence | None:
    """Return the silence of an agent; None if it may be silent for ever (C-01).

    A stall is `card.stall` seconds without progress, but never comes while a call of a tool that is
    declared long is within its own limit. The warning comes before it by the same time, whatever
    the stall was put off by.

    Args:
        card: The card of the agent, which does not wait for anything outside itself.
        heard: When it last made progress.
        tools: Its open calls, oldest first.
    """
    if card.stall is None:
        return None
    stalls_at, tool = heard + card.stall, ""
    for call in tools:
        tool = call.tool
        limit = card.long_tools.get(call.tool, card.long_tools.get(ANY_TOOL))
        if limit is not None:
            stalls_at = max(stalls_at, call.at + limit)
    ahead = None if card.warn_stall_at is None else card.stall - card.warn_stall_at
    return Silence(heard, stalls_at, None if ahead is None else stalls_at - ahead, tool)


@define
class _Told:
    """The reports about the silence that began at `since`."""

    since: float
    warned: bool = False
    stalled: bool = False


@final
class StallWatch:
    """The silence of all agents of a feed. It finds each stall once, and each warning once.

    Agents are looked up in the feed; kept are only the times at which to look again, earliest
    first. One that makes progress is not looked at until then.
    """

    def __init__(self, feed: Feed) -> None:
        """Look at the agents that are there."""
        self._feed = feed
        self._told: dict[str, _Told] = {}
        self._excused: dict[str, tuple[float, float]] = {}
        self._planned: dict[str, float] = {}
        self._plan: list[tuple[float, str]] = []
        for card in feed.cards():
            self._look_at(card.agent)

    @property
    def due(self) -> float | None:
        """When to look at the agents next; None for not until something is heard."""
        while self._plan and self._planned.get(self._plan[0][1]) != self._plan[0][0]:
            heapq.heappop(self._plan)  # another time was planned since
        return self._plan[0][0] if self._plan else None

    def hear(self, activity: Activity) -> bool:
        """Take note of an activity that was told; return whether `due` came earlier by it."""
        before = self.due
        self._look_at(activity.agent)
        after = self.due
        return after is not None and (before is None or after < before)

    def excuse(self, since: float, now: float) -> None:
        """Exclude `since` to `now`, when no agent could be heard, from all silences."""
        for card in self._feed.cards():
            known = self._silence(card.agent)
            if known is not None:
                _, silent = known
                missed = now - max(since, silent.since)
                self._excused[card.agent] = (silent.since, silent.excused + missed)

    def judge(self, now: float) -> list[Stalled | StallWarned]:
        """Return the findings that are due by `now`, in the order of their due times."""
        found: list[Stalled | StallWarned] = []
        while (due := self.due) is not None and due <= now:
            _, agent = heapq.heappop(self._plan)
            del self._planned[agent]
            finding = self._finding(agent, now)
            if finding is not None:
                found.append(finding)
            self._look_at(agent)
        return found

    def _silence(self, agent: str) -> tuple[AgentCard, Silence] | None:
        feed = self._feed
        try:
            card = feed.card(agent)
        except UnknownAgent:
            self._told.pop(agent, None)
            self._excused.pop(agent, None)
            return None
        if card.stall is None or feed.waiting(agent) is not None:
            return None
        found = silence(card, feed.last_progress(agent), feed.tools(agent))
        if found is None:
            return None
        since, excused = self._excused.get(agent, (found.since, 0.0))
        return card, found.without(excused) if since == found.since else found

    def _look_at(self, agent: str) -> None:
        """Plan when to look at `agent`, unless it is planned early enough.

        A time that is planned is never put off, but found to be too early when it comes: so
        progress costs nothing here, and the plan does not fill up.
        """
        known = self._silence(agent)
        if known is None:
            return
        _, silent = known
        told = self._told.get(agent)
        if told is None or told.since != silent.since:
            told = _Told(silent.since)
        if told.stalled:
            return
        when = silent.stalls_at
        if silent.warns_at is not None and not told.warned:
            when = silent.warns_at
        planned = self._planned.get(agent)
        if planned is None or when < planned:
            self._planned[agent] = when
            heapq.heappush(self._plan, (when, agent))

    def _finding(self, agent: str, now: float) -> Stalled | StallWarned | None:
        known = self._silence(agent)
        if known is None:
            return None
        card, silent = known
        told = self._told.get(agent)
        if told is None or told.since != silent.since:
            told = self._told[agent] = _Told(silent.since)
        quiet, limit = now - silent.since - silent.excused, card.stall
        assert limit is not None  # noqa: S101 - else there is no silence
        if now >= silent.stalls_at and not told.stalled:
            told.stalled = True
            return Stalled(card.path, card.incarnation, quiet, limit, agent, silent.tool)
        if silent.warns_at is not None and now >= silent.warns_at and not told.warned:
            told.warned = True
            left = silent.stalls_at - now
            return StallWarned(card.path, card.incarnation, quiet, limit, agent, left, silent.tool)
        return None
