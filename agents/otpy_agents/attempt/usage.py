"""Tokens and money that an agent reports, and the rule that counts each of them once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import final

from attrs import frozen

__all__ = ["Usage", "UsageMeter"]


@frozen(kw_only=True)
class Usage:
    """What one agent spent, in the same terms for every vendor.

    Attributes:
        input: Tokens sent to the model, those from its cache included.
        cached: Those of `input` that came from the cache.
        output: Tokens the model wrote, its reasoning included.
        cost_usd: US dollars; 0 if neither the CLI says nor the price table knows.
    """

    input: int = 0
    cached: int = 0
    output: int = 0
    cost_usd: float = 0.0

    @property
    def unpriced(self) -> bool:
        """Whether there are tokens of unknown cost."""
        return not self.cost_usd and bool(self.input or self.output)

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(
            input=self.input + other.input,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    def __sub__(self, other: Usage) -> Usage:
        """Return what this is more than `other`."""
        return Usage(
            input=self.input - other.input,
            cached=self.cached - other.cached,
            output=self.output - other.output,
            cost_usd=self.cost_usd - other.cost_usd,
        )


@final
class UsageMeter:
    """Adds up the readings of many attempts, some of which resume an earlier session.

    Claude and Gemini report what one run spent. Codex and Copilot report what their session spent
    since it began, so that a second run in the same session reports the first one again. The meter
    takes one reading for each finished attempt and counts every token once.

    Args:
        readings: `readings` of an earlier meter, to go on where it stopped.
        total: Its `total`.
    """

    def __init__(
        self, readings: Mapping[str, Usage] | None = None, total: Usage | None = None
    ) -> None:
        self._readings = dict(readings or {})
        self._total = total or Usage()

    def add(
        self, usage: Usage, *, session: str | None, cumulative: bool, late: bool = False
    ) -> Usage:
        """Count the reading of one attempt and return what is new in it.

        A session's counter that fell was reset, for example because the session was forked or
        compacted: all of it is new. An empty counter was not reset, nor was the counter of a lost
        attempt: a CLI that was killed may have told more than it has written down.
        Budgets count by the same rule (`otpy_monitors.budget.readings`).

        Args:
            usage: The last reading of the attempt.
            session: Its session; None if it told none, and then all of it is new.
            cumulative: `Adapter.cumulative_usage`.
            late: Whether it was found in what the CLI of a lost attempt had written down.
        """
        spent = usage
        if cumulative and session is not None:
            before = self._readings.get(session, Usage())
            if usage.input >= before.input and usage.output >= before.output:
                spent = usage - before
            elif late or not (usage.input or usage.output):
                return Usage()
            self._readings[session] = usage
        self._total += spent
        return spent

    @property
    def total(self) -> Usage:
        """Everything counted so far."""
        return self._total

    @property
    def readings(self) -> Mapping[str, Usage]:
        """The last reading of each session whose count is cumulative; to be kept with `total`."""
        return MappingProxyType(dict(self._readings))
