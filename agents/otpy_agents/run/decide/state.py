"""The state of a run: one frozen value, which is all that has to survive its host.

The driver of a run stores its state before it performs the machine's effects. A host that dies in
between has then either not begun an attempt, or finds it in the state. Times are Unix seconds, so a
delay continues where a dead host left it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, cast

from attrs import evolve, field, frozen

from otpy_agents.attempt.usage import Usage
from otpy_agents.attrs_json import from_plain, to_plain
from otpy_agents.errors import RunStateCorrupt, RunStateTooNew
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.cooldown import CooldownTable
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.result import (
    AttemptRecord,
    Cause,
    Ending,
    RunResult,
    StopCause,
    VendorSession,
    retries_in,
)
from otpy_agents.run.decide.time_text import moment

__all__ = ["VERSION", "Attempt", "RunPhase", "RunState", "Wait", "WaitReason", "with_all"]

VERSION: Final = 3
"""Version of the stored form, raised with every change of it, however small."""


class RunPhase(StrEnum):
    """The states of RUN-25. In `CLASSIFY_ERROR` and `SWITCH_AGENT` a run never rests."""

    INITIALIZE = "initialize"
    """Made and not begun."""
    LAUNCH = "launch"
    """An attempt is being started, or waits to be."""
    RUN = "run"
    """An attempt runs."""
    DETECT_EXIT = "detect_exit"
    """An attempt has been asked to end, or just has."""
    CLASSIFY_ERROR = "classify_error"
    """It failed, and what follows is being decided."""
    SWITCH_AGENT = "switch_agent"
    """Another agent of the chain takes over."""
    COMPLETE = "complete"
    """The run is over."""


class WaitReason(StrEnum):
    """The reasons for a run's wait."""

    BACKOFF = "backoff"
    """The delay before a retry."""
    COOLDOWN = "cooldown"
    """An account that was asked too often."""


@frozen(kw_only=True)
class Wait:
    """A run between two attempts.

    Attributes:
        since: When it began, in Unix seconds.
        until: When it is over, in Unix seconds.
        reason: The reason for the wait.
        position: The agent that the run waits for; the next agent is chosen when the wait is over.
        earliest: First agent of the chain that may go on.
        cause: Why the next attempt is begun, if `earliest` makes it.
    """

    since: float
    until: float
    reason: WaitReason
    position: int
    earliest: int
    cause: Cause


@frozen(kw_only=True)
class Attempt:
    """The attempt that is being started, runs or is being ended.

    Attributes:
        number: From 1, over all agents.
        cause: Why it was begun.
        resumed: Session it goes on with; None for a new one.
        began: When it was begun, in Unix seconds.
        started: When it runs since, in Unix seconds; None while it is being started.
        progress: When the agent last said something, in Unix seconds.
        output: When it last wrote anything, in Unix seconds.
        shown_quiet: Whether the present silence has been shown.
        session: Session it told of; None so far.
        stopped: Why it is being ended; None if it is not.
    """

    number: int
    cause: Cause
    resumed: str | None
    began: float
    started: float | None = None
    progress: float = 0.0
    output: float = 0.0
    shown_quiet: bool = False
    session: str | None = None
    stopped: StopCause | None = None

    def heard(self, now: float) -> Attempt:
        """Return the attempt that showed progress at `now`."""
        return evolve(self, progress=now, output=now, shown_quiet=False)


def _plain(readings: Mapping[str, Usage]) -> Mapping[str, Usage]:
    return dict(readings)


@frozen(kw_only=True)
class RunState:
    """Everything a run has decided and counted.

    Counters are not stored beside the history but read off it, so that they cannot disagree.

    Attributes:
        chain: Its agents.
        policy: Its policy for failures.
        liveness: When it ends an attempt for its silence.
        budget_usd: US dollars for all attempts; None for no limit. Only what CLIs report counts.
        phase: Where it stands.
        position: Place in the chain of the agent it uses, from 0.
        session: Session the next attempt of this agent goes on with; None for a new one.
        attempts: Those that are over, in order.
        attempt: The one that is not; None between two.
        wait: Its wait between two attempts; None if it does not wait.
        cooldowns: Cooldowns of accounts of its chain, as far as it knows.
        readings: Last usage reading of each session whose count is cumulative.
        usage: What all attempts spent.
        artifacts: Names of what the last attempt left.
        ending: Why it is over; None as long as it is not.
    """

    chain: AgentChain
    policy: RetryPolicy = field(factory=RetryPolicy)
    liveness: Liveness = field(factory=Liveness)
    budget_usd: float | None = None
    phase: RunPhase = RunPhase.INITIALIZE
    position: int = 0
    session: str | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    attempt: Attempt | None = None
    wait: Wait | None = None
    cooldowns: CooldownTable = field(factory=CooldownTable)
    readings: Mapping[str, Usage] = field(factory=dict[str, Usage], converter=_plain)
    usage: Usage = field(factory=Usage)
    artifacts: tuple[str, ...] = ()
    ending: Ending | None = None

    @property
    def agent(self) -> AgentInstance:
        """The agent it uses."""
        return self.chain.agents[self.position]

    @property
    def retries(self) -> int:
        """Retries its agent has used, the attempt that runs included; 0 after a switch (RUN-28)."""
        running = self.attempt is not None and self.attempt.cause is Cause.RETRY
        return retries_in(self.own) + running

    @property
    def own(self) -> tuple[AttemptRecord, ...]:
        """Those of `attempts` that its agent made."""
        return tuple(record for record in self.attempts if record.position == self.position)

    @property
    def status(self) -> str:
        """The status for a person, `retrying (N/3)` before a retry (RUN-58, RUN-13)."""
        if self.ending is not None:
            return self.result().status
        if self.wait is not None:
            again = self.wait.position == self.position and self.wait.cause is Cause.RETRY
            retry = f"retrying ({self.retries + 1}/{self.policy.max_retries})"
            return retry if again else "waiting"
        if self.attempt is None:
            return "pending"
        if self.attempt.stopped is not None:
            return "stopping"
        return "starting" if self.attempt.started is None else "running"

    def result(self) -> RunResult:
        """Return the result of a run that is over.

        Raises:
            RuntimeError: It is not over.
        """
        if self.ending is None:
            raise RuntimeError("got a run that is not over, wanted one with a result")
        last = self.attempts[-1] if self.attempts else None
        agent = self.chain.agents[last.position] if last is not None else self.agent
        resumable = self._resumable()
        return RunResult(
            ending=self.ending,
            error=_error(self.ending, last, self._rest()),
            agent_id=agent.agent_id,
            agent_used=agent.agent_cli,
            attempts=self.attempts,
            artifacts=self.artifacts,
            session=None if resumable is None else resumable.id,
            resumable=resumable,
            usage=self.usage,
        )

    def _rest(self) -> str:
        """Return which agent, of those that come next, is free first, and when."""
        resting = [
            (known, agent.agent_id)
            for agent in self.chain.agents[self.position :]
            if (known := self.cooldowns.of(agent.account)) is not None
        ]
        if not resting:
            return ""
        known, name = min(resting, key=lambda one: one[0].until)
        why = f" ({known.reason})" if known.reason else ""
        return f"{name} rests until {moment(known.until, 0.0)}{why}, which is too long to wait"

    def _resumable(self) -> VendorSession | None:
        for record in reversed(self.attempts):
            if record.session is not None:
                return VendorSession(
                    id=record.session,
                    agent_cli=record.agent_cli,
                    config_dir=self.chain.agents[record.position].config_dir,
                    counted=self.readings.get(record.session),
                )
        return None

    def to_json(self) -> str:
        """Return it as one line of JSON with a `version`."""
        return json.dumps({"version": VERSION, **to_plain(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> RunState:
        """Return the state that `to_json` made into `text`.

        What this version does not know is refused, not skipped: the version is raised with every
        change, so that an unknown or a missing field is damage.

        Raises:
            RunStateTooNew: A newer version wrote it.
            RunStateCorrupt: It is not a state.
        """
        try:
            plain: object = json.loads(text)
        except ValueError as error:
            raise RunStateCorrupt("text", f"{error}", "one JSON object") from None
        if not isinstance(plain, dict):
            raise RunStateCorrupt("text", type(plain).__name__, "one JSON object")
        fields = cast("dict[str, object]", plain)
        version = fields.pop("version", None)
        if type(version) is not int or version < 1:
            raise RunStateCorrupt("version", repr(version), "a whole number of at least 1")
        if version > VERSION:
            raise RunStateTooNew(version, VERSION)
        if version == 1:
            _from_first(fields)
        if version < VERSION:
            with_all(fields.get("policy"))
        return from_plain(cls, fields, "state")


def _from_first(fields: dict[str, object]) -> None:
    """Add the fields that a state of version 1 lacks; the reader detects damage."""
    table = fields.get("cooldowns")
    entries = cast("dict[str, object]", table).get("entries") if isinstance(table, dict) else None
    for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            for name, value in (("told", 0.0), ("reason", "")):
                cast("dict[str, object]", entry).setdefault(name, value)


def with_all(policy: object) -> None:
    """Add the fields that a policy stored by an older version lacks."""
    if isinstance(policy, dict):
        fields = cast("dict[str, object]", policy)
        fields.setdefault("max_wait", RetryPolicy().max_wait)
        fields.setdefault("account_rest", 0.0)
        fields.setdefault("jitter", 0.0)


def _error(ending: Ending, last: AttemptRecord | None, rest: str) -> str | None:
    """Return why a run failed, in words (RUN-22); `rest` says which agent rests."""
    if ending is Ending.SUCCEEDED:
        return None
    words = {
        Ending.ATTEMPT_LIMIT: "no attempt is left",
        Ending.BUDGET: "the budget is spent",
        Ending.QUOTA: rest,
        Ending.CANCELLED: "cancelled",
        Ending.KILLED: "killed",
        Ending.STOPPED: "stopped",
        Ending.RETRY_CANCELLED: "the retry was cancelled",
    }.get(ending, "")
    said = "" if last is None else last.message or last.failure
    if last is not None and last.stopped is not None and last.stopped.ends_run:
        said = ""
    return ": ".join(part for part in (words, said) if part)
