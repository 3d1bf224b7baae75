"""A chore that ends the survivors of finished attempts of a list's runs (G-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from otpy_agents.clock import CLOCK
from otpy_agents.errors import InvalidRunSetting, RunStateError, UnknownRun
from otpy_agents.hygiene.leftovers import left_over_attempts
from otpy_agents.run.host.admission import sandbox_of
from otpy_agents.run.host.stored_form import StoredForm
from otpy_agents.sandbox.marker import run_marker

if TYPE_CHECKING:
    from otpy_agents.run.host.order import SandboxChoice
    from otpy_agents.sandbox import Sandbox
    from otpy_agents.store.runs import RunStore
    from otpy_monitors import Chore, Deletion

__all__ = ["LOOK_BACK", "attempts_of_runs"]

LOOK_BACK: Final = 3600.0
"""Seconds for which it is looked whether a run that has finished has left something alive."""

_GRACE: Final = 1.0
# Whatever else outlives its host may be gone on with by who resumes the run.
_DIE_WITH_THEIR_HOST: Final = frozenset({"process", "bubblewrap"})


def attempts_of_runs(
    store: RunStore,
    prefix: str,
    sandboxes: Mapping[str, Sandbox],
    clock: Callable[[], float] = CLOCK,
) -> Chore:
    """Return a chore that ends what attempts have left running, of all runs of one list.

    Over are all attempts of a run that finished within the last hour, and those that a dead host
    was making, unless they can be gone on with, as a container can. A run of a living host is left
    alone altogether: it sees to its attempts itself. The host that takes over the run of a dead
    host gives its attempts new numbers, so none of those can be ended by mistake.

    Args:
        store: Of the runs.
        prefix: How the labels of the list's runs begin.
        sandboxes: By name, before those that are built in.
        clock: Unix seconds.
    """
    choices: dict[str, SandboxChoice] = {}

    async def over() -> dict[SandboxChoice, dict[str, dict[str, str]]]:
        limit = clock() - LOOK_BACK
        dead = [one for one in await store.dead_runs() if one.label.startswith(prefix)]
        done = [
            one
            for one in await store.runs()
            if one.label.startswith(prefix) and one.finished is not None and one.finished > limit
        ]
        for run in choices.keys() - {record.id for record in (*dead, *done)}:
            del choices[run]
        found: dict[SandboxChoice, dict[str, dict[str, str]]] = {}
        for record in (*dead, *done):
            try:
                stored = await store.run(record.id)
                if record.id not in choices:  # an order never changes
                    choices[record.id] = StoredForm.sandbox_in(stored.state)
            except (RunStateError, UnknownRun):
                continue
            choice = choices[record.id]
            if stored.record.finished is None and choice.name not in _DIE_WITH_THEIR_HOST:
                continue
            markers = found.setdefault(choice, {})
            for attempt in stored.attempts:
                name = f"attempt {attempt.number} of run {record.id}"
                markers[name] = run_marker(record.id, attempt.number)
        return found

    async def over_in(choice: SandboxChoice) -> dict[str, dict[str, str]]:
        return (await over()).get(choice, {})

    async def chore() -> AsyncIterator[Deletion]:
        for choice in await over():
            try:
                sandbox = sandbox_of(choice, sandboxes)
            except InvalidRunSetting:  # this host was not given what an earlier one had
                continue
            async for deletion in left_over_attempts(sandbox, partial(over_in, choice), _GRACE)():
                yield deletion

    return chore
