"""The usage in a CLI's own session files: each answered request, while the agent works.

A CLI tells its usage when it ends, and one that is stopped or killed never does. Yet each of ours
writes every answer to the file of its session as it comes, so that the session can be resumed.
This module decides what such lines amount to; `session_tail` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, final

from attrs import frozen

from otpy_agents.adapters.fields import JsonObject, text
from otpy_agents.adapters.stream import JsonLines
from otpy_agents.attempt.events import Spent
from otpy_agents.attempt.usage import Usage

__all__ = ["LineUsage", "SessionLog", "UsageReader"]


@frozen
class LineUsage:
    """The usage in one line of a session file.

    Attributes:
        request: What the tokens belong to, for example one answer of the model. A later line about
            the same takes the place of the earlier one.
        usage: Its tokens.
        model: The model, where the line names it; otherwise empty.
    """

    request: str
    usage: Usage
    model: str = ""


class SessionLog(Protocol):
    """The session files of one CLI."""

    @property
    def hints(self) -> Sequence[str]:
        """Words, at least one of which is in each relevant line; other lines are not parsed."""
        ...

    def files(self, session: str, variables: Mapping[str, str]) -> Sequence[Path]:
        """Return the files of a session that are there now, looked up on the disk.

        Args:
            session: Its id.
            variables: The environment of the CLI.
        """
        ...

    def answered(self, found: JsonObject) -> LineUsage | None:
        """Return the usage in a line; None if it has none."""
        ...


@final
class UsageReader:
    """Adds up the usage in the lines of a session, each request once.

    Args:
        log: The CLI's.
        since: Unix seconds; earlier lines belong to earlier attempts. 0 takes all.
    """

    def __init__(self, log: SessionLog, since: float = 0.0) -> None:
        self._log, self._since = log, since
        self._json = JsonLines()
        self._requests: dict[str, Usage] = {}
        self._model = ""
        self.total = Usage()
        """The sum so far."""

    @property
    def spent(self) -> Spent:
        """The sum so far, as an event."""
        return Spent(self.total, self._model)

    def feed(self, line: str) -> None:
        """Take in one line, without its line feed."""
        if not any(hint in line for hint in self._log.hints):
            return
        for found in self._json.feed(line):
            answered = self._log.answered(found)
            if answered is not None and _moment(found) >= self._since:
                self._take(answered)

    def _take(self, answered: LineUsage) -> None:
        self._model = answered.model or self._model
        before = self._requests.get(answered.request, Usage())
        # Claude repeats an answer for each of its parts, at first with what it had written so far.
        if answered.usage.output >= before.output:
            self._requests[answered.request] = answered.usage
            self.total += answered.usage - before


def _moment(found: JsonObject) -> float:
    """Return the Unix time of a line; a line without one counts as written now."""
    try:
        return datetime.fromisoformat(text(found, "timestamp")).timestamp()
    except ValueError:
        return float("inf")
