"""One circuit breaker: a frozen value, and what each attempt makes of it.

Times are Unix seconds, so that every process reads the same circuit. Nothing happens at the moment
at which a circuit is due to let an attempt through: who asks, asks with the time.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import evolve, field, frozen

__all__ = ["CLOSED", "Circuit", "CircuitKey", "CircuitRules", "CircuitState"]


@frozen(order=True)
class CircuitKey:
    """What a circuit guards (C-33).

    Attributes:
        agent: CLI of the agent.
        model: Its model; empty for the one that the CLI is configured with.
        step: Kind of the step: the name of its role.
    """

    agent: str
    model: str
    step: str

    def __str__(self) -> str:
        """Return it as it is typed: `claude:opus/implementer`."""
        agent = f"{self.agent}:{self.model}" if self.model else self.agent
        return f"{agent}/{self.step}"

    @classmethod
    def of(cls, cli: str, step: str) -> CircuitKey:
        """Return the key of `VENDOR` or `VENDOR:MODEL` at a kind of step."""
        agent, _, model = cli.partition(":")
        return cls(agent, model, step)

    @classmethod
    def parsed(cls, text: str) -> CircuitKey | None:
        """Return what `str` made into `text`; None if it is not a key."""
        cli, slash, step = text.rpartition("/")
        return cls.of(cli, step) if slash and cli and step else None


@frozen(kw_only=True)
class CircuitRules:
    """When circuits open and close.

    Attributes:
        failures: So many failures within `window` open a circuit.
        window: Seconds.
        reset: Seconds for which an open circuit lets nothing through.
    """

    failures: int = 5
    window: float = 300.0
    reset: float = 60.0


class CircuitState(StrEnum):
    """The states of ENG-05."""

    CLOSED = "closed"
    """Every attempt is made."""
    OPEN = "open"
    """No attempt is made."""
    HALF_OPEN = "half_open"
    """One attempt is made, and decides."""


@frozen(kw_only=True)
class Circuit:
    """Where a circuit breaker stands.

    Attributes:
        failures: When attempts failed, in Unix seconds, oldest first: those that count still.
        until: When it lets an attempt through again, in Unix seconds; None while it is closed.
        trial: When the attempt that was let through is given up, in Unix seconds; None if there is
            none.
    """

    failures: tuple[float, ...] = field(default=())
    until: float | None = None
    trial: float | None = None

    def state(self, now: float) -> CircuitState:
        """Return its state at a moment."""
        if self.until is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.until else CircuitState.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Whether an attempt may be made; in `HALF_OPEN` only one, which `tried` tells of."""
        state = self.state(now)
        if state is CircuitState.HALF_OPEN:
            return self.trial is None or now >= self.trial
        return state is CircuitState.CLOSED

    def tried(self, ends: float) -> Circuit:
        """Return it with an attempt that was let through.

        Args:
            ends: When another may be made if nothing is heard of this one, whose host may die.
        """
        return evolve(self, trial=ends)

    def failed(self, rules: CircuitRules, now: float) -> Circuit:
        """Return it after an attempt failed.

        What was begun before it opened, and fails meanwhile, says nothing new.
        """
        if self.state(now) is CircuitState.OPEN:
            return self
        recent = (*(at for at in self.failures if now - rules.window < at <= now), now)
        recent = recent[-rules.failures :]
        if self.until is None and len(recent) < rules.failures:
            return evolve(self, failures=recent)
        return Circuit(failures=recent, until=now + rules.reset)

    def succeeded(self, now: float) -> Circuit:
        """Return it after an attempt succeeded.

        That closes a half-open circuit. Others stay as they are: an agent that fails at every
        second attempt is not sound, and an open circuit waits for an attempt that began later.
        """
        return CLOSED if self.state(now) is CircuitState.HALF_OPEN else self


CLOSED: Final = Circuit()
"""A circuit without known events."""
