"""The behaviour of a store of sessions."""

from __future__ import annotations

from typing import Protocol

from otpy_agents.store.sessions.session import StoredSession

__all__ = ["SessionStore"]


class SessionStore(Protocol):
    """Keeps the sessions of agents across restarts of the agents and of the host (TREE-35).

    A session is saved as a whole or not at all, whatever is killed when. A call that is cancelled
    is carried to its end first. One host at a time; the lock of its project sees to that.
    """

    async def load(self, agent: str) -> StoredSession | None:
        """Return the session that was saved last; None if there is none.

        Raises:
            SessionCorrupt: If what is there is no sound session, or one of a newer version. It has
                been set aside, so that the next `load` finds none: start fresh.
            LedgerUnwritable: If it cannot be read, or cannot be set aside.
        """
        ...

    async def save(self, session: StoredSession) -> None:
        """Keep a session in place of the agent's last one; on disk when the call returns.

        Raises:
            LedgerUnwritable: If the disk does not take it; the last one is still there.
        """
        ...

    async def forget(self, agent: str) -> None:
        """Delete the session of an agent, if there is one; copies set aside stay.

        Raises:
            LedgerUnwritable: If it cannot be deleted.
        """
        ...

    async def all(self) -> tuple[StoredSession, ...]:
        """Return every sound session, by agent. The others are left for `load` to set aside.

        Raises:
            LedgerUnwritable: If they cannot be read.
        """
        ...
