"""Processes that killed hosts left alive, of runs that no host works on (G-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final

from attrs import frozen

from otpy_agents.errors import RunStateError, UnknownRun
from otpy_agents.process.orphans import Recorded
from otpy_agents.run.host.stored_form import StoredForm, identity_from_json
from otpy_agents.sandbox import ProcessSandbox
from otpy_agents.sandbox.behaviour import LeftOver
from otpy_agents.sandbox.marker import run_marker
from otpy_agents.store import RunStore, StoredAttempt, StoredRun

__all__ = ["EndedLeftOver", "end_leftovers"]

_GRACE: Final = 2.0
# A container outlives its host on purpose: who resumes the run goes on with it.
_ADOPTED: Final = "docker"


@frozen
class EndedLeftOver:
    """A process that was ended.

    Attributes:
        run: The run it worked for.
        left: What it was.
    """

    run: str
    left: LeftOver

    def __str__(self) -> str:
        """Return it as a person is told."""
        return f"ended {self.left} of run {self.run}, whose program was killed"


async def end_leftovers(store: RunStore) -> AsyncIterator[EndedLeftOver]:
    """End the living processes of dead hosts' unfinished runs, and yield them.

    The runs themselves stay as they are, and can be resumed. Only attempts that the dead host has
    begun are looked for, by their numbers: another host may take the run over at any time, and what
    it starts has a number of its own.
    """
    for record in await store.dead_runs():
        try:
            stored = await store.run(record.id)
            adopted = StoredForm.from_json(stored.state).order.sandbox.name == _ADOPTED
        except (RunStateError, UnknownRun):
            continue
        for attempt in () if adopted else _unended(stored):
            marker = run_marker(record.id, attempt.number)
            for left in await ProcessSandbox().clear(marker, _recorded(attempt), grace=_GRACE):
                yield EndedLeftOver(record.id, left)


def _unended(stored: StoredRun) -> Iterable[StoredAttempt]:
    return (attempt for attempt in stored.attempts if attempt.ended is None)


def _recorded(attempt: StoredAttempt) -> tuple[Recorded, ...]:
    identity = None if attempt.identity is None else identity_from_json(attempt.identity)
    return (identity,) if isinstance(identity, Recorded) else ()
