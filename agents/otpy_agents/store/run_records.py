"""The records of the store of runs: frozen values. All times are Unix seconds."""

from __future__ import annotations

import uuid
from typing import Final

from attrs import frozen

__all__ = [
    "AttemptBegun",
    "AttemptEnded",
    "CooldownRecord",
    "Lease",
    "RunRecord",
    "StoredAttempt",
    "StoredRun",
    "new_run_id",
]

_ID_LENGTH: Final = 10


def new_run_id() -> str:
    """Return an id for a new run: the first ten hex digits of a random UUID4 (RUN-02)."""
    return uuid.uuid4().hex[:_ID_LENGTH]


@frozen
class Lease:
    """The right to write to a run, until another host takes the run over (G-19).

    Attributes:
        run: Its id.
        fence: How often the run has changed hands, from 1; a write with an old number is refused.
    """

    run: str
    fence: int


@frozen(kw_only=True)
class AttemptBegun:
    """An attempt that is about to be started.

    Attributes:
        number: From 1, for each run.
        agent: Who makes it.
    """

    number: int
    agent: str


@frozen(kw_only=True)
class AttemptEnded:
    """An attempt that is over.

    Attributes:
        number: As when it was begun.
        outcome: How it ended, as JSON; the store does not look into it.
    """

    number: int
    outcome: str


@frozen(kw_only=True)
class StoredAttempt:
    """One attempt of a run.

    Attributes:
        number: From 1.
        agent: Who made it.
        identity: By what its process or container is found, as JSON; None if its host died before
            it could say.
        started: When it was written down, which is before it was started.
        ended: None if no end is known.
        outcome: How it ended, as JSON; None as above.
    """

    number: int
    agent: str
    identity: str | None
    started: float
    ended: float | None
    outcome: str | None


@frozen(kw_only=True)
class RunRecord:
    """A run as it stands in a list.

    Attributes:
        id: Its id.
        host: The host that works on it, or was the last to do so.
        fence: How often it has changed hands, from 1.
        version: Version of the stored state.
        status: Where it stands, in words.
        agent: Who works on it.
        prompt: Its prompt.
        cwd: Where.
        label: The client that ordered it; empty if unknown.
        created: When it was created.
        changed: When it was last written to.
        finished: When it came to its end; None if it has not.
        exit_code: None if it has not finished.
    """

    id: str
    host: int
    fence: int
    version: int
    status: str
    agent: str
    prompt: str
    cwd: str
    label: str
    created: float
    changed: float
    finished: float | None
    exit_code: int | None


@frozen(kw_only=True)
class StoredRun:
    """A run with all that is needed to go on with it.

    Attributes:
        record: As in a list.
        state: Its state, as JSON; the store does not look into it.
        attempts: All of them, in order.
    """

    record: RunRecord
    state: str
    attempts: tuple[StoredAttempt, ...]

    @property
    def lease(self) -> Lease:
        """The right to write to it; useful only to the host that created it or took it over."""
        return Lease(self.record.id, self.record.fence)


@frozen(kw_only=True)
class CooldownRecord:
    """An account that may not be asked for a while (C-15).

    Attributes:
        agent_cli: Name of the adapter.
        credential: Which of its logins; a name, never the secret itself.
        until: When it is free again.
        reason: Why, in words.
        told: When that was told; of one that was ended before its time, when it was.
    """

    agent_cli: str
    credential: str
    until: float
    reason: str
    told: float = 0.0
