"""What operators have told the hosts of a work list: written down before it is done (G-16)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import aiosqlite
from attrs import frozen

from otpy_agents.store.file import inserted
from otpy_agents.store.schema import now

if TYPE_CHECKING:
    from otpy_agents.store.file import StoreFile

__all__ = ["ListCommand", "ListCommands"]

_KEPT: Final = 4000


@frozen(kw_only=True)
class ListCommand:
    """A command that an operator gave.

    Attributes:
        id: Its number.
        host: Number of the host that was told.
        agent: Whom it is about; empty if about none.
        name: Of the command.
        arguments: As JSON.
        actor: Who gave it.
        at: When, UTC in ISO-8601.
        answer: What the operator was told, as JSON; None if the host ended first.
    """

    id: int
    host: int
    agent: str
    name: str
    arguments: str
    actor: str
    at: str
    answer: str | None


@final
class ListCommands:
    """The part of a ledger that is about commands; a `Log` of an operator socket.

    Errors and cancellation are those of the ledger.

    Args:
        file: The file of the ledger.
        host: Returns the number of this host.
    """

    def __init__(self, file: StoreFile, host: Callable[[], int]) -> None:
        self._file = file
        self._host = host

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        """Write down a command that is about to be carried out, and return its number.

        Args:
            name: Of the command.
            run: Not kept: commands to a tree are about agents.
            arguments: As JSON; `agent` among them is whom it is about.
            actor: Who gives it.
        """
        del run
        agent = json.loads(arguments)["arguments"].get("agent")

        async def work(database: aiosqlite.Connection) -> int:
            return await inserted(
                database,
                "INSERT INTO command (host, agent, name, arguments, actor, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (self._host(), agent or "", name, arguments, actor, now()),
            )

        return await self._file.change(work)

    async def end(self, number: int, answer: str) -> None:
        """Write down what the operator is told; only the first 4000 characters are kept."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE command SET answer = ? WHERE id = ?", (answer[:_KEPT], number)
            )

        await self._file.change(work)

    async def all(self) -> tuple[ListCommand, ...]:
        """Return the commands that are not forgotten, oldest first."""
        rows = await self._file.rows(
            "SELECT id, host, agent, name, arguments, actor, at, answer FROM command ORDER BY id"
        )
        return tuple(ListCommand(**row) for row in rows)
