"""Complaints about the work of an agent that claims to be done, and the command that finds them."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import frozen

import otpy
from otpy_agents.errors import SpawnFailed
from otpy_agents.process.process import spawn
from otpy_agents.sandbox.marker import worker_environment
from otpy_agents.store.redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy_agents.agent.folders import Folders
    from otpy_agents.worklist.assignment import AgentWork, Assignment

    Verifier: TypeAlias = "Callable[[Assignment, Path, str], Awaitable[Complaint | None]]"
    """Looks into what an agent did: its assignment, its work directory and its answer."""

__all__ = ["TESTS_FAILED", "Complaint", "run_verify"]

TESTS_FAILED: Final = "tests_failed"
"""The row in the table of failures for a command that did not succeed: three rounds (C-16)."""

_LAST_LINES: Final = 20
_LINE: Final = 500


@final
@frozen(kw_only=True)
class Complaint:
    """One thing that does not hold; the agent is told, if it gets another chance (TREE-29).

    Attributes:
        name: Its row in the table of failures, such as `changeset_wrong` or `tests_failed`.
        message: The complaint, for the agent and for a person.
        lines: More lines for the agent.
    """

    name: str
    message: str
    lines: tuple[str, ...] = ()

    @property
    def feedback(self) -> str:
        """All of it, as the agent is told."""
        shown = ("its last lines:", *self.lines) if self.lines else ()
        return "\n  ".join((self.message, *shown))


async def run_verify(
    assignment: Assignment, work: AgentWork, cwd: Path, *, list_id: str, folders: Folders
) -> Complaint | None:
    """Run the command that verifies an agent's work; return its complaint, or None.

    It runs as a process of the host, outside of any sandbox, with the environment of a worker. Exit
    code 0 within `verify_deadline` is success. A command that cannot be started has failed too: it
    may be the agent that spoilt it.

    Args:
        assignment: What the agent took.
        work: What it was asked to do.
        cwd: Where it worked.
        list_id: Identity of its list.
        folders: Where the files of its list lie.

    Cancellation:
        The command is ended with its group; nothing of it is alive afterwards.
    """
    me = otpy.current()
    environment = worker_environment(
        os.environ,
        assignment.env,
        list_id=list_id,
        assignment=assignment.id,
        incarnation=me.incarnation,
        restarts=me.restarts,
        work=folders.work(assignment.id),
        notes=folders.notes(assignment.id),
    )
    redacted = Redaction(environment)
    lines: deque[str] = deque(maxlen=_LAST_LINES)

    def on_line(line: str) -> None:
        clean = redacted(line).rstrip()
        if clean:
            lines.append(clean if len(clean) <= _LINE else f"{clean[:_LINE]}…")

    worker = spawn(work.verify, cwd=cwd, env=environment, grace=assignment.grace, on_line=on_line)
    try:
        async with worker:
            try:
                async with asyncio.timeout(work.verify_deadline):
                    status = await worker.wait()
                how = "" if status.succeeded else str(status)
            except TimeoutError:
                how = f"took longer than {work.verify_deadline:g} s"
    except SpawnFailed as error:
        how = str(error)
    if not how:
        return None
    said = f": {lines[-1]}" if lines else ""
    message = f"{shlex.join(work.verify)}: {how}{said}"
    return Complaint(name=TESTS_FAILED, message=redacted(message), lines=tuple(lines))
