"""What is known of a run while it goes on, for one line on a terminal."""

from __future__ import annotations

from typing import Final, final

from attrs import evolve

from otpy_agents.attempt.events import Event, Spent, ToolEnded, ToolStarted
from otpy_agents.attempt.usage import Usage
from otpy_agents.cli.run_lookup import typed
from otpy_agents.cli.run_words import countdown, span, spent
from otpy_agents.cli.view import printable
from otpy_agents.run.decide.state import RunPhase
from otpy_agents.run.host.facts import (
    AgentEvent,
    AttemptBegan,
    AttemptOver,
    ClockSet,
    Fact,
    OutputLine,
    PhaseChanged,
    Quiet,
    RunBegan,
    WaitBegan,
    WaitOver,
)

__all__ = ["RunProgress", "what_cuts"]

_COMMAND: Final = "command"
_PHASES: Final = {
    RunPhase.INITIALIZE: "getting ready",
    RunPhase.LAUNCH: "starting",
    RunPhase.RUN: "working",
    RunPhase.DETECT_EXIT: "ending",
    RunPhase.CLASSIFY_ERROR: "failed",
    RunPhase.SWITCH_AGENT: "switching",
    RunPhase.COMPLETE: "over",
}


def what_cuts(run: str) -> str:
    """Return what to type in a second terminal to be rid of a wait."""
    return typed("runs", "retry-now", run)


@final
class RunProgress:
    """Hears all facts of one run, and tells where it stands."""

    def __init__(self) -> None:
        self._run = ""
        self._agent = ""
        self._number = 0
        self._phase = RunPhase.INITIALIZE
        self._since: float | None = None
        self._over = Usage()
        self._reading = Usage()
        self._tool = ""
        self._line: str | None = None
        self._wait: WaitBegan | None = None
        self._silent_since: float | None = None

    def take(self, fact: Fact) -> None:
        """Take in what happened."""
        self._run = fact.run
        match fact:
            case RunBegan():
                self._since = fact.at
            case PhaseChanged():
                self._phase = fact.phase
            case AttemptBegan():
                self._agent, self._number = fact.agent_id, fact.number
                self._since, self._reading, self._tool = fact.at, Usage(), ""
                # Whatever else may be worth showing of an agent is an event of its adapter.
                self._line = "" if fact.agent_cli == _COMMAND else None
                self._wait = self._silent_since = None
            case OutputLine() if self._line is not None:
                self._line = fact.text
            case AgentEvent():
                self._silent_since = None
                self._hear(fact.said)
            case AttemptOver():
                self._over += fact.record.usage
                self._reading, self._tool = Usage(), ""
            case ClockSet():
                self._move(fact.by, fact.until)
            case WaitBegan():
                self._wait = fact
            case WaitOver():
                self._wait = None
            case Quiet():
                self._silent_since = fact.at - fact.seconds
            case _:
                pass

    def _move(self, by: float, until: float | None) -> None:
        if self._since is not None:
            self._since += by
        if self._silent_since is not None:
            self._silent_since += by
        if self._wait is not None and until is not None:
            self._wait = evolve(self._wait, until=until)

    def _hear(self, event: Event) -> None:
        match event:
            case ToolStarted():
                self._tool = event.name
            case ToolEnded():
                self._tool = ""
            case Spent():
                self._reading = event.usage
            case _:
                pass

    def line(self, now: float) -> str:
        """Return where the run stands at `now`, in Unix seconds."""
        if self._wait is not None:
            # The command names the run, and all of it has to fit into 80 columns.
            parts = self._waiting(self._wait, now)
        else:
            agent = f"{self._agent} #{self._number}" if self._agent else ""
            parts = [self._run, agent, *self._working(now)]
        return printable("  ".join(part for part in parts if part))

    def _waiting(self, wait: WaitBegan, now: float) -> list[str]:
        next_ = f"retry {wait.retry}" if wait.retry else "next attempt"
        left = countdown(wait.until - now)
        return [
            wait.agent_id,
            f"{next_} in {left} ({wait.reason})",
            f"now: {what_cuts(self._run)}",
        ]

    def _working(self, now: float) -> list[str]:
        parts = [_PHASES[self._phase]]
        if self._since is not None:
            parts.append(span(now - self._since))
        if used := spent(self._over + self._reading):
            parts.append(used)
        if self._silent_since is not None:
            parts.append(f"silent for {span(now - self._silent_since)}")
        if shown := self._tool or self._line:
            parts.append(shown)
        return parts
