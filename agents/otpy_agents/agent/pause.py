"""Why a mortal rests: one pause for each cause, and each ends by its own cure (C-12, G-10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, final

from attrs import field, frozen

__all__ = ["AMOUNTS", "BUDGET", "OPERATOR", "QUESTION", "RULE", "AgentPause", "Cure", "Pauses"]

OPERATOR: Final = "operator"
"""The cause of a pause that a person has asked for."""

BUDGET: Final = "budget"
"""The cause of a pause of who has spent its budget."""

RULE: Final = "rule:"
"""The start of the cause of a pause of who has broken a rule; its name follows."""

QUESTION: Final = "question"
"""The cause of a pause of who has asked a person."""

AMOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tokens": "--tokens N",
        "cost_usd": "--usd X",
        "seconds": "--minutes M",
        "output_bytes": "--bytes N",
    }
)
"""How each kind of budget is granted on the command line."""


class Cure(StrEnum):
    """The event that ends a pause."""

    RESUME = "resume"
    """Somebody says so."""
    GRANT = "grant"
    """There is more budget."""
    ANSWER = "answer"
    """The question has an answer."""


_CURES: Final = {BUDGET: Cure.GRANT, QUESTION: Cure.ANSWER}


@final
@frozen(kw_only=True)
class AgentPause:
    """Why a mortal rests.

    Attributes:
        by: The cause: `operator`, `budget`, `gang:NAME`, `rule:NAME`, `question`.
        why: In one line.
        account: Whose budget is spent; empty for the agent's own.
        kind: The kind of budget: `tokens`, `cost_usd`, `seconds` or `output_bytes`.
    """

    by: str
    why: str
    account: str = ""
    kind: str = "tokens"

    @property
    def cure(self) -> Cure:
        """The event that ends it."""
        return _CURES.get(self.by, Cure.RESUME)

    @property
    def asks(self) -> bool:
        """Whether a person has to say or to grant something before it can go on."""
        return self.by != OPERATOR

    def outlasts_host(self, *, program: bool) -> bool:
        """Whether it is kept for the next host, which looks again at some causes by itself.

        Args:
            program: Whether it is one of a program, whose command each life is judged for.
        """
        return self.by != BUDGET and not (program and self.by.startswith(RULE))

    def needs(self, name: str) -> str:
        """Return why an agent of that name rests, and the action that a person has to take."""
        match self.cure:
            case Cure.GRANT:
                grant = f"{self.account or name} {AMOUNTS[self.kind]}"
                return f"{self.why}; grant it more: `otpy-agents budget grant {grant}`"
            case Cure.ANSWER:
                return f"it has asked {self.why!r}: `otpy-agents answer {name} TEXT`"
            case Cure.RESUME:
                return f"{self.why}: `otpy-agents resume {name}`"


@final
@frozen
class Pauses:
    """All pauses of one mortal, at most one for each cause, oldest first."""

    _all: tuple[AgentPause, ...] = field(default=())

    @property
    def first(self) -> AgentPause | None:
        """The oldest; None for none."""
        return self._all[0] if self._all else None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._all)

    @property
    def ask(self) -> bool:
        """Whether one of them asks a person."""
        return any(one.asks for one in self._all)

    def __iter__(self) -> Iterator[AgentPause]:
        """Iterate over them, oldest first."""
        return iter(self._all)

    def __contains__(self, cause: str) -> bool:
        """Whether there is one for a cause."""
        return any(one.by == cause for one in self._all)

    def add(self, pause: AgentPause) -> Pauses:
        """Return these and another; these alone if there is one for its cause."""
        return self if pause.by in self else Pauses((*self._all, pause))

    def cured(self, cure: Cure) -> Pauses:
        """Return those that a cure leaves."""
        return Pauses(tuple(one for one in self._all if one.cure is not cure))
