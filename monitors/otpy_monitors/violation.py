"""The violation daemon: rules on what agents of a feed do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import frozen

from otpy_monitors.activity import Activity, AgentAppeared, AgentCard, AgentGone, ChildSpawned
from otpy_monitors.findings import (
    FindingHook,
    RuleBroken,
    RulesExposed,
    RulesInForce,
    Unjudged,
    Violated,
)
from otpy_monitors.judges import Grew, Judge, Resolve, judge_of
from otpy_monitors.reach import within_reach

if TYPE_CHECKING:
    from otpy_monitors.feed import Feed
    from otpy_monitors.rules import RuleBook, ViolationRule

RuleFinding: TypeAlias = Violated | RuleBroken | RulesExposed

INBOX: Final = "ViolationMonitor"
"""Name of the inbox in which activities wait while the daemon is dead."""


@final
@frozen
class _Life:
    """One life of an agent, and its judges."""

    card: AgentCard
    judges: tuple[tuple[ViolationRule, Judge], ...]


@final
class _Family:
    """Whose child is whose, and how many children each agent has at the moment."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def add(self, parent: str, child: str) -> Grew | None:
        """Take note of a child; return None if it was known."""
        if self._parent.get(child) == parent:
            return None
        self.remove(child)
        self._parent[child] = parent
        children = self._children.setdefault(parent, set())
        children.add(child)
        return Grew(parent, child, len(children))

    def remove(self, child: str) -> None:
        """Forget a child that is gone."""
        parent = self._parent.pop(child, None)
        if parent is None:
            return
        self._children[parent].discard(child)
        if not self._children[parent]:
            del self._children[parent]

    def of(self, parent: str) -> tuple[str, ...]:
        """Return the keys of the children of `parent`."""
        return tuple(self._children.get(parent, ()))


@final
class RuleState:
    """The memory of the rules: a fold over the agents' activities.

    It reads no clock and acts on nothing; it looks at the file system, to find out where a path
    really leads. The same activities in the same order give the same findings.
    """

    def __init__(self, book: RuleBook, resolve: Resolve | None = None) -> None:
        """Remember nothing yet.

        Args:
            book: The rules.
            resolve: Turns an absolute path into the one it really leads to; None for
                `Path.resolve`.
        """
        self._book = book
        self._resolve = resolve or Path.resolve
        self._lives: dict[str, _Life] = {}
        self._family = _Family()

    def step(self, activity: Activity) -> list[RuleFinding]:
        """Take the next activity; return its violations, in the order of the rules.

        An agent whose card was never seen, or that is gone, is not judged.
        """
        found: list[RuleFinding] = []
        match activity:
            case AgentAppeared(card=card):
                found += self._begin(card)
                found += self._judge(activity.agent, activity)
                if card.parent:
                    found += self._grow(card.parent, card.agent)
            case ChildSpawned(agent=agent, child=child):
                found += self._judge(agent, activity)
                found += self._grow(agent, child)
            case AgentGone(agent=agent):
                found += self._judge(agent, activity)
                self._end(agent)
            case _:
                found += self._judge(activity.agent, activity)
        return found

    def _begin(self, card: AgentCard) -> list[RuleFinding]:
        """Begin a life, with judges that have seen nothing of an earlier one."""
        judges = [
            (rule, judge_of(rule.check, card, self._resolve))
            for rule in self._book.rules
            if rule.is_for(card.agent)
        ]
        self._lives[card.agent] = _Life(card, tuple(judges))
        try:
            exposed = within_reach(self._book.files, card.directories)
        except (OSError, RuntimeError):  # links in a circle, a folder that cannot be looked into
            exposed = self._book.files[0], card.directories[0]  # who cannot tell must not hope
        if exposed is None:
            return []
        file, folder = map(str, exposed)
        life = (card.path, card.incarnation)
        return [RulesExposed(*life, file, folder, card.agent, card.parent)]

    def _end(self, agent: str) -> None:
        self._lives.pop(agent, None)
        self._family.remove(agent)
        for child in self._family.of(agent):
            if child not in self._lives:  # it never appeared, so its end will not be told
                self._family.remove(child)

    def _grow(self, parent: str, child: str) -> list[RuleFinding]:
        grew = self._family.add(parent, child)
        return [] if grew is None else self._judge(parent, grew)

    def _judge(self, agent: str, deed: Activity | Grew) -> list[RuleFinding]:
        life = self._lives.get(agent)
        if life is None:
            return []
        found: list[RuleFinding] = []
        card = life.card
        for rule, judge in life.judges:
            try:
                wrong = judge.look(deed)
            except Exception as error:  # noqa: BLE001 - whatever it is, the rule was not checked
                said = " ".join(f"{type(error).__name__}: {error}".split())
                found.append(
                    RuleBroken(card.path, card.incarnation, rule, said, agent, card.parent)
                )
            else:
                if wrong:
                    found.append(
                        Violated(card.path, card.incarnation, rule, wrong, agent, card.parent)
                    )
        return found


async def watch_violations(feed: Feed, report: FindingHook, *, book: RuleBook) -> None:
    """Report what agents do against the rules, in the moment they do it (TREE-47).

    What is done while the monitor is dead waits in an inbox of the feed and is judged by its next
    life, as far as the inbox holds it (`Unjudged` tells what it did not). What the rules had
    counted is gone with the old life: tokens, repeated calls and whatever a predicate remembers
    are counted from nothing. Cards, and children that have cards, are known again.

    Args:
        feed: Where agents are heard.
        report: Gets `RulesInForce` at each start, if there are rules, then `Violated`,
            `RuleBroken`, `RulesExposed` and `Unjudged`; the actions are for the owner to carry out
            (TREE-48). If it raises, the finding is lost and the daemon crashes.
        book: The rules; read once, by the caller.

    Cancellation:
        It runs until it is cancelled. No activity is half judged.
    """
    inbox = feed.inbox(INBOX)
    state = RuleState(book)
    if book.rules:
        names = tuple(rule.name for rule in book.rules)
        report(RulesInForce(str(book.files[0]) if book.files else "", book.digest, names))
    now = asyncio.get_running_loop().time()
    for card in inbox.cards():
        for finding in state.step(AgentAppeared(now, card)):
            report(finding)
    while True:
        activity = await inbox.get()
        lost = inbox.take_lost()
        if lost:
            report(Unjudged(lost))
        for finding in state.step(activity):
            report(finding)
