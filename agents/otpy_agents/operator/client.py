"""The operator's end of an operator socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from otpy_agents.errors import CommandRefused, HostGone, NoAnswer, SocketUnusable
from otpy_agents.operator.actor import peer_of
from otpy_agents.operator.message import (
    ANSWER_LIMIT,
    LINE_LIMIT,
    VERSION,
    Answer,
    Argument,
    OperatorRequest,
)
from otpy_agents.operator.place import address_of

__all__ = ["ask"]

_PAUSE: Final = 0.02


async def ask(
    path: Path, command: str, /, *, within: float = 10.0, **arguments: Argument
) -> JsonValue:
    """Let the host that listens at `path` carry out a command, and return its answer.

    Args:
        path: The socket; that of the host of a run is in `RunStore.holder(run).socket`.
        command: Its name.
        within: Seconds to wait for the answer.
        arguments: Of the command; `run` is the run it is about.

    Raises:
        HostGone: If no host listens there; nothing was carried out.
        CommandRefused: If the host did not, or not wholly, carry it out, and says why.
        NoAnswer: If no sound answer came in time; the command may have been carried out.
        SocketUnusable: If the path leads to no socket of this user.

    Cancellation:
        The command may have been carried out.
    """
    line = OperatorRequest(command=command, arguments=arguments).line()
    try:
        async with asyncio.timeout(within):
            with await _connected(path, arguments.get("run")) as connection:
                answer = await _exchanged(connection, line)
    except TimeoutError:
        raise NoAnswer(path, f"nothing in {within:g} s") from None
    except (EOFError, ConnectionResetError) as error:
        raise NoAnswer(path, "the end of the connection") from error
    return _read(path, answer)


async def _exchanged(connection: socket.socket, line: bytes) -> bytes:
    """Send a line and return the reply."""
    loop = asyncio.get_running_loop()
    # A host that turns us away may have closed its end before; its answer is there all the same.
    with contextlib.suppress(BrokenPipeError):
        await loop.sock_sendall(connection, line)
    answer = bytearray()
    while not answer.endswith(b"\n"):
        data = await loop.sock_recv(connection, LINE_LIMIT)
        if not data or len(answer) > ANSWER_LIMIT:
            raise EOFError
        answer += data
    return bytes(answer)


def _read(path: Path, line: bytes) -> JsonValue:
    try:
        answer = Answer.model_validate_json(line)
    except ValidationError:
        raise NoAnswer(path, f"{line[:60]!r}") from None
    if answer.version != VERSION:
        raise NoAnswer(path, f"an answer of version {answer.version} and not {VERSION}")
    if not answer.ok:
        raise CommandRefused(answer.message, answer.reason)
    return answer.answer


async def _connected(path: Path, run: Argument) -> socket.socket:
    """Return a connection to a host of this user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        with address_of(path) as name:
            # By hand: when too many others are waiting to be let in, the kernel says so at once,
            # which the loop takes for a connection that is being made.
            while True:
                try:
                    connection.connect(name)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_PAUSE)
        actor = peer_of(connection)
        if actor.uid != os.geteuid():
            raise SocketUnusable(path, f"one of {actor}")
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        resume = f"`otpy-agents runs resume {run}` goes on with the run"
        raise HostGone(path, resume if run else "start it again") from None
    except OSError as error:
        connection.close()
        if isinstance(error, SocketUnusable):
            raise
        raise SocketUnusable(path, repr(error.strerror or str(error))) from error
    except BaseException:
        connection.close()
        raise
    return connection
