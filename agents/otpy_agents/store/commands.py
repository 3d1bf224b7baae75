"""What operators have told the hosts to do: written down before it is done (G-16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import aiosqlite

from otpy_agents.store.file import inserted
from otpy_agents.store.run_records import CommandRecord

if TYPE_CHECKING:
    from otpy_agents.store.file import StoreFile

__all__ = ["CommandLog"]

_KEPT: Final = 4000


@final
class CommandLog:
    """Part of a `RunStore`; an operator socket writes into it."""

    def __init__(
        self, file: StoreFile, host: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._file = file
        self._host = host
        self._clock = clock

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        """Write down a command that is about to be carried out, and return its number.

        Args:
            name: Of the command.
            run: The run it is about; empty if it is about none. It need not exist.
            arguments: As JSON.
            actor: Who gives it.
        """

        async def work(database: aiosqlite.Connection) -> int:
            return await inserted(
                database,
                "INSERT INTO command (host, run, name, arguments, actor, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (self._host(), run, name, arguments, actor, self._clock()),
            )

        return await self._file.change(work)

    async def end(self, number: int, answer: str) -> None:
        """Write down what the operator is told; only the first 4000 characters are kept."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE command SET answer = ? WHERE id = ?", (answer[:_KEPT], number)
            )

        await self._file.change(work)

    async def of(self, run: str) -> tuple[CommandRecord, ...]:
        """Return the commands about a run, oldest first."""
        rows = await self._file.rows(
            "SELECT id, host, run, name, arguments, actor, at, answer FROM command"
            " WHERE run = ? ORDER BY id",
            (run,),
        )
        return tuple(CommandRecord(**row) for row in rows)
