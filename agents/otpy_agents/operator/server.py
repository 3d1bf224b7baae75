"""The host's end of an operator socket: a supervised child that carries out commands.

One line in, one line out, then the connection is closed. No client can end the host: a line that
is not a request, an unknown command, a handler that raises, and a client that says nothing, does
not read its answer, or comes a thousand times are all answered or dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias, final

from attrs import field, frozen
from pydantic import JsonValue

from otpy import ChildSpec, OtpyError, SupervisorSpec
from otpy_agents.errors import AgentsError, CommandRefused, LedgerUnwritable
from otpy_agents.operator.actor import Actor, peer_of
from otpy_agents.operator.message import (
    LINE_LIMIT,
    Answer,
    Argument,
    CommandRefusal,
    OperatorRequest,
    refused,
    too_long,
)
from otpy_agents.operator.place import bound

__all__ = ["OperatorCommand", "Handler", "CommandKeeper", "drop", "operator_supervisor"]

PATIENCE: Final = 5.0
"""Seconds a client has to send its line, and again to take the answer."""
COMMAND_LIMIT: Final = 30.0
"""Seconds a command may take."""
CLIENTS: Final = 32
"""Clients that are served at the same time."""
_WAITING: Final = 16  # few, because the loop takes in at one go all who wait
_FAREWELL: Final = 1.0
_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0
_OWED: Final = 1000  # commands that are remembered while the disk does not take them


@frozen(kw_only=True)
class OperatorCommand:
    """A command to carry out.

    Attributes:
        name: Its name.
        arguments: By name.
        actor: Its author.
    """

    name: str
    arguments: Mapping[str, Argument] = field(hash=False)
    actor: Actor

    def text(self, name: str) -> str:
        """Return an argument that must be there and be text.

        Raises:
            CommandRefused: If it is not.
        """
        value = self.arguments.get(name)
        if not isinstance(value, str) or not value:
            got = "nothing" if name not in self.arguments else repr(value)
            raise CommandRefused(f"{self.name}: {name}: got {got}, wanted text")
        return value


Handler: TypeAlias = Callable[[OperatorCommand], Awaitable[JsonValue]]
"""Carries a command out and returns the answer; refuses it by raising `CommandRefused`."""


class CommandKeeper(Protocol):
    """Keeps the commands; a `CommandLog` of the store of runs is one."""

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        """Write down a command that is about to be carried out, and return its number."""
        ...

    async def end(self, number: int, answer: str) -> None:
        """Record the answer."""
        ...


def operator_supervisor(
    path: Path, commands: Mapping[str, Handler], log: CommandKeeper
) -> SupervisorSpec:
    """Return the spec of `operator`, whose child listens for the operator of this host.

    Only processes of this user are heard. Each command is in the log before it is carried out; one
    that the disk does not take is carried out all the same, and is in the log later. Put it last
    among its siblings: it is then stopped first, when all that it may command still runs.

    Args:
        path: The socket; this host's alone. For a host of runs: `RunStore.socket`.
        commands: Who carries out which command. An argument `run` is the run it is about.
        log: Where commands are written down.

    Raises:
        SocketUnusable: From the child's start, if the socket cannot be made.
    """
    return SupervisorSpec("operator", [ChildSpec("socket", _listening, (path, commands, log))])


@asynccontextmanager
async def _listening(
    path: Path, commands: Mapping[str, Handler], log: CommandKeeper
) -> AsyncGenerator[Path]:
    """Serve the socket for as long as the block lasts."""
    with bound(path) as listener:
        async with asyncio.TaskGroup() as group:
            desk = _Desk(group, commands, log)
            server = await asyncio.start_unix_server(
                desk.on_client, sock=listener, limit=LINE_LIMIT, backlog=_WAITING
            )
            try:
                yield path
                server.close()
                await desk.finish()
            finally:
                server.close()
                desk.drop_all()


@final
class _Desk:
    """Serves the clients of one socket, each in a task of the group."""

    def __init__(
        self, group: asyncio.TaskGroup, commands: Mapping[str, Handler], log: CommandKeeper
    ) -> None:
        self._group = group
        self._commands = commands
        self._log = log
        self._open = True
        self._owed: deque[Callable[[], Awaitable[object]]] = deque(maxlen=_OWED)
        self._writing: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._at_work: set[asyncio.Task[None]] = set()

    def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a new client in, or turn it away."""
        if not self._open:
            drop(writer)
        elif len(self._clients) >= CLIENTS:
            writer.write(refused(CommandRefusal.BUSY, f"{CLIENTS} others are being served").line())
            writer.close()
        else:
            task = self._group.create_task(self._serve(reader, writer))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def finish(self) -> None:
        """Take no more clients; let commands that were begun come to their answers, for a second.

        One of them may be what has stopped this host.
        """
        self._open = False
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=_FAREWELL)
        if self._writing is not None:
            self._writing.cancel()
            await self._settle()

    def drop_all(self) -> None:
        """Drop all connected clients."""
        self._open = False
        for task in self._clients:
            task.cancel()
        if self._writing is not None:
            self._writing.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the group made it
        try:
            request = await self._request(reader, writer)
            self._at_work.add(task)
            answer = request if isinstance(request, Answer) else await self._carry_out(*request)
            writer.write(answer.line())
            writer.close()
            async with asyncio.timeout(PATIENCE):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # the client has gone, or does not read
        finally:
            self._at_work.discard(task)
            drop(writer)

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[OperatorRequest, Actor] | Answer:
        """Return the request of the client and its actor, or the reason for a refusal."""
        actor = peer_of(writer.get_extra_info("socket"))
        if actor.uid != os.geteuid():
            message = f"got a client of {actor}, wanted one of uid {os.geteuid()}"
            return refused(CommandRefusal.FOREIGN, message)
        try:
            async with asyncio.timeout(PATIENCE):
                return OperatorRequest.read(await reader.readuntil(b"\n")), actor
        except CommandRefused as refusal:
            return refused(refusal.reason, str(refusal))
        except asyncio.LimitOverrunError:
            return refused(CommandRefusal.MALFORMED, too_long())
        except asyncio.IncompleteReadError:
            return refused(CommandRefusal.MALFORMED, "got no whole line, wanted one with its end")
        except TimeoutError:
            message = f"got no whole line in {PATIENCE:g} s, wanted one"
            return refused(CommandRefusal.MALFORMED, message)

    async def _carry_out(self, request: OperatorRequest, actor: Actor) -> Answer:
        """Carry a command out, written down before if the disk takes it, else later (G-16)."""
        name = request.command
        handler = self._commands.get(name)
        if handler is None:
            known = ", ".join(sorted(self._commands)) or "none"
            return refused(CommandRefusal.UNKNOWN, f"command: got {name!r}, wanted one of {known}")
        run = request.arguments.get("run")
        begin = partial(
            self._log.begin,
            name=name,
            run=run if isinstance(run, str) else "",
            arguments=request.model_dump_json(include={"arguments"}),
            actor=str(actor),
        )
        number = None
        try:
            number = await begin()
        except LedgerUnwritable:
            pass  # who operates on a full disk must not be helpless
        except AgentsError as error:
            return refused(CommandRefusal.FAILED, f"{name}: not carried out: {error}")
        answer = await _answer(
            handler, OperatorCommand(name=name, arguments=request.arguments, actor=actor)
        )
        said = answer.model_dump_json(exclude={"version"})
        if number is None:
            self._owe(partial(self._write_down, begin, said))
            return answer
        try:
            await self._log.end(number, said)
        except LedgerUnwritable:
            self._owe(partial(self._log.end, number, said))
        except AgentsError as error:
            # It is done all the same, and that it was begun is written down.
            _complain(f"{name}: the answer could not be written down", error)
        return answer

    # --- what the disk did not take ---------------------------------------------------------------

    async def _write_down(self, begin: Callable[[], Awaitable[int]], said: str) -> None:
        number = await begin()
        self._owe(partial(self._log.end, number, said))

    def _owe(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write something down as soon as the disk takes it, in order; the oldest are let go."""
        self._owed.append(write)
        if self._writing is None and self._open:
            self._writing = self._group.create_task(self._write_owed())

    async def _write_owed(self) -> None:
        delay = _FIRST_DELAY
        while self._owed:
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LAST_DELAY)
            await self._settle()
        self._writing = None

    async def _settle(self) -> None:
        """Write the outstanding records, as far as the disk takes them."""
        with contextlib.suppress(LedgerUnwritable):
            while self._owed:
                write = self._owed[0]
                await write()
                if self._owed and self._owed[0] is write:
                    self._owed.popleft()


async def _answer(handler: Handler, command: OperatorCommand) -> Answer:
    """Let the handler carry the command out, and take whatever comes of it."""
    limit = asyncio.timeout(COMMAND_LIMIT)
    try:
        async with limit:
            return Answer(ok=True, answer=await handler(command))
    except CommandRefused as refusal:
        return refused(refusal.reason, str(refusal))
    except OtpyError as error:
        return refused(CommandRefusal.FAILED, f"{command.name}: {error}")
    except Exception as error:  # noqa: BLE001 - a mistake in a command must not end the runs
        if limit.expired():
            message = f"{command.name}: took longer than {COMMAND_LIMIT:g} s"
            return refused(CommandRefusal.FAILED, message)
        _complain(f"operator command {command.name!r} crashed", error)
        detail = next(iter(str(error).splitlines()), "")
        return refused(CommandRefusal.FAILED, f"{command.name}: {type(error).__name__}: {detail}")


def _complain(message: str, error: Exception) -> None:
    """Report to the loop's exception handler, with the traceback; by default it writes a log."""
    context = {"message": message, "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)


def drop(writer: asyncio.StreamWriter) -> None:
    """Drop a connection with its unsent data; without effect if it is gone."""
    # One that has sent its last while it was closing has lost its loop by now (CPython 3.11).
    with contextlib.suppress(AttributeError):
        writer.transport.abort()
