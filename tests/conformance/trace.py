"""A trace: the record of one run of a scenario, in words that Erlang, Elixir and otpy share."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, final

from attrs import asdict, frozen


@final
@frozen
class Section:
    """The record of one step, up to the moment when everything was at rest again.

    Attributes:
        step: The step; "start" is the first.
        events: The events, in order. From children: `start a`, `fail a`, `ignore a` (its start),
            `die a boom` (by itself), `kill a`, `asked a`, `end a shutdown` (it was asked to end,
            and has). From supervisors: the error context, the child and the reason of each error
            report, and `started a` for each progress report. In a scenario of Elixir each begins
            with its writer, by which they are sorted; progress and kills are not recorded.
        results: The results of calls, in the order of the calls.
        ended: Supervisors that ended, with their exit reasons, sorted.
        tables: The child table and the counts (specs/active/supervisors/workers) of each running
            supervisor, sorted by path.
    """

    step: str
    events: list[str]
    results: list[str]
    ended: list[str]
    tables: list[str]

    def lines(self) -> list[str]:
        """Return the section as lines."""
        return [
            f"== {self.step}",
            *(f"   {event}" for event in self.events),
            *(f"   -> {result}" for result in self.results),
            *(f"   ended {line}" for line in self.ended),
            *(f"   | {line}" for line in self.tables),
        ]


Trace = list[Section]


def to_plain(trace: Trace) -> list[dict[str, Any]]:
    """Return `trace` in a form that JSON can hold."""
    return [asdict(section) for section in trace]


def from_plain(sections: list[dict[str, Any]]) -> Trace:
    """Return the trace that `to_plain` got."""
    return [Section(**section) for section in sections]


def side_by_side(theirs: Trace, otpy: Trace, language: str = "ERLANG") -> str:
    """Return both traces as text, with lines that differ marked."""
    rows: list[tuple[str, str]] = [(language, "OTPY")]
    for left, right in zip_longest(theirs, otpy):
        a = left.lines() if left else []
        b = right.lines() if right else []
        rows += zip_longest(a, b, fillvalue="")
    width = max(len(left) for left, _ in rows)
    return "\n".join(
        f"{' ' if left == right or not index else '*'} {left:{width}} | {right}"
        for index, (left, right) in enumerate(rows)
    )
