"""Tells the event log what happens to runs."""

from __future__ import annotations

from otpy_agents.log import Teller, run_stream
from otpy_agents.run.host.facts import AgentEvent, Fact, Listener, OutputLine, as_json

__all__ = ["told_to"]


def told_to(teller: Teller) -> Listener:
    """Return a listener that tells facts to the event log, each in the stream of its run.

    What an agent writes and says is not among them: there is much of it, the log is for ever, and
    the answer stands in the store of runs.
    """

    def hear(fact: Fact) -> None:
        if isinstance(fact, OutputLine | AgentEvent):
            return
        plain = as_json(fact)
        name, run = plain.pop("event"), plain.pop("run")
        plain.pop("answer", None)
        teller.tell(run_stream(run), name, {**plain, "workflow_id": run})

    return hear
