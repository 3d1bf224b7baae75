"""A command to a tree that does not run, written down as a host writes it down (G-16)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from otpy import OtpyError
from otpy_agents.cli.actor import actor
from otpy_agents.cli.notes import say
from otpy_agents.errors import CommandRefused, LedgerUnwritable
from otpy_agents.log import CommandLog, list_stream, log_beside
from otpy_agents.operator import CommandRefusal
from otpy_agents.operator.message import Answer, OperatorRequest, refused
from otpy_agents.store import default_state
from otpy_agents.store.redaction import Redaction

if TYPE_CHECKING:
    from otpy_agents.cli.tree_lookup import KnownTree
    from otpy_agents.worklist.assignment import WorkList

__all__ = ["carry_out_here"]


async def carry_out_here(
    tree: KnownTree,
    work: WorkList | None,
    request: OperatorRequest,
    carry_out: Callable[[], Awaitable[str]],
) -> str:
    """Carry a command out in this process, and return its answer.

    It is carried out also where it cannot be written down, which is said: who operates must not be
    helpless because of a log.

    Args:
        tree: The tree it is for.
        work: Its list, if that is known.
        request: The command.
        carry_out: Does it, and returns the answer.

    Raises:
        OtpyError: Whatever `carry_out` raised.
    """
    # A ledger is called as its list is, unless the list says otherwise.
    stream = list_stream(tree.ledger.stem if work is None else work.name)
    log = CommandLog(log_beside(default_state(os.environ)), stream, clean=Redaction(os.environ))
    given = request.model_dump_json(include={"arguments"})
    number = None
    try:
        number = await log.begin(name=request.command, run="", arguments=given, actor=actor())
    except LedgerUnwritable as error:
        say(f"{request.command}: not written down: {error}")
    try:
        said = await carry_out()
    except OtpyError as error:
        reason = error.reason if isinstance(error, CommandRefused) else CommandRefusal.FAILED
        await _answered(log, number, refused(reason, str(error)))
        raise
    await _answered(log, number, Answer(ok=True, answer=said))
    return said


async def _answered(log: CommandLog, number: int | None, answer: Answer) -> None:
    with contextlib.suppress(LedgerUnwritable):  # that it was begun is written down
        if number is not None:
            await log.end(number, answer.model_dump_json(exclude={"version"}))
