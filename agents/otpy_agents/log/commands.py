"""The commands of operators: who gave which, from where, and the answer (G-16).

A command is an event before it is carried out, and another when it is answered. Commands are rare:
the log is opened for each, so that nobody has to keep it open for them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

from attrs import frozen

from otpy_agents.errors import AgentsError, LedgerUnwritable
from otpy_agents.log.event import Append, Stored
from otpy_agents.log.event_log import EventLog
from otpy_agents.log.projection import Projection, Row
from otpy_agents.log.types import event_type

__all__ = ["COMMANDS", "CommandLog", "GivenCommand", "list_stream", "run_stream", "users_log"]

_KEPT: Final = 4000


@event_type("command_given")
@final
@frozen(kw_only=True)
class CommandGiven:
    """A command was given; the actor of the event says by whom and from where.

    Attributes:
        command: Its name.
        arguments: As JSON.
        component: Agent or run it is about; None if it is about none.
    """

    command: str
    arguments: str
    component: str | None = None


@event_type("command_answered")
@final
@frozen(kw_only=True)
class CommandAnswered:
    """A command was answered.

    Attributes:
        given: Position of the event by which it was given.
        answer: As JSON; its first 4000 characters.
    """

    given: int
    answer: str


@final
@frozen(kw_only=True)
class GivenCommand:
    """A command that an operator gave.

    Attributes:
        name: Of the command.
        component: Agent or run it is about; None if it is about none.
        arguments: As JSON.
        actor: Who gave it, and from where.
        at: When it was written down, in Unix seconds, which is before it was carried out.
        answer: The answer to the operator, as JSON; None if the host ended first.
    """

    name: str
    component: str | None
    arguments: str
    actor: str
    at: float
    answer: str | None


def _key(event: Stored) -> str | None:
    if event.name == "command_given":
        return str(event.position)
    return str(event.fields["given"]) if event.name == "command_answered" else None


def _fold(row: Row | None, event: Stored) -> Row:
    if event.name == "command_answered":
        return {**(row or {}), "answer": event.fields["answer"]}
    fields = {key: event.fields.get(key) for key in ("command", "component", "arguments")}
    return {**fields, "stream": event.stream, "actor": event.actor, "at": event.at}


COMMANDS: Final = Projection(
    name="commands",
    columns={
        **dict.fromkeys(("stream", "command", "component", "arguments", "actor"), "TEXT"),
        "at": "REAL",
        "answer": "TEXT",
    },
    key=_key,
    fold=_fold,
)
"""A row for each command, by the position of the event by which it was given."""


def run_stream(run: str) -> str:
    """Return the stream of a run."""
    return f"run/{run}"


def list_stream(name: str) -> str:
    """Return the stream of a work list."""
    return f"list/{name}"


def users_log(path: Path, clean: Callable[[str], str] = str) -> EventLog:
    """Return the log of a user, with its projections; its folder is made if missing.

    Args:
        path: Of the file; see `log_beside`.
        clean: Takes secrets out of a text before it is written.

    Raises:
        LedgerUnwritable: There can be no such folder.
    """
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(mode=0o700)
    except OSError as error:
        raise LedgerUnwritable(path, error.strerror or str(error)) from error
    types = [CommandGiven, CommandAnswered]
    return EventLog(path, types=types, projections=[COMMANDS], clean=clean)


@final
class CommandLog:
    """Writes commands into the event log of a user; a `Log` of an operator socket.

    Args:
        path: The event log.
        stream: Of commands that are about no run.
        clean: Takes secrets out of a text before it is written.
    """

    def __init__(
        self, path: Path, stream: str = "operator", *, clean: Callable[[str], str] = str
    ) -> None:
        self._path = path
        self._stream = stream
        self._clean = clean
        self._begun: dict[int, str] = {}

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        """Write down a command that is about to be carried out, and return its number.

        Args:
            name: Of the command.
            run: The run it is about; empty if it is about none. It need not exist.
            arguments: As JSON.
            actor: Its author.

        Raises:
            LedgerUnwritable: It cannot be written, whatever the reason.
        """
        given: dict[str, Any] = json.loads(arguments)
        about = run or given.get("arguments", {}).get("agent")
        component = about if isinstance(about, str) else None
        event = CommandGiven(command=name, arguments=arguments, component=component)
        stream = run_stream(run) if run else self._stream
        number = await self._append(Append(stream, [event], actor=actor))
        self._begun[number] = stream
        return number

    async def end(self, number: int, answer: str) -> None:
        """Record the answer to the operator; only the first 4000 characters are kept.

        Raises:
            LedgerUnwritable: It cannot be written, whatever the reason.
        """
        event = CommandAnswered(given=number, answer=answer[:_KEPT])
        await self._append(Append(self._begun.get(number, self._stream), [event]))
        self._begun.pop(number, None)

    async def of(self, run: str | None) -> tuple[GivenCommand, ...]:
        """Return the commands about a run, or about none, oldest first; none without a log.

        Raises:
            AgentsError: The log cannot be read.
        """
        if not self._path.exists():
            return ()
        stream = self._stream if run is None else run_stream(run)
        async with EventLog(self._path) as log:
            rows = COMMANDS.after({}, [event async for event in log.read(stream=stream)])
        return tuple(
            GivenCommand(
                name=row["command"],
                **{key: row[key] for key in ("component", "arguments", "actor", "at", "answer")},
            )
            for row in rows.values()
        )

    async def _append(self, append: Append) -> int:
        try:
            async with users_log(self._path, self._clean) as log:
                (stored,) = await log.append(append)
        except LedgerUnwritable:
            raise
        except AgentsError as error:  # who operates must not be helpless because of a log
            raise LedgerUnwritable(self._path, str(error)) from error
        return stored.position
