"""A host with an operator socket, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, final

from pydantic import JsonValue

import otpy
from otpy import SupervisorSpec
from otpy.reports import Report
from otpy_agents.errors import CommandRefused, LedgerCorrupt, LedgerUnwritable, UnknownRun
from otpy_agents.operator import OperatorCommand, operator_supervisor


@final
class Commands(dict[str, Any]):
    """Commands that can be watched.

    Attributes:
        told: Everything that happened, in order.
        gate: Until it is set, `wait` waits.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self.gate = asyncio.Event()
        self.commands: list[OperatorCommand] = []
        names = ("cancel", "refuse", "unknown_run", "crash", "wait", "large", "huge", "nonsense")
        super().__init__({name: getattr(self, name) for name in names})

    async def cancel(self, command: OperatorCommand) -> JsonValue:
        self.commands.append(command)
        self.told.append("cancel")
        return {"cancelled": command.text("run")}

    async def refuse(self, command: OperatorCommand) -> JsonValue:
        raise CommandRefused("run 'r': got no backoff to cut, wanted a run that waits")

    async def unknown_run(self, command: OperatorCommand) -> JsonValue:
        raise UnknownRun(command.text("run"))

    async def crash(self, command: OperatorCommand) -> JsonValue:
        raise ZeroDivisionError("by\nzero")

    async def wait(self, command: OperatorCommand) -> JsonValue:
        self.told.append("waiting")
        await self.gate.wait()
        return "waited"

    async def large(self, command: OperatorCommand) -> JsonValue:
        return "x" * (3 * 1024 * 1024)

    async def huge(self, command: OperatorCommand) -> JsonValue:
        return "x" * (5 * 1024 * 1024)

    async def nonsense(self, command: OperatorCommand) -> JsonValue:
        return object()  # type: ignore[return-value] # pyright: ignore[reportReturnType]


@final
class Notebook:
    """A log in memory, which can be full."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        self.begun: list[dict[str, str]] = []
        self.ended: dict[int, Any] = {}
        self.full = self.full_later = self.spoilt = False

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        if self.full:
            raise LedgerUnwritable(Path("runs.sqlite3"), "no room")
        if self.spoilt:
            raise LedgerCorrupt(Path("runs.sqlite3"), "rubbish", "a store of runs")
        await asyncio.sleep(0)
        self.told.append(f"wrote down {name}")
        self.begun.append({"name": name, "run": run, "arguments": arguments, "actor": actor})
        return len(self.begun)

    async def end(self, number: int, answer: str) -> None:
        if self.full_later:
            raise LedgerUnwritable(Path("runs.sqlite3"), "no room")
        self.ended[number] = json.loads(answer)


@final
class Host:
    """A tree with an operator socket."""

    def __init__(self, path: Path, commands: Commands, notebook: Notebook) -> None:
        self.path = path
        self.commands = commands
        self.notebook = notebook
        self.reports: list[Report] = []
        self.root: otpy.Supervisor

    def spec(self) -> SupervisorSpec:
        operator = operator_supervisor(self.path, self.commands, self.notebook)
        return SupervisorSpec("app", [operator])

    @property
    def incarnation(self) -> int:
        """The incarnation of the listening child."""
        return self.root.whereis("app/operator/socket").incarnation

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        while not seen():  # noqa: ASYNC110 - nobody here can tell when
            await asyncio.sleep(0.001)

    def waiting(self) -> int:
        """Return the number of commands that have begun to wait."""
        return self.commands.told.count("waiting")

    @asynccontextmanager
    async def raw(
        self,
    ) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a raw connection, and abort it at the end."""
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def told_raw(self, line: bytes) -> dict[str, Any]:
        """Send bytes, and return the answer."""
        async with self.raw() as (reader, writer):
            writer.write(line)
            return answer_in(await reader.readuntil(b"\n"))


def answer_in(line: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(line)
    assert answer["version"] == 1
    return answer
