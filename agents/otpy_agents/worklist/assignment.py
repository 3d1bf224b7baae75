"""The values a work list is turned into: frozen, complete, with every default filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from otpy_agents.adapters.adapter import Access
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.store.sessions.recovery import RestartContext
from otpy_agents.worklist.gang import Gang
from otpy_agents.worklist.start_rate import StartRate
from otpy_monitors import OnExceed
from otpy_monitors.activity import ANY_TOOL

__all__ = [
    "LONG_TOOLS",
    "NAME",
    "AgentWork",
    "Assignment",
    "RestartContext",
    "Expectation",
    "Role",
    "WorkList",
    "is_name",
]

NAME: Final = "letters, digits, '.', '_' or '-', and not dots alone"
"""What `is_name` wants, for messages."""

_SHAPE: Final = re.compile(r"(?!\.+\Z)[A-Za-z0-9._-]+")

LONG_TOOLS: Final = MappingProxyType({ANY_TOOL: 600.0})
"""Seconds that a call of a tool may take before the silence of its agent counts.

Builds and tests take minutes, and no CLI says anything meanwhile. Ten are as many as the most
patient of them gives a command unless it is configured otherwise; beyond that the call hangs.
"""


def is_name(text: str) -> bool:
    """Whether a text may name an assignment, and so a folder and a child of a supervisor."""
    return _SHAPE.fullmatch(text) is not None


class Role(StrEnum):
    """Which kind of agent takes an assignment, and with it the default policy."""

    MORTAL = "mortal"
    """Retried patiently: 3 restarts in 300 s, with a growing delay (TREE-17)."""
    DRONE = "drone"
    """For a single simple task: 1 restart in 60 s, without delay (TREE-18)."""


class Expectation(StrEnum):
    """How an assignment is expected to end; anything else makes the run fail."""

    DONE = "done"
    """Its worker exits with code 0, after any number of restarts within its limit."""
    REAPED = "reaped"
    """It is given up, with a reason, because its limit is used up or a monitor reported it."""


def _sealed(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(mapping))


def _limits(mapping: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(mapping))


@frozen(kw_only=True)
class AgentWork:
    """What an agent, as opposed to a plain program, is asked to do.

    Attributes:
        cli: Name of its adapter, such as `claude`.
        prompt: Its task.
        fallback: CLIs that take over, one after the other, where it fails (C-02).
        model: Model by the CLI's own name; not handed on to those that take over. None leaves it to
            the CLI's configuration.
        access: What it may do without being asked.
        context: What a restarted one knows of its life before.
        changeset: Git repository of which it gets a worktree of its own; None for none.
        tokens: Budget of tokens over all its lives; None for no limit of its own.
        cost_usd: Budget of US dollars over all its lives; None for no limit of its own.
        stall_warn: Seconds without progress after which that is warned of; None for no warning.
        long_tools: Seconds that a call of a tool may take, by the tool's name, `"*"` for those that
            are not named; meanwhile silence is not a stall.
        on_exceed: What follows when its budget is spent (C-12).
        argv: The command, for the CLI `command` only.
        verify: Program and arguments that say, when it says that it is done, whether it is; empty
            to believe it.
        verify_deadline: Longest time that may take, in seconds.
        sandbox: Where its attempts are made, see `otpy_agents.run.host.walls`; empty for where
            those of its workplace are.
        network: Whether they reach the network there, or which hosts of it alone, see
            `otpy_agents.run.host.walls`; None if nothing is said.
        secrets: Variables of the host whose values are never shown nor stored.
        artifacts: Folder for what it leaves; None for none.
    """

    cli: str
    prompt: str
    fallback: tuple[str, ...] = ()
    model: str | None = None
    access: Access = Access.EDIT
    context: RestartContext = RestartContext.RESUME_WITH_NOTE
    changeset: Path | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    stall_warn: float | None = None
    long_tools: Mapping[str, float] = field(default=LONG_TOOLS, converter=_limits)
    on_exceed: OnExceed = field(factory=OnExceed)
    argv: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    verify_deadline: float = 300.0
    sandbox: str = ""
    network: bool | tuple[str, ...] | None = None
    secrets: tuple[str, ...] = ()
    artifacts: Path | None = None

    @property
    def clis(self) -> tuple[str, ...]:
        """Those that may work on it, the first one first, each once (C-02)."""
        return tuple(dict.fromkeys((self.cli, *self.fallback)))


@frozen(kw_only=True)
class Assignment:
    """One piece of work: what to run, and how far to go for it. All durations are seconds.

    Attributes:
        id: Unique in the list; letters, digits, `.`, `_` and `-`.
        digest: Fingerprint of the definition as written; when it changes, the work is done again.
        argv: Program and arguments, placeholders replaced; empty if an agent takes it.
        role: Mortal or drone.
        cwd: Working directory; None for a fresh private one.
        env: Variables added to the environment.
        needs_env: Names that must be in the environment of its worker, and not be empty.
        deadline: Longest time one attempt may take; None for no limit.
        stall: Longest time without progress, of a program a line of output; None for no limit.
        grace: Between SIGTERM and SIGKILL.
        expect: How it should end.
        wall_seconds: Budget of time over all attempts; None for no limit.
        output_bytes: Budget of output over all attempts; None for no limit.
        restarts: Most restarts within `within`.
        within: Length of the window in which restarts are counted; whole seconds.
        backoff: Delays before the first, second, … restart, the last one repeated; empty for none;
            None for the exponential delay of its role.
        agent: What an agent is asked to do; None if a plain program takes the assignment.
        gang: Name of the group it belongs to; empty for none.

    Raises:
        InvalidTreeSetting: Its id is none.
    """

    id: str
    digest: str
    argv: tuple[str, ...]
    role: Role
    cwd: Path | None
    env: Mapping[str, str] = field(converter=_sealed)
    deadline: float | None
    stall: float | None
    grace: float
    expect: Expectation
    wall_seconds: float | None
    output_bytes: int | None
    restarts: int
    within: float
    backoff: tuple[float, ...] | None
    agent: AgentWork | None = None
    gang: str = ""
    needs_env: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse an id that would be another folder, or no child of the pool."""
        if not is_name(self.id):
            raise InvalidTreeSetting("assignment.id", repr(self.id), NAME)


@frozen(kw_only=True)
class WorkList:
    """A whole work list.

    Attributes:
        file: Where it was read from, as named by the caller.
        here: The folder of the file, absolute.
        name: What it is called in views.
        parallel: How many assignments are worked on at once.
        start_rate: How fast mortals of one vendor may be restarted.
        wall_seconds: Budget of working time of all assignments together, in seconds; None for none.
        output_bytes: Budget of output of all assignments together; None for none.
        state: The SQLite file that remembers what is done, absolute.
        assignments: In the order of the file; at least one.
        gangs: Groups whose members are judged together, in the order of the file.
        tokens: Budget of tokens of all agents together; None for none.
        cost_usd: Budget of US dollars of all agents together; None for none.
        rule_file: Rules on what is done, absolute; None for none.
        jake_restarts: How often its Jake is restarted within an hour; None without a limit (C-13).
        logs: Folder in which a log is kept, and all logs are kept small, absolute; None for none.
    """

    file: Path
    here: Path
    name: str
    parallel: int
    start_rate: StartRate
    wall_seconds: float | None
    output_bytes: int | None
    state: Path
    assignments: tuple[Assignment, ...]
    gangs: tuple[Gang, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    rule_file: Path | None = None
    jake_restarts: int | None = 10
    logs: Path | None = None
