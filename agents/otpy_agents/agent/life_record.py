"""One life of a mortal, as the ledger knows it: begun before anything else, and ended for sure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from attrs import define

import otpy
from otpy_agents.agent.course import Course, Reaped
from otpy_agents.errors import LedgerError
from otpy_agents.store.records import Outcome, State

if TYPE_CHECKING:
    from otpy_agents.agent.desk import Desk

__all__ = ["LifeRecord", "end_here", "end_if_given_up", "living"]


@define
class LifeRecord:
    """How a life went, as far as it is known.

    Attributes:
        attempt: Its number in the ledger.
        reason: How it ended; set by the life itself if it ended well.
        exit_code: Of its worker; None if there is none to tell.
        last_line: Its last line, without secrets.
        output_bytes: How much it wrote.
    """

    attempt: int
    reason: str = ""
    exit_code: int | None = None
    last_line: str = ""
    output_bytes: int = 0


@contextlib.asynccontextmanager
async def living(desk: Desk, assignment: str) -> AsyncGenerator[LifeRecord]:
    """Write down that a life begins, and in the end how it ended, however that comes about.

    It does not begin before the disk takes that.

    Raises:
        LedgerError: Its beginning could not be written down, for another reason.
    """
    me = otpy.current()
    begin = partial(desk.memory.ledger.begin_attempt, assignment, me.incarnation)
    attempt = await desk.memory.disk.until_written(begin)
    life = LifeRecord(attempt)
    try:
        yield life
    except asyncio.CancelledError:
        life.reason = str(me.requested)
        raise
    except Exception as error:
        life.reason = str(error)
        raise
    finally:
        desk.memory.end_life(assignment, life.reason)
        # A ledger that takes no writes must not undo good work, nor hide how bad work ended.
        with contextlib.suppress(LedgerError):
            await desk.memory.ledger.end_attempt(
                attempt,
                life.reason,
                exit_code=life.exit_code,
                last_line=life.last_line,
                output_bytes=life.output_bytes,
            )


async def end_here(
    desk: Desk, name: str, why: str, state: State = State.REAPED, *, failed: bool = False
) -> NoReturn:
    """End the life that calls it for good; it is ended for the reason given (TREE-49).

    Args:
        desk: The desk of its list.
        name: Its assignment.
        why: The reason, in one line.
        state: How the assignment comes out.
        failed: Whether it has failed, as its group is to know.
    """
    courses = desk.memory.courses
    courses.change(name, partial(Course.give_up, outcome=Outcome(state, why)))
    otpy.current().exit(otpy.Shutdown(Reaped(why, failed)))
    courses.news(name)
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def end_if_given_up(desk: Desk, name: str, started: Callable[[], object]) -> None:
    """End the life that begins here, for good, if its assignment is being given up.

    Its supervisor had begun it when it was ended before it was ready. That would be a failed start,
    and a caller that wants no further start would have to wait until this one is over: for its
    place among restarts, for example.

    Args:
        desk: The desk of its list.
        name: Its assignment.
        started: Makes it ready, so that its end is not a failed start.
    """
    outcome = desk.memory.courses.ending.get(name)
    if outcome is not None:
        started()
        await end_here(desk, name, outcome.reason)
