"""Tells a person once about a problem with an account, however many agents meet it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from otpy_agents.attempt.failures import ACCOUNT_FAILURES, Detail
from otpy_agents.run.host.facts import AttemptOver, Fact

__all__ = ["Accounts"]

_TOLD: Final = ACCOUNT_FAILURES | {Detail.QUOTA}


@final
class Accounts:
    """A listener of a host of runs.

    Its agents wait meanwhile, as for any cooldown, and try again every few minutes.

    Args:
        tell: Gets the name of the CLI and what is wrong, in words for a person.
    """

    def __init__(self, tell: Callable[[str, str], object]) -> None:
        self._tell = tell
        self._told: dict[str, Detail] = {}

    def hear(self, fact: Fact) -> None:
        """Take a fact; a success of the account makes its next failure news again."""
        if not isinstance(fact, AttemptOver):
            return
        cli, detail = fact.record.agent_cli, fact.record.detail
        if fact.record.succeeded:
            self._told.pop(cli, None)
        elif detail is not None and detail in _TOLD and self._told.get(cli) is not detail:
            self._told[cli] = detail
            again = f"`otpy-agents cooldowns clear {cli}` lets its agents try again at once"
            self._tell(cli, f"{detail}: {fact.record.message or 'no reason was given'}; {again}")
