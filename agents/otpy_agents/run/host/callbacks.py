"""The callbacks of RUN-55, for programs that want functions instead of a stream of facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from attrs import frozen

from otpy_agents.run.host.facts import (
    AgentSwitched,
    Fact,
    LogLine,
    OutputLine,
    PhaseChanged,
    RunEnded,
    WaitBegan,
)

__all__ = ["RunCallbacks"]


@final
@frozen(kw_only=True)
class RunCallbacks:
    """A listener that calls a function for each kind of news; None is not called.

    Attributes:
        on_state: Called with `{"run", "phase", "status"}` at each change of phase.
        on_log: Called with each line that an attempt writes, and with those of the supervisor.
        on_retry: Called with number of the retry, agent and delay in seconds, when it is waited
            for.
        on_agent_switch: Called with the ids of both agents.
        on_done: Called with exit code, error (None for success), names of artifacts and metadata
            (RUN-22).
    """

    on_state: Callable[[dict[str, Any]], object] | None = None
    on_log: Callable[[str], object] | None = None
    on_retry: Callable[[int, str, float], object] | None = None
    on_agent_switch: Callable[[str, str], object] | None = None
    on_done: Callable[[int, str | None, list[str], dict[str, str | int]], object] | None = None

    def __call__(self, fact: Fact) -> None:
        """Tell a fact to the listeners that it concerns."""
        match fact:
            case PhaseChanged() if self.on_state is not None:
                self.on_state({"run": fact.run, "phase": str(fact.phase), "status": fact.status})
            case LogLine() | OutputLine() if self.on_log is not None:
                self.on_log(fact.text)
            case WaitBegan() if fact.retry and self.on_retry is not None:
                self.on_retry(fact.retry, fact.agent_id, fact.delay)
            case AgentSwitched() if self.on_agent_switch is not None:
                self.on_agent_switch(fact.source, fact.target)
            case RunEnded(result=result) if self.on_done is not None:
                artifacts = list(result.artifacts)
                self.on_done(result.exit_code, result.error, artifacts, result.metadata)
            case _:
                pass
