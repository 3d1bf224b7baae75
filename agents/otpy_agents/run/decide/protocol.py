"""The events that go into the machine of a run, and the effects that come out."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

from otpy_agents.attempt.failures import Classification
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentInstance
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.result import Cause, RunResult
from otpy_agents.run.decide.state import RunPhase, WaitReason

__all__ = [
    "TellSwitch",
    "AnswerControl",
    "AttemptGone",
    "AttemptStarted",
    "BeginRun",
    "Charged",
    "ClockMoved",
    "TellClock",
    "Completed",
    "RunControl",
    "ControlAsked",
    "CooldownsSeen",
    "Effect",
    "EndCooldown",
    "Event",
    "LaunchAttempt",
    "WriteLog",
    "MoveCooldown",
    "OutputHeard",
    "TellPhase",
    "ProgressHeard",
    "TellQuiet",
    "Resumed",
    "SessionKnown",
    "SetCooldown",
    "StopAttempt",
    "RunDue",
    "Unheard",
    "TellWait",
]

# --- events ---------------------------------------------------------------------------------------


@frozen
class BeginRun:
    """Begin a new run.

    Attributes:
        cooldowns: The shared table as it is now.
    """

    cooldowns: CooldownTable = field(factory=CooldownTable)


@frozen
class Resumed:
    """Go on with a run that was stored by a host that is dead now.

    The first event of a machine made from a stored state, also if no attempt was going on. What is
    left of an attempt that is not `adopted` has to be ended before.

    Attributes:
        cooldowns: The shared table as it is now.
        adopted: Whether the attempt of the state is watched again: because it still runs, or
            because it ended meanwhile and its `AttemptGone` follows. Otherwise it is given up and
            made again, at no cost to what the run may still try.
        lost: What was found out about an attempt that is given up, such as its usage; None if that
            is nothing.
    """

    cooldowns: CooldownTable = field(factory=CooldownTable)
    adopted: bool = False
    lost: AttemptGone | None = None


@frozen
class AttemptStarted:
    """The attempt of the last `LaunchAttempt` runs."""

    number: int


@frozen
class SessionKnown:
    """The attempt told the session by which a later one can go on."""

    number: int
    session: str


@frozen
class ProgressHeard:
    """The attempt said something: an event of its adapter, not just bytes (G-05)."""

    number: int


@frozen
class OutputHeard:
    """The attempt wrote something, whatever it was."""

    number: int


@frozen(kw_only=True)
class Charged:
    """The usage of the attempt so far, told while it works.

    Attributes:
        number: Which.
        usage: Its last usage reading.
        session: Session it told of; None so far.
        cumulative: Whether that reading counts the whole session.
    """

    number: int
    usage: Usage
    session: str | None = None
    cumulative: bool = False


@frozen(kw_only=True)
class AttemptGone:
    """The attempt is over and nothing of it is left, or it could not be started.

    Attributes:
        number: Which.
        classification: The verdict; of no weight if the attempt was asked to end and had not
            `answered`. An attempt that could not be started has one too: `usage` for a CLI that is
            not installed.
        exit_code: Of its process or container; None if there is none or it is unknown.
        signal: Signal that ended it; None if none did.
        session: Session it told of; None if it told of none.
        usage: Its last usage reading; None if there was none.
        cumulative: Whether that reading counts the whole session.
        late: Whether it was found in what the CLI of a lost attempt had written down.
        artifacts: Names of what it left.
        answered: Whether it had told its final answer, or had ended, before it was asked to end.
    """

    number: int
    classification: Classification
    exit_code: int | None = None
    signal: int | None = None
    session: str | None = None
    usage: Usage | None = None
    cumulative: bool = False
    late: bool = False
    artifacts: tuple[str, ...] = ()
    answered: bool = False


@frozen
class ClockMoved:
    """The wall clock, which dates all moments of a run, was moved; this event comes first then.

    Attributes:
        by: Seconds by which it was set, forward or back.
        slept: Seconds for which the machine slept; the agent did nothing then, a delay went on.
    """

    by: float
    slept: float = 0.0


@frozen
class Unheard:
    """The attempt could not be heard for a while: the host was stopped, or its loop was blocked.

    Attributes:
        since: When it was last listened to, in Unix seconds.
        seconds: How late the host was; 0 if that is not worth a word.
    """

    since: float
    seconds: float = 0.0


@frozen
class RunDue:
    """The time of `RunMachine.due` has come; too early or too late does no harm."""


@frozen
class CooldownsSeen:
    """The shared table was read: other runs and people may have set and ended cooldowns.

    Attributes:
        cooldowns: As it is now; what is not in it is over.
    """

    cooldowns: CooldownTable


class RunControl(StrEnum):
    """The commands that a person, or the program that runs it, may give a run (C-11)."""

    CANCEL = "cancel"
    """Give it up in good order (RUN-60)."""
    KILL = "kill"
    """Give it up and do not wait (RUN-61)."""
    STOP = "stop"
    """As `CANCEL`, asked by a program (RUN-63)."""
    RETRY_NOW = "retry_now"
    """Do not wait any longer (RUN-52)."""
    CANCEL_RETRY = "cancel_retry"
    """Cancel the pending retry: end with the last result (RUN-66)."""
    FORCE_FALLBACK = "force_fallback"
    """Go on with the next agent now (RUN-66)."""


@frozen
class ControlAsked:
    """Somebody asked something of the run; it is answered by exactly one `AnswerControl`."""

    control: RunControl


Event: TypeAlias = (
    BeginRun
    | Resumed
    | AttemptStarted
    | SessionKnown
    | ProgressHeard
    | OutputHeard
    | Charged
    | AttemptGone
    | RunDue
    | CooldownsSeen
    | ControlAsked
    | ClockMoved
    | Unheard
)
"""What may happen to a run. Events of an attempt that is over are ignored."""

# --- effects --------------------------------------------------------------------------------------


@frozen(kw_only=True)
class LaunchAttempt:
    """Start an attempt; answer with `AttemptStarted` and `AttemptGone`, or the latter alone.

    Attributes:
        number: From 1, over all agents.
        agent: Who makes it.
        cause: Why.
        session: Session to go on with; None begins a new one.
        budget_usd: US dollars that are left for it; None for no limit.
    """

    number: int
    agent: AgentInstance
    cause: Cause
    session: str | None
    budget_usd: float | None


@frozen
class StopAttempt:
    """End the attempt, also while it is being started; `AttemptGone` follows in any case.

    Attributes:
        number: Which.
        kill: Whether to end it at once instead of asking it first.
    """

    number: int
    kill: bool


@frozen
class SetCooldown:
    """Enter a cooldown into the shared table, for all runs to see (C-15)."""

    cooldown: Cooldown


@frozen
class EndCooldown:
    """End the cooldown of an account for all runs, if it was told by then (C-15).

    Attributes:
        account: Which.
        told_by: When the attempt began that proves it over, in Unix seconds.
    """

    account: VendorAccount
    told_by: float


@frozen(kw_only=True)
class TellWait:
    """The run waits from now on; shown to people, with a countdown (RUN-55, RUN-66).

    Attributes:
        until: When it is over, in Unix seconds.
        delay: Seconds until then.
        reason: The reason for the wait.
        agent_id: The agent that the run waits for.
        retry: Number of the retry that follows; 0 if what follows is none.
    """

    until: float
    delay: float
    reason: WaitReason
    agent_id: str
    retry: int


@frozen(kw_only=True)
class TellSwitch:
    """Another agent takes over (RUN-28, RUN-55, C-02)."""

    source: str
    target: str


@frozen
class TellPhase:
    """The run has entered another phase (RUN-55)."""

    phase: RunPhase


@frozen
class TellQuiet:
    """The attempt has shown no progress for a while; told once for each silence (C-01).

    Attributes:
        number: Which attempt.
        seconds: Length of the silence so far.
    """

    number: int
    seconds: float


@frozen
class TellClock:
    """Moments that were told before are now told by another clock.

    Attributes:
        by: Seconds that have to be added to them.
        until: When the wait is over that goes on, in Unix seconds; None if none does.
    """

    by: float
    until: float | None = None


@frozen
class MoveCooldown:
    """Tell a cooldown of the shared table by the clock as it goes now, if it still stands there."""

    before: Cooldown
    after: Cooldown


@frozen
class WriteLog:
    """A line for the log of the run (RUN-57, RUN-60 to RUN-62)."""

    text: str


@frozen
class AnswerControl:
    """The answer to a `ControlAsked`.

    Attributes:
        accepted: Whether it is being done.
        text: The effect of the command, or why it has none; a sentence for a person.
    """

    accepted: bool
    text: str


@frozen
class Completed:
    """The run is over. Told once; again only after `Resumed`, if the host died meanwhile."""

    result: RunResult


Effect: TypeAlias = (
    LaunchAttempt
    | StopAttempt
    | SetCooldown
    | EndCooldown
    | TellWait
    | TellSwitch
    | TellPhase
    | TellQuiet
    | TellClock
    | MoveCooldown
    | WriteLog
    | AnswerControl
    | Completed
)
"""The effects that the driver of a run has to perform or to tell, in order."""
