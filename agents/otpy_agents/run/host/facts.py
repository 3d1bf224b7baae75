"""Facts about runs: frozen values, each told once, in the order in which they happened.

A fact about a decision is told after the decision has been stored. A listener is any callable that
takes one fact. It is called from the event loop, must not block, and can do no harm: what it raises
goes to the loop's exception handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, final

import attrs
from attrs import field, frozen

from otpy_agents.attempt import events
from otpy_agents.attempt.usage import Usage
from otpy_agents.attrs_json import to_plain
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.run.decide.result import AttemptRecord, Cause, RunResult
from otpy_agents.run.decide.state import RunPhase, WaitReason
from otpy_agents.run.host.order import RunOrder

__all__ = [
    "AgentEvent",
    "AgentSwitched",
    "AttemptBegan",
    "AttemptOver",
    "Fact",
    "Listener",
    "LogLine",
    "OutputLine",
    "PhaseChanged",
    "ClockSet",
    "Quiet",
    "RunBegan",
    "RunEnded",
    "RunFact",
    "RunLeft",
    "SpentFound",
    "WaitBegan",
    "WaitOver",
    "as_json",
]


@frozen(kw_only=True)
class RunFact:
    """What every fact has.

    Attributes:
        run: Id of the run.
        at: When it was told, in Unix seconds.
    """

    event: ClassVar[str] = "run"

    run: str
    at: float


@final
@frozen(kw_only=True)
class RunBegan(RunFact):
    """This host works on the run.

    Attributes:
        order: Its order, shown without secrets.
        agents: Ids of its chain, in order.
        resumed: Whether another host, or an earlier time of this one, had begun it.
        waiting: Whether it waits for its turn, because the host has as many runs as it may.
    """

    event: ClassVar[str] = "run.began"

    order: RunOrder
    agents: tuple[str, ...]
    resumed: bool
    waiting: bool


@final
@frozen(kw_only=True)
class PhaseChanged(RunFact):
    """The run has entered another phase (RUN-55).

    Attributes:
        phase: Which.
        status: The status for a person (RUN-58).
    """

    event: ClassVar[str] = "run.phase"

    phase: RunPhase
    status: str


@final
@frozen(kw_only=True)
class AttemptBegan(RunFact):
    """An attempt is written down and is being started.

    Attributes:
        number: From 1, over all agents.
        agent_id: Who makes it.
        agent_cli: The agent's CLI.
        cause: Why.
        session: Session it goes on with; None for a new one.
        adopted: Whether it ran already, and is heard again from its first line.
    """

    event: ClassVar[str] = "attempt.began"

    number: int
    agent_id: str
    agent_cli: str
    cause: Cause
    session: str | None
    adopted: bool = False


@final
@frozen(kw_only=True)
class OutputLine(RunFact):
    """The attempt wrote a line (RUN-07), shown without secrets.

    Attributes:
        number: Which attempt.
        text: The line, without its line feed.
        stderr: Whether it stands on the error stream.
    """

    event: ClassVar[str] = "attempt.output"

    number: int
    text: str
    stderr: bool


@final
@frozen(kw_only=True)
class AgentEvent(RunFact):
    """The agent said something in its CLI's own terms.

    Attributes:
        number: Which attempt.
        said: What.
    """

    event: ClassVar[str] = "attempt.event"

    number: int
    said: events.Event


@final
@frozen(kw_only=True)
class SpentFound(RunFact):
    """What an attempt spent that a host finds on going on with its run, when it is over.

    Of one whose end nobody heard it stands in the files of its session; of earlier ones it was
    stored, and may have been told before.

    Attributes:
        number: Which attempt.
        agent_cli: Its CLI.
        session: The session; None if none is known.
        usage: A reading in the sense of `events.Spent`.
        model: The model; empty if unknown.
    """

    event: ClassVar[str] = "attempt.spent_found"

    number: int
    agent_cli: str
    session: str | None
    usage: Usage
    model: str


@final
@frozen(kw_only=True)
class AttemptOver(RunFact):
    """An attempt is over, nothing of it is left, and that is stored.

    Attributes:
        record: How it ended.
        cut: Bytes of output that were not kept.
        left_over: Processes that it had started and left running; ended since.
        survivors: What could not be ended in time; normally empty.
    """

    event: ClassVar[str] = "attempt.over"

    record: AttemptRecord
    cut: int = 0
    left_over: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class WaitBegan(RunFact):
    """The run waits from now on (RUN-55, RUN-66).

    Attributes:
        until: When it is over, in Unix seconds.
        delay: Seconds until then.
        reason: The reason for the wait.
        agent_id: The agent that the run waits for.
        retry: Number of the retry that follows; 0 if what follows is none.
        cut_by: The commands that end the wait.
    """

    event: ClassVar[str] = "wait.began"

    until: float
    delay: float
    reason: WaitReason
    agent_id: str
    retry: int
    cut_by: tuple[RunControl, ...] = (
        RunControl.RETRY_NOW,
        RunControl.CANCEL_RETRY,
        RunControl.FORCE_FALLBACK,
        RunControl.CANCEL,
    )


@final
@frozen(kw_only=True)
class WaitOver(RunFact):
    """The wait of the run is over, because it goes on or because it has ended."""

    event: ClassVar[str] = "wait.over"


@final
@frozen(kw_only=True)
class AgentSwitched(RunFact):
    """Another agent takes over (RUN-28, RUN-55).

    Attributes:
        source: Id of the agent so far.
        target: Id of the agent from now on.
    """

    event: ClassVar[str] = "agent.switched"

    source: str
    target: str


@final
@frozen(kw_only=True)
class Quiet(RunFact):
    """The attempt has shown no progress for a while; told once for each silence (C-01).

    Attributes:
        number: Which attempt.
        seconds: Length of the silence so far.
    """

    event: ClassVar[str] = "child.quiet"

    number: int
    seconds: float


@final
@frozen(kw_only=True)
class ClockSet(RunFact):
    """The wall clock was set; `at` of facts that were told before is by the clock before.

    Attributes:
        by: Seconds by which it was set, forward or back.
        until: When the wait is over that goes on, in Unix seconds; None if none does.
    """

    event: ClassVar[str] = "run.clock"

    by: float
    until: float | None


@final
@frozen(kw_only=True)
class LogLine(RunFact):
    """A line for the log of the run (RUN-57, RUN-60 to RUN-62)."""

    event: ClassVar[str] = "run.log"

    text: str


@final
@frozen(kw_only=True)
class RunEnded(RunFact):
    """The run is over, and that is stored.

    Attributes:
        result: How it ended.
        answer: The answer of its last attempt, as far as it came.
    """

    event: ClassVar[str] = "run.ended"

    result: RunResult
    answer: str


@final
@frozen(kw_only=True)
class RunLeft(RunFact):
    """This host has stopped work on the run, although it is not over; nothing of it runs here.

    Attributes:
        error: Why: another host has it, or it could not be gone on with.
    """

    event: ClassVar[str] = "run.left"

    error: Exception = field(eq=False)


Fact: TypeAlias = (
    RunBegan
    | PhaseChanged
    | AttemptBegan
    | OutputLine
    | AgentEvent
    | SpentFound
    | AttemptOver
    | WaitBegan
    | WaitOver
    | AgentSwitched
    | Quiet
    | ClockSet
    | LogLine
    | RunEnded
    | RunLeft
)
"""Something that happened to a run."""

Listener: TypeAlias = Callable[[Fact], object]
"""Is told every fact."""


def as_json(fact: Fact) -> dict[str, Any]:
    """Return a fact as `json.dumps` takes it: `event`, then its attributes.

    What an agent said has its kind as `type` beside its own attributes; an error is its message.
    """
    plain: dict[str, Any] = {"event": fact.event}
    for attribute in attrs.fields(type(fact)):
        value: object = getattr(fact, attribute.name)
        if isinstance(value, Exception):
            plain[attribute.name] = str(value)
        elif attribute.name == "said":
            plain["said"] = {"type": type(value).__name__, **to_plain(value)}
        else:
            plain[attribute.name] = to_plain(value)
    return plain
