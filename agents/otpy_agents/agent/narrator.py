"""Tells on the feed what agents do, from the facts of their runs."""

from __future__ import annotations

import asyncio
from typing import Final, assert_never, final

from attrs import evolve

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.agent.post import Post
from otpy_agents.agent.state import Happening
from otpy_agents.agent.tools import is_helper, touched_by
from otpy_agents.attempt import events
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.host import facts
from otpy_agents.run.host.flight import LAST_LINE
from otpy_agents.run.host.order import RunOrder
from otpy_monitors import activity
from otpy_monitors.feed import Feed

__all__ = ["Narrator"]

_UNKNOWN_MODEL: Final = ""


@final
class _Listened:
    """One run as it is listened to."""

    def __init__(self, run: str, order: RunOrder, post: Post) -> None:
        self.run = run
        self.models = {one.agent_id: one.model or _UNKNOWN_MODEL for one in order.candidates}
        self.post = post
        self.tools: dict[str, activity.ToolCallBegan] = {}
        self.waits: activity.RestBegan | None = None
        self.cumulative = False
        self.session: str | None = None
        self.attempt = 0
        self.model = _UNKNOWN_MODEL

    @property
    def counter(self) -> str:
        """Name of the counter its readings belong to, so that each token is counted once (G-07)."""
        session = self.session if self.counts_session else None
        return _counter(self.run, self.attempt, session)

    @property
    def counts_session(self) -> bool:
        """Whether its readings are of the whole session, and not of one attempt."""
        return self.cumulative and self.session is not None


@final
class Narrator:
    """A listener of a host of runs; what belongs to no post it passes over.

    Args:
        feed: Where it tells.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._posts: dict[str, Post] = {}
        self._runs: dict[str, _Listened] = {}

    def follow(self, label: str, post: Post) -> None:
        """Tell of runs with this label as of the agent at `post`.

        A life that takes up the run of the one before is told again what that waits for, a tool or
        the account: else its silence would count.
        """
        self._posts[label] = post
        now = asyncio.get_running_loop().time()
        for heard in self._runs.values():
            if heard.post is post:
                for call in heard.tools.values():
                    self._began(evolve(call, at=now), heard)
                if heard.waits is not None:
                    self._feed.tell(evolve(heard.waits, at=now))

    def waits(self, post: Post) -> bool:
        """Whether a run of the agent at `post` waits for a time to come."""
        return any(run.waits is not None and run.post is post for run in self._runs.values())

    def hear(self, fact: facts.Fact) -> None:
        """Take a fact."""
        if isinstance(fact, facts.RunBegan) and fact.order.label in self._posts:
            self._runs[fact.run] = _Listened(fact.run, fact.order, self._posts[fact.order.label])
        heard = self._runs.get(fact.run)
        if heard is not None:
            self._tell(fact, heard)

    def _tell(self, fact: facts.Fact, heard: _Listened) -> None:
        post, now = heard.post, asyncio.get_running_loop().time()
        match fact:
            case facts.AttemptBegan():
                heard.attempt, heard.session = fact.number, fact.session
                heard.cumulative = find_adapter(fact.agent_cli).cumulative_usage
                heard.model = heard.models.get(fact.agent_id, _UNKNOWN_MODEL)
                heard.tools.clear()
                post.answered, post.settles = False, 0.0
                # Until it says something there is nothing that a stop could cut.
                post.at_boundary(True)
                self._feed.tell(activity.RestEnded(post.key, now))
            case facts.AgentEvent(said=said):
                self._said(said, heard, now)
            case facts.OutputLine(text=text):
                size = len(text.encode()) + 1
                self._feed.tell(activity.OutputSeen(post.key, now, size))
            case facts.SpentFound():
                self._feed.tell(_found(fact, post.key, now))
            case facts.WaitBegan():
                post.at_boundary(True)
                why = f"{fact.reason} of {fact.agent_id}, {fact.delay:.0f} s"
                post.move(Happening.RESTED, why)
                heard.waits = activity.RestBegan(post.key, now, why)
                self._feed.tell(heard.waits)
            case facts.WaitOver():
                heard.waits = None
                post.move(Happening.WOKEN)
                self._feed.tell(activity.RestEnded(post.key, now))
            case facts.AttemptOver():
                if post.frozen:  # somebody ended what was frozen
                    post.frozen = ()
                    post.move(Happening.WOKEN)
                post.at_boundary(True)
                for call in list(
                    heard.tools
                ):  # nobody will say so, and an open call excuses silence
                    self._ended(call, heard, now, failed=True)
                self._feed.tell(activity.TurnEnded(post.key, now))
            case facts.RunEnded() | facts.RunLeft():
                del self._runs[fact.run]
            case _:
                pass

    def _said(self, said: events.Event, heard: _Listened, now: float) -> None:
        post, key, tell = heard.post, heard.post.key, self._feed.tell
        match said:
            case events.SessionSeen():
                self._session(said, heard, now)
                tell(activity.Progressed(key, now, "session"))
            case events.Text(text=text):
                post.say(text)
                tell(activity.Progressed(key, now, "message"))
            case events.ToolStarted():
                post.say(f"[{said.name}]")
                post.at_boundary(False)
                post.settles = 0.0
                began = activity.ToolCallBegan(key, now, said.call, said.name, said.input)
                self._began(began, heard)
                for touch in touched_by(said.name, said.input, key, now):
                    tell(touch)
            case events.ToolEnded():
                self._ended(said.call, heard, now, failed=not said.ok)
                if not heard.tools:
                    post.at_boundary(True)
                    tell(activity.TurnEnded(key, now))
            case events.Spent():
                post.settles = 0.0 if heard.tools else now + LAST_LINE
                heard.model = said.model or heard.model
                tell(_usage(said, heard, now))
            case events.Final():
                post.answered = said.fault is None
                tell(activity.Progressed(key, now, "answer"))
            case events.Retrying() | events.Problem():
                pass  # an error is not progress
            case _:
                assert_never(said)

    def _began(self, call: activity.ToolCallBegan, heard: _Listened) -> None:
        heard.tools[call.call] = call
        self._feed.tell(call)
        if is_helper(call.tool):
            child = f"{call.agent}/{call.call}"
            self._feed.tell(activity.ChildSpawned(call.agent, call.at, child))

    def _ended(self, call: str, heard: _Listened, now: float, *, failed: bool) -> None:
        key, began = heard.post.key, heard.tools.pop(call, None)
        self._feed.tell(activity.ToolCallEnded(key, now, call, failed))
        if began is not None and is_helper(began.tool):
            self._feed.tell(activity.AgentGone(f"{key}/{call}", now, "its call is over"))

    def _session(self, said: events.SessionSeen, heard: _Listened, now: float) -> None:
        is_new = heard.session is None
        heard.session, heard.model = said.session, said.model or heard.model
        if is_new and heard.cumulative:
            # A listener takes the first reading of a counter for the counter's start.
            self._feed.tell(_usage(events.Spent(Usage()), heard, now))


def _counter(run: str, attempt: int, session: str | None) -> str:
    """Return the name of a counter: of a session, if it counts that, or else of one attempt."""
    return f"run {run}, attempt {attempt}" if session is None else f"session {session}"


def _found(fact: facts.SpentFound, key: str, now: float) -> activity.UsageSeen:
    """Return the usage of an attempt that is over; it may have been told before."""
    heard = fact.session if find_adapter(fact.agent_cli).cumulative_usage else None
    return activity.UsageSeen(
        agent=key,
        at=now,
        run=_counter(fact.run, fact.number, heard),
        model=fact.model,
        input_tokens=fact.usage.input - fact.usage.cached,
        output_tokens=fact.usage.output,
        cached_tokens=fact.usage.cached,
        cumulative=heard is not None,
        cost_usd=fact.usage.cost_usd or None,
        late=True,
    )


def _usage(said: events.Spent, heard: _Listened, now: float) -> activity.UsageSeen:
    usage = said.usage
    return activity.UsageSeen(
        agent=heard.post.key,
        at=now,
        run=heard.counter,
        model=heard.model,
        input_tokens=usage.input - usage.cached,
        output_tokens=usage.output,
        cached_tokens=usage.cached,
        cumulative=heard.counts_session,
        cost_usd=usage.cost_usd or None,
    )
