"""Where a project is in Redis; to say so, Redis need not be installed."""

from __future__ import annotations

from typing import final

from attrs import field, frozen

__all__ = ["RedisPlace"]


@final
@frozen
class RedisPlace:
    """Where a project is in Redis; the port is that of the store in `examples/control` (CTL-58).

    Attributes:
        host: Of the server.
        port: Of the server.
        state_key: Key of the state.
        state_db: Number of the database that has it.
        queue_name: The list is `queue:` and this name (C-38).
        queue_db: Number of the database that has it.
        user: Who logs in; None for the server's default user.
        password: With what; None for a server that asks for none.
    """

    host: str = "localhost"
    port: int = 6499
    state_key: str = "supervisor:state"
    state_db: int = 0
    queue_name: str = "tasks"
    queue_db: int = 2
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def project(self) -> str:
        """The project's name among those of one event log: its key, and where that is."""
        return f"{self.state_key}@{self.host}:{self.port}/{self.state_db}"

    def __str__(self) -> str:
        return f"redis://{self.host}:{self.port} {self.state_key}"
