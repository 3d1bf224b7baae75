"""A store of sessions of either kind, and what a test does to the disk under it."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

from otpy_agents.store.sessions import FileSessions, SessionStore, SqliteSessions, StoredSession

SQLITE: Final = "sqlite"
FILES: Final = "files"


class SessionWorld:
    """One store, which can be opened again, and its raw content."""

    def __init__(self, kind: str, path: Path, stack: AsyncExitStack) -> None:
        self.kind = kind
        self.path = path
        self.store: SessionStore
        self._stack = stack

    async def opened(self) -> SessionWorld:
        """Open the store, once more as another host does."""
        await self._stack.aclose()
        if self.kind == FILES:
            self.store = FileSessions(self.path)
        else:
            self.store = await self._stack.enter_async_context(SqliteSessions(self.path))
        return self

    def read(self, agent: str) -> bytes:
        """Return the stored content of an agent."""
        if self.kind == FILES:
            return FileSessions(self.path).path(agent).read_bytes()
        with closing(sqlite3.connect(self.path)) as database:
            query = "SELECT body FROM session WHERE agent = ?"
            ((body,),) = database.execute(query, (agent,)).fetchall()
        return bytes(body)

    def write(self, agent: str, content: bytes) -> None:
        """Overwrite the stored content of an agent."""
        if self.kind == FILES:
            FileSessions(self.path).path(agent).write_bytes(content)
            return
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("INSERT OR REPLACE INTO session VALUES (?, ?)", (agent, content))

    def set_aside(self) -> list[bytes]:
        """Return the contents that were set aside, oldest first."""
        if self.kind == FILES:
            return [path.read_bytes() for path in sorted(self.path.glob("quarantine/*"))]
        with closing(sqlite3.connect(self.path)) as database:
            rows = database.execute("SELECT body FROM quarantine ORDER BY id").fetchall()
        return [bytes(body) for (body,) in rows]


def session(agent: str = "p/a", **fields: object) -> StoredSession:
    """Return a session."""
    values: dict[str, object] = {
        "agent": agent,
        "cli": "claude",
        "session_id": "abc-123",
        "summary": "half of the tests pass",
        "saved_at": 1_700_000_000.25,
        **fields,
    }
    return StoredSession(**values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
