"""The parts of an agent that outlive it beside its post: its session and its work tree."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from attrs import evolve

from otpy_agents.agent.checkpoint import Unusable, read_checkpoint
from otpy_agents.agent.verification import TESTS_FAILED
from otpy_agents.clock import CLOCK
from otpy_agents.errors import (
    BudgetRenewed,
    DeadlinePassed,
    GangFailed,
    RunFailed,
    SessionCorrupt,
    VerificationFailed,
    WorkerStalled,
)
from otpy_agents.run.decide.result import VendorSession
from otpy_agents.store.sessions import JSON, RestartContext, SessionStore, StoredSession
from otpy_agents.workspace import ChangesetOwner, Changesets, Fates

if TYPE_CHECKING:
    from otpy_agents.agent.post import Post
    from otpy_agents.run.decide.result import RunResult

__all__ = ["HOST", "Persistence", "word_for"]

HOST: Final = "host"
"""In one word, why the first life under this host is not the first of its agent."""

_WORDS: Final = (
    (VerificationFailed, "verification"),
    (WorkerStalled, "stall"),
    (DeadlinePassed, "deadline"),
    (GangFailed, "gang"),
    (BudgetRenewed, "budget"),
)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


def word_for(error: BaseException | None) -> str:
    """Return in one word why an agent is restarted, as the table of changesets has it."""
    if isinstance(error, RunFailed) and error.failure == TESTS_FAILED:
        return TESTS_FAILED  # its work stays, for the agent to repair
    for kind, word in _WORDS:
        if isinstance(error, kind):
            return word
    return error.failure if isinstance(error, RunFailed) else "crash"


@final
class _Remembered:
    """A store of sessions that lasts as long as its host."""

    def __init__(self) -> None:
        self._kept: dict[str, StoredSession] = {}

    async def load(self, agent: str) -> StoredSession | None:
        return self._kept.get(agent)

    async def save(self, session: StoredSession) -> None:
        self._kept[session.agent] = session

    async def forget(self, agent: str) -> None:
        self._kept.pop(agent, None)

    async def all(self) -> tuple[StoredSession, ...]:
        return tuple(self._kept.values())


@final
class Persistence:
    """Keeps sessions and changesets of the agents of one project.

    Args:
        project: Its key; names work trees and branches.
        owner: Its work list, told apart from others of that name.
        sessions: Where sessions are kept; None to keep them only as long as this host lives.
        fates: What becomes of a changeset, by the reason of a restart (TREE-38).
        tell: Called as `tell(name, id, **detail)` with what a person should know.
        checkpoint: Returns where the checkpoint of an assignment lies, if its agent leaves one.
        clock: Unix seconds.

    Attributes:
        sessions: As given, or what lasts as long as this.
    """

    def __init__(
        self,
        project: str,
        owner: ChangesetOwner,
        sessions: SessionStore | None,
        fates: Fates | None,
        tell: Callable[..., None],
        checkpoint: Callable[[str], Path],
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self._project = _NO_NAME.sub("-", project) or "list"
        self._owner = owner
        self.sessions: SessionStore = sessions or _Remembered()
        self._fates = fates
        self._tell = tell
        self._file = checkpoint
        self._clock = clock
        self._repositories: dict[Path, Changesets] = {}

    def changesets(self, repository: Path) -> Changesets:
        """Return the changesets of the project in a repository; one object for all callers."""
        if repository not in self._repositories:
            self._repositories[repository] = Changesets(
                repository, project=self._project, owner=self._owner, fates=self._fates
            )
        return self._repositories[repository]

    async def recall(self, post: Post, context: RestartContext) -> StoredSession | None:
        """Return the stored session of an agent's last life, and restore its post from it.

        What is corrupt has been set aside: the agent starts fresh, and a person is told (TREE-35).
        """
        if context is RestartContext.FRESH:
            post.session = None
            return None
        stored = await self._last(post)
        if stored is not None:
            stored = evolve(stored, checkpoint=self._checkpoint(post, stored.checkpoint))
            post.summary = stored.summary
            if post.session is None or post.session.id != stored.session_id:
                post.session = VendorSession(id=stored.session_id, agent_cli=stored.cli)
        return stored

    async def remember(self, post: Post, result: RunResult, answer: str) -> None:
        """Keep the session for a later run or life."""
        before = await self._last(post)
        post.session = result.resumable or post.session
        post.summary = answer.strip() or post.summary
        if post.session is not None:
            await self.sessions.save(
                StoredSession(
                    agent=post.key,
                    cli=post.session.agent_cli,
                    session_id=post.session.id,
                    summary=post.summary,
                    saved_at=self._clock(),
                    checkpoint=self._checkpoint(
                        post, None if before is None else before.checkpoint
                    ),
                )
            )

    async def forget(self, post: Post) -> None:
        """Keep the session of an agent no longer: it is done."""
        await self.sessions.forget(post.key)
        with contextlib.suppress(OSError):
            self._file(post.assignment.id).unlink(missing_ok=True)

    async def _last(self, post: Post) -> StoredSession | None:
        """Return the stored session; set a corrupt one aside, and tell a person."""
        try:
            return await self.sessions.load(post.key)
        except SessionCorrupt as error:
            self._tell("agent.session_corrupt", post.assignment.id, reason=str(error))
            post.session, post.summary = None, ""
            return None

    def _checkpoint(self, post: Post, last: JSON) -> JSON:
        """Return the checkpoint that an agent has left; the last one without a sound one."""
        try:
            return read_checkpoint(self._file(post.assignment.id))
        except FileNotFoundError:
            return last
        except Unusable as error:
            self._tell("agent.checkpoint_refused", post.assignment.id, reason=str(error))
            return last

    async def begin_anew(self, agent: str) -> None:
        """Forget the session of an agent without a known attempt: it is of another definition."""
        await self.sessions.forget(agent)

    async def new_work_tree(self, repository: Path, assignment: str) -> Path:
        """Return the work tree of an assignment without a known attempt.

        Work that lies there is that of a life that was forgotten, or had another definition: it is
        put on a branch, and a person is told which.

        Raises:
            ChangesetError: There is none to be had.
        """
        changesets = self.changesets(repository)
        changeset = await changesets.open(assignment)
        branch = await changesets.put_away(changeset, "started from scratch")
        if branch:
            self._tell("agent.work_discarded", assignment, branch=branch)
        return changeset.path

    async def work_tree(self, repository: Path, assignment: str, restarted: str | None) -> Path:
        """Return the work tree of an assignment.

        Args:
            repository: The git repository.
            assignment: Its id.
            restarted: Why its agent is restarted, in one word; None for a first life.

        Raises:
            ChangesetError: There is none to be had.
        """
        changesets = self.changesets(repository)
        if restarted is None:
            return (await changesets.open(assignment)).path
        return (await changesets.settle(assignment, restarted)).path
