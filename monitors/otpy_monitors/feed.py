"""Where what agents do is told, and heard. It outlives every monitor."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Self, final

from attrs import define, field

from otpy_monitors.activity import (
    PROGRESS,
    Activity,
    AgentAppeared,
    AgentCard,
    AgentGone,
    RestBegan,
    RestEnded,
    ToolCallBegan,
    ToolCallEnded,
)
from otpy_monitors.errors import UnknownAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

BACKLOG: Final = 10_000
"""Activities that an inbox holds while nobody reads it."""

_AT_ONCE: Final = 100  # activities read in a row before the loop may do something else


@define(eq=False)
class _Agent:
    """The kept state of one agent, for monitors that start later."""

    card: AgentCard
    heard: float
    tools: dict[str, ToolCallBegan] = field(factory=dict[str, ToolCallBegan])
    waits: str | None = None


@final
class Feed:
    """What agents do: told once by their runner, heard by all listeners.

    It keeps what is needed to judge an agent from here on (its card, its last progress, its open
    tool calls), and no history. It has no task and no timer: when nothing is told it costs nothing.
    All of it belongs to the thread of the event loop.
    """

    def __init__(self) -> None:
        """Make a feed without agents."""
        self._agents: dict[str, _Agent] = {}
        self._hooks: tuple[Callable[[Activity], object], ...] = ()
        self._inboxes: dict[str, _FilledInbox] = {}
        self._untold: deque[Activity] = deque()
        self._telling = False

    def tell(self, activity: Activity) -> None:
        """Tell all listeners; never blocks, and never raises because of a listener.

        What can be looked up changes at once. If a listener tells something in turn, everyone
        hears of that afterwards, so that all hear the same order. An activity of an agent that is
        not there is passed on, and changes nothing here.
        """
        self._note(activity)
        self._untold.append(activity)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._pass_on(self._untold.popleft())
        finally:
            self._telling = False

    def _note(self, activity: Activity) -> None:
        if isinstance(activity, AgentAppeared):
            self._agents.pop(activity.agent, None)  # so that the order is that of appearance
            self._agents[activity.agent] = _Agent(activity.card, activity.at)
            return
        agent = self._agents.get(activity.agent)
        if agent is None:
            return
        if isinstance(activity, PROGRESS):
            agent.heard, agent.waits = activity.at, None
        match activity:
            case AgentGone():
                del self._agents[activity.agent]
            case ToolCallBegan():
                agent.tools[activity.call] = activity
            case ToolCallEnded():
                agent.tools.pop(activity.call, None)
            case RestBegan():
                agent.waits = activity.why
            case RestEnded():
                agent.heard, agent.waits = activity.at, None
            case _:
                pass

    def _pass_on(self, activity: Activity) -> None:
        for inbox in self._inboxes.values():
            inbox.put(activity)
        for hook in self._hooks:
            try:
                hook(activity)
            except Exception as error:  # noqa: BLE001 - it is reported, and the teller goes on
                asyncio.get_running_loop().call_exception_handler(
                    {
                        "message": f"{hook!r} raised; it should have heard {activity!r}",
                        "exception": error,
                    }
                )

    def subscribe(self, hook: Callable[[Activity], object]) -> Subscription:
        """Call `hook` with each activity from now on, in the moment it is told.

        A hook that raises is reported to the loop's exception handler, and hears the next activity
        all the same. It must not block.

        Returns:
            What ends it: as a context manager, or by `close`.
        """
        self._hooks = (*self._hooks, hook)
        return Subscription(partial(self._forget, hook))

    def _forget(self, hook: Callable[[Activity], object]) -> None:
        """Remove one subscription of `hook`; it may still hear the activity in progress."""
        kept = list(self._hooks)
        kept.remove(hook)
        self._hooks = tuple(kept)

    def inbox(self, name: str, *, limit: int = BACKLOG) -> Inbox:
        """Return the inbox of that name, which is made at the first call and then kept.

        Unlike a subscription it outlives its reader: what is told while a monitor is dead waits
        for its next life.

        Args:
            name: Of the reader; there is one for each inbox.
            limit: Activities it holds; beyond that the oldest are lost, and counted.
        """
        inbox = self._inboxes.get(name)
        if inbox is None:
            inbox = self._inboxes[name] = _FilledInbox(self.cards(), limit)
        return inbox

    def cards(self) -> tuple[AgentCard, ...]:
        """Return the cards of the present agents, in the order of their appearance."""
        return tuple(agent.card for agent in self._agents.values())

    def card(self, agent: str) -> AgentCard:
        """Return the card of an agent that is there.

        Raises:
            UnknownAgent: If it is not.
        """
        return self._agent(agent).card

    def last_progress(self, agent: str) -> float:
        """Return when the agent last made progress, appeared, or was done waiting.

        Raises:
            UnknownAgent: If it is not there.
        """
        return self._agent(agent).heard

    def tools(self, agent: str) -> tuple[ToolCallBegan, ...]:
        """Return the open tool calls of the agent, oldest first.

        Raises:
            UnknownAgent: If it is not there.
        """
        return tuple(self._agent(agent).tools.values())

    def waiting(self, agent: str) -> str | None:
        """Return the reason for the agent's wait; None if it does not wait.

        Raises:
            UnknownAgent: If it is not there.
        """
        return self._agent(agent).waits

    def _agent(self, agent: str) -> _Agent:
        try:
            return self._agents[agent]
        except KeyError:
            raise UnknownAgent(agent) from None


@final
class Subscription:
    """One hook that listens to a feed; made by `Feed.subscribe`."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end: Callable[[], object] | None = end

    def close(self) -> None:
        """Listen no longer; without effect if it is closed already."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> Self:
        """Return itself; it listens already."""
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class Inbox:
    """The unread activities of a feed for one monitor; made by `Feed.inbox`."""

    def __init__(self, cards: Iterable[AgentCard], limit: int) -> None:
        self._lost = 0
        self._limit = limit
        self._cards = {card.agent: card for card in cards}
        self._unread: deque[Activity] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._in_a_row = 0

    def __len__(self) -> int:
        """Return how many activities are unread."""
        return len(self._unread)

    def cards(self) -> tuple[AgentCard, ...]:
        """Return the cards of the agents as of the last activity that was read.

        A reader that starts again judges what it finds unread by these, and not by the cards of
        the lives that may have begun since.
        """
        return tuple(self._cards.values())

    def take_lost(self) -> int:
        """Return how many activities were thrown away unread since this was asked last."""
        lost, self._lost = self._lost, 0
        return lost

    async def get(self) -> Activity:
        """Return the oldest unread activity; wait for one if there is none.

        Cancellation:
            Nothing has been taken.
        """
        if not self._unread:
            self._in_a_row = 0
        while not self._unread:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._in_a_row += 1
        if self._in_a_row % _AT_ONCE == 0:
            await asyncio.sleep(0)
        return self._take()

    def _take(self) -> Activity:
        activity = self._unread.popleft()
        match activity:
            case AgentAppeared(card=card):
                self._cards.pop(card.agent, None)
                self._cards[card.agent] = card
            case AgentGone(agent=agent):
                self._cards.pop(agent, None)
            case _:
                pass
        return activity


@final
class _FilledInbox(Inbox):
    """An `Inbox` as its feed sees it."""

    def put(self, activity: Activity) -> None:
        self._unread.append(activity)
        if len(self._unread) > self._limit:
            self._take()
            self._lost += 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
