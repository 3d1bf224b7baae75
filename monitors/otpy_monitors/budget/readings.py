"""Readings of usage counters, and the rule by which each token counts once (G-07)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import frozen

from otpy_monitors.budget.amount import Kind

if TYPE_CHECKING:
    from otpy_monitors.activity import UsageSeen

__all__ = ["NOTHING", "Reading", "read", "since"]


@final
@frozen
class Reading:
    """Where a counter stands, or by how much it has moved.

    Attributes:
        input: Tokens read, without those in `cached`.
        output: Tokens written.
        cached: Tokens read from a cache.
        cost: Nano-dollars as the CLI reports them; None if it does not. Of the counter of a run the
            ledger keeps what it has charged by the table here, until the CLI reports.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: int | None = None

    @property
    def tokens(self) -> int:
        """All of them together."""
        return self.input + self.output + self.cached


NOTHING = Reading(cost=0)
"""A counter that has not moved."""


def read(seen: UsageSeen) -> Reading:
    """Return the reading in a fact. A cost of 0 for used tokens counts as not reported."""
    reading = Reading(seen.input_tokens, seen.output_tokens, seen.cached_tokens)
    if seen.cost_usd is None or (seen.cost_usd <= 0 and reading.tokens > 0):
        return reading
    return Reading(
        reading.input, reading.output, reading.cached, Kind.COST_USD.whole(seen.cost_usd)
    )


def since(
    before: Reading, now: Reading, *, cumulative: bool, late: bool = False
) -> tuple[Reading, Reading]:
    """Return the new part of a reading, and the counter after it.

    A counter of one run only grows, so that a lower reading is an old one. A cumulative counter
    that fell was reset, for example because its session was forked or compacted: all of it is new.
    An empty counter was not reset, nor was the counter of an attempt that is over: a CLI that was
    killed may have told more than it has written down. A cost that is reported for one run
    replaces the previous one, even if it is lower.

    Args:
        before: Where it stood; `NOTHING` for a counter never read.
        now: Its current reading.
        cumulative: Whether it counts a session, over all its runs, and not one run.
        late: Whether it was found only when its run was over.
    """
    if not cumulative:
        return _since_in_run(before, now)
    if now.input + now.cached < before.input + before.cached or now.output < before.output:
        return (NOTHING, before) if late or now.tokens == 0 else (now, now)
    # A cost counts from the last one that was reported. Where tokens went before without any, it
    # would count those again, which have had their price.
    is_known = now.cost is not None and before.cost is not None
    cost = max(0, (now.cost or 0) - (before.cost or 0)) if is_known else None
    new = Reading(
        now.input - before.input, now.output - before.output, now.cached - before.cached, cost
    )
    return new, now


def _since_in_run(before: Reading, now: Reading) -> tuple[Reading, Reading]:
    is_old = now.tokens < before.tokens
    cost = None if is_old else now.cost
    after = Reading(
        max(before.input, now.input),
        max(before.output, now.output),
        max(before.cached, now.cached),
        before.cost if is_old else cost,
    )
    new = Reading(
        after.input - before.input,
        after.output - before.output,
        after.cached - before.cached,
        None if cost is None else cost - (before.cost or 0),
    )
    return new, after
