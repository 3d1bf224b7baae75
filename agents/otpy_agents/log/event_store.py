"""The behaviour of an event log that its users depend on; `EventLog` keeps one in SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from otpy_agents.log.event import Append, Stored
    from otpy_agents.log.projection import Rows

__all__ = ["EventStore"]


class EventStore(Protocol):
    """Events in one order for all streams, and their projections.

    Another database, for several machines, has to do these eight things and no others. Types of
    events, the chain of hashes and the folds of projections are pure, and the same for each.
    `EventLog` says what every method promises, and which errors it raises.
    """

    async def append(self, *appends: Append) -> tuple[Stored, ...]:
        """Append to one stream or several, with what projections make of it: all or nothing."""
        ...

    def read(
        self, *, after: int = 0, stream: str | None = None, until: int | None = None
    ) -> AsyncIterator[Stored]:
        """Yield events, oldest first."""
        ...

    def follow(self, *, after: int, stream: str | None = None) -> AsyncIterator[Stored]:
        """Yield events as they are appended, by whatever process."""
        ...

    async def end(self) -> int:
        """Return the position of the last event; 0 if there is none."""
        ...

    async def version(self, stream: str) -> int:
        """Return the version of a stream; 0 if it has no event."""
        ...

    async def position_at(self, moment: float) -> int:
        """Return the position of the last event by a moment in Unix seconds; 0 if there is none."""
        ...

    async def rows(self, projection: str) -> Rows:
        """Return the rows of a projection."""
        ...

    async def state(self, projection: str, *, until: int, stream: str | None = None) -> Rows:
        """Return the rows of a projection at a position."""
        ...
