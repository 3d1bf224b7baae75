"""How a run in the foreground is shown: a live line, plain lines, JSON, or not at all.

The answer alone goes to standard output, and everything else to the error stream; with `--json`
everything goes to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Final, Protocol, TextIO, final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from otpy_agents.attempt.events import Problem, Retrying, ToolStarted
from otpy_agents.cli.run_lookup import typed
from otpy_agents.cli.run_progress import RunProgress, what_cuts
from otpy_agents.cli.run_words import ended_as, one_line, span, spent
from otpy_agents.cli.streams import to_nowhere
from otpy_agents.cli.view import printable
from otpy_agents.run.decide.result import Ending
from otpy_agents.run.decide.time_text import moment
from otpy_agents.run.host.facts import (
    AgentEvent,
    AttemptBegan,
    AttemptOver,
    ClockSet,
    Fact,
    LogLine,
    Quiet,
    RunBegan,
    RunEnded,
    WaitBegan,
)
from otpy_agents.run.host.facts import as_json as plain_fact

__all__ = ["RunView", "SteadyRunView", "open_run_view", "told"]

_LINE: Final = 300
_LONG: Final = 120.0  # seconds from which on the moment says more than the span


class RunView(Protocol):
    """Where a run is shown."""

    def take(self, fact: Fact) -> None:
        """Show what happened."""

    def note(self, text: str) -> None:
        """Show a line that is about no run, or about how this program ends."""

    def draw(self, now: float) -> None:
        """Show where the run stands at `now`, in Unix seconds; a few times a second is enough."""

    def close(self) -> None:
        """Give the terminal back; call it once."""


def told(fact: Fact) -> str | None:
    """Return a fact as a line for people; None if it is not worth one."""
    match fact:
        case RunBegan():
            return f"run {fact.run}: {' -> '.join(fact.agents)}"
        case AttemptBegan():
            return f"attempt {fact.number}: {fact.agent_id} ({fact.cause})"
        case AgentEvent(said=ToolStarted(name=name)):
            return f"attempt {fact.number}: uses {name}"
        case AgentEvent(said=Retrying(fault=fault) | Problem(fault=fault)):
            return f"attempt {fact.number}: {one_line(fault.message, _LINE)}"
        case AttemptOver():
            record = fact.record
            parts = [f"attempt {record.number}: {ended_as(record)}", spent(record.usage)]
            parts += [one_line(record.message, _LINE)]
            return "  ".join(part for part in parts if part)
        case WaitBegan():
            # Not from `at`: it is told a moment after the wait began, and 14.9 s would be 14 s.
            left, cut = span(round(fact.delay, 1)), f"`{what_cuts(fact.run)}` cuts it"
            if fact.delay < _LONG:
                return f"waits {left} for the {fact.reason}; {cut}"
            until = moment(fact.until, fact.until - fact.delay)
            return f"waits until {until} (in {left}) for the {fact.reason}; {cut}"
        case Quiet():
            return f"attempt {fact.number}: silent for {span(fact.seconds)}"
        case LogLine():
            return fact.text
        case RunEnded():
            result = fact.result
            why = "" if result.error is None else f": {one_line(result.error, _LINE)}"
            parts = [f"run {fact.run}: {result.status} ({result.ending}){why}", _effort(fact)]
            if result.ending is Ending.QUOTA:
                parts.append(f"`{typed('cooldowns', 'clear', 'NAME')}` lets the next run try")
            return "  ".join(part for part in parts if part)
        case _:
            return None


def _effort(ended: RunEnded) -> str:
    """Return the effort of a run: attempts, time, tokens and money."""
    attempts = ended.result.attempts
    if not attempts:
        return ""
    count = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
    took = span(ended.at - attempts[0].began)
    return "  ".join(part for part in (f"{count} in {took}", spent(ended.result.usage)) if part)


@final
class PlainRunView:
    """Writes a line for whatever is worth one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began: float | None = None

    def take(self, fact: Fact) -> None:
        """Write the line, with the seconds since the run began."""
        if self._began is None:
            self._began = fact.at
        if isinstance(fact, ClockSet):
            self._began += fact.by
        text = told(fact)
        if text is not None:
            self._write(f"{fact.at - self._began:7.2f} {printable(text)}")

    def note(self, text: str) -> None:
        """Write the line."""
        self._write(f"otpy-agents: {text}")

    def draw(self, now: float) -> None:
        """Do nothing: the facts tell the story."""

    def close(self) -> None:
        """Do nothing."""

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


@final
class LiveRunView:
    """Keeps one line up to date, and puts what happens above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = RunProgress()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def take(self, fact: Fact) -> None:
        """Write a line if it is worth one, and remember it for the live one."""
        self._progress.take(fact)
        text = None if _of_tools(fact) else told(fact)
        if text is not None:
            # Printing draws the live line again, which must not be one of before.
            self._live.update(self._line(fact.at), refresh=True)
            self._print(printable(text))

    def note(self, text: str) -> None:
        """Write the line."""
        self._print(f"otpy-agents: {printable(text)}")

    def draw(self, now: float) -> None:
        """Draw the live line over the one before."""
        self._live.update(self._line(now), refresh=True)

    def close(self) -> None:
        """Remove the live line."""
        self._live.stop()

    def _line(self, now: float) -> Text:
        return Text(self._progress.line(now), style="cyan", no_wrap=True, overflow="ellipsis")

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _of_tools(fact: Fact) -> bool:
    return isinstance(fact, AgentEvent) and isinstance(fact.said, ToolStarted)


@final
class JsonRunView:
    """Writes one JSON object for each fact; flushed at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def take(self, fact: Fact) -> None:
        """Write the object."""
        plain = plain_fact(fact)
        if isinstance(fact, RunEnded):
            # What a program asks first, and would otherwise have to work out.
            plain |= {"status": fact.result.status, "exit_code": fact.result.exit_code}
        print(json.dumps(plain), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Write it as the object `note`."""
        print(json.dumps({"event": "note", "text": text}), file=self._stream, flush=True)

    def draw(self, now: float) -> None:
        """Do nothing: the facts tell the story."""

    def close(self) -> None:
        """Do nothing."""


@final
class SilentRunView:
    """Shows nothing."""

    def take(self, fact: Fact) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def draw(self, now: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@final
class SteadyRunView:
    """Shows what another view shows until that can be written nowhere; from then on nothing.

    A run must not fail because nobody looks any more.
    """

    def __init__(self, view: RunView, stream: TextIO) -> None:
        self._view: RunView | None = view
        self._stream = stream

    def take(self, fact: Fact) -> None:
        """Show what happened."""
        self._try(lambda view: view.take(fact))

    def note(self, text: str) -> None:
        """Show a line."""
        self._try(lambda view: view.note(text))

    def draw(self, now: float) -> None:
        """Show where the run stands."""
        self._try(lambda view: view.draw(now))

    def close(self) -> None:
        """Give the terminal back."""
        self._try(lambda view: view.close())

    def _try(self, show: Callable[[RunView], None]) -> None:
        if self._view is None:
            return
        try:
            show(self._view)
        except (OSError, ValueError, SystemExit):  # the last is how rich takes a closed pipe
            self._view = None
            to_nowhere(self._stream)


def open_run_view(*, as_json: bool, quiet: bool) -> RunView:
    """Return the view that was asked for; else live if the error stream is a terminal."""
    stream: TextIO | None = sys.stdout if as_json else sys.stderr
    if quiet or stream is None:
        return SilentRunView()
    if as_json:
        return SteadyRunView(JsonRunView(stream), stream)
    console = Console(file=stream)
    live = console.is_terminal and not console.is_dumb_terminal
    return SteadyRunView(LiveRunView(console) if live else PlainRunView(stream), stream)
