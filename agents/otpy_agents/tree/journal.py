"""The latest events of a tree, for viewers in another terminal.

The teller of an event never waits for its readers: a reader that is too slow loses the oldest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from attrs import field, frozen

__all__ = ["JournalEntry", "Journal", "Page"]

Detail: TypeAlias = Mapping[str, str | float | bool | None]

KEPT: Final = 2_000
"""Events that are kept."""
_KEPT_CHARACTERS: Final = 2_000_000
_TURNS: Final = frozenset({"agent.state", "mortal.started", "mortal.paused", "mortal.resumed"})
"""What follows a wait for a place."""
_PAGE: Final = 500
_PAGE_CHARACTERS: Final = 250_000


@frozen(kw_only=True)
class JournalEntry:
    """An event.

    Attributes:
        number: From 1, without gaps.
        name: For example `mortal.restarting`.
        id: Its subject: an assignment, a group, `Jake` or a list.
        seconds: Since the run began.
        detail: More about it, without secrets.
    """

    number: int
    name: str
    id: str
    seconds: float
    detail: Detail = field(hash=False)

    @property
    def size(self) -> int:
        """About how many characters it has."""
        texts = (value for value in self.detail.values() if isinstance(value, str))
        return len(self.id) + sum(map(len, texts))


@frozen(kw_only=True)
class Page:
    """A part of the journal.

    Attributes:
        entries: Oldest first.
        after: Number to go on from.
        lost: How many that were asked for are not kept any more.
    """

    entries: tuple[JournalEntry, ...]
    after: int
    lost: int


@final
class Journal:
    """Keeps the latest events, and the start of each agent's current activity.

    Args:
        clean: Takes secrets out of a text.

    Attributes:
        last: Number of the latest event; 0 before the first.
        since: When the state of each agent changed last, in seconds since the run began.
        lines: The latest line of output of each agent.
        held: Until when the restart of each was last held back, in seconds since the run began.
        in_line: Who may go on, and waits for a place.
    """

    def __init__(self, clean: Callable[[str], str] = str) -> None:
        self.last = 0
        self.since: dict[str, float] = {}
        self.lines: dict[str, str] = {}
        self.held: dict[str, float] = {}
        self.in_line: set[str] = set()
        self._clean = clean
        self._entries: deque[JournalEntry] = deque()
        self._characters = 0
        self._changed = asyncio.Event()

    def note(self, name: str, id: str, seconds: float, detail: Detail) -> JournalEntry:
        """Take an event, and return it without secrets; forget the oldest if there are too many."""
        self.last += 1
        cleaned = {
            key: self._clean(value) if isinstance(value, str) else value
            for key, value in detail.items()
        }
        entry = JournalEntry(number=self.last, name=name, id=id, seconds=seconds, detail=cleaned)
        self._learn(entry)
        self._entries.append(entry)
        self._characters += entry.size
        while len(self._entries) > KEPT or self._characters > _KEPT_CHARACTERS:
            self._characters -= self._entries.popleft().size
        self._changed.set()
        self._changed = asyncio.Event()
        return entry

    def _learn(self, entry: JournalEntry) -> None:
        detail = entry.detail
        if entry.name == "mortal.output":
            self.lines[entry.id] = str(detail.get("line"))
        elif entry.name == "mortal.held_back":
            self.held[entry.id] = entry.seconds + float(detail["delay"] or 0.0)
        elif entry.name == "mortal.queued":
            self.in_line.add(entry.id)
        elif entry.name in _TURNS:
            self.in_line.discard(entry.id)
        if entry.name in {"agent.state", "mortal.started"}:
            self.since[entry.id] = entry.seconds

    def read(self, after: int = 0, about: str = "") -> Page:
        """Return the events behind number `after`, as many as go into one page.

        Args:
            after: Number to go on from; 0 for the oldest that is kept.
            about: Only those of this agent; empty for all.
        """
        first = self._entries[0].number if self._entries else self.last + 1
        found: list[JournalEntry] = []
        room, at = _PAGE_CHARACTERS, max(after, first - 1)
        for entry in self._entries:
            if entry.number <= at:
                continue
            if len(found) >= _PAGE or room <= 0:
                break
            at = entry.number
            if about in {"", entry.id}:
                found.append(entry)
                room -= entry.size
        lost = max(0, first - 1 - after) if after else 0
        return Page(entries=tuple(found), after=at, lost=lost)

    async def beyond(self, after: int) -> None:
        """Wait until there is an event behind number `after`."""
        while self.last <= after:
            await self._changed.wait()
