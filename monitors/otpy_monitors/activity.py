"""The activities of agents, as frozen facts. An agent's runner tells them; monitors only listen.

Each fact has the key of its `agent` and the time `at` which it happened, in seconds of the event
loop's clock. Facts of one agent are told in the order in which they happened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, final

from attrs import field, frozen

from otpy import InvalidSpec


def _fixed(values: Mapping[str, object]) -> Mapping[str, object]:
    return MappingProxyType(dict(values))


def _fixed_limits(values: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(values))


ANY_TOOL: Final = "*"
"""In `AgentCard.long_tools`, the name of every tool that is not named there."""


@final
@frozen(kw_only=True)
class AgentCard:
    """The declaration of one life of an agent.

    Attributes:
        agent: Its key, unique among all agents, such as `"site/fix-login"`.
        path: Path of its process in the tree.
        incarnation: Which of that process's lives it is, from 1.
        parent: Key of the subtree it belongs to: a project, or the agent that asked for it; empty
            for none.
        stall: Seconds without progress after which it counts as stalled; None for never (C-01).
        warn_stall_at: Seconds without progress after which that is warned of; None for no warning.
        long_tools: Seconds that a call of a tool may take, by the tool's name; `"*"` stands for
            every tool that is not named. While such a call is open, and within its limit, silence
            is not a stall.
        directories: Where it may write, itself and below; absolute.
        cwd: What relative paths of it start from; None if it has no folder of its own.
        pid: Its operating system process; None if it has none.

    Raises:
        InvalidSpec: If a limit is not a number above 0, a warning would come no earlier than the
            stall itself, or a path is not absolute.
    """

    agent: str
    path: str
    incarnation: int = 1
    parent: str = ""
    stall: float | None = None
    warn_stall_at: float | None = None
    long_tools: Mapping[str, float] = field(factory=dict[str, float], converter=_fixed_limits)
    directories: tuple[Path, ...] = ()
    cwd: Path | None = None
    pid: int | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        limits = {"stall": self.stall, "warn_stall_at": self.warn_stall_at}
        limits |= {f"long_tools[{tool!r}]": limit for tool, limit in self.long_tools.items()}
        for name, limit in limits.items():
            if limit is not None and not (0 < limit < math.inf):
                self._refuse(name, limit, "seconds above 0")
        if self.warn_stall_at is not None:
            if self.stall is None:
                self._refuse("stall", None, "seconds, because warn_stall_at is given")
            elif self.warn_stall_at >= self.stall:
                self._refuse(
                    "warn_stall_at", self.warn_stall_at, f"less than stall, {self.stall:g}"
                )
        for folder in (*self.directories, *([] if self.cwd is None else [self.cwd])):
            if not folder.is_absolute():
                self._refuse("a folder", str(folder), "an absolute path")

    def _refuse(self, what: str, got: object, wanted: str) -> None:
        msg = f"card of {self.agent!r}: {what} is {got!r}, wanted {wanted}"
        raise InvalidSpec(msg)


@final
@frozen
class AgentAppeared:
    """A life of an agent began. An earlier life under the same key is over, if it was not yet.

    Attributes:
        at: When.
        card: Its card.
    """

    at: float
    card: AgentCard

    @property
    def agent(self) -> str:
        """Its key."""
        return self.card.agent


@final
@frozen
class AgentGone:
    """A life of an agent is over.

    Attributes:
        agent: Its key.
        at: When.
        reason: Why, in one line.
    """

    agent: str
    at: float
    reason: str


@final
@frozen
class Progressed:
    """The agent said or did something that its adapter calls progress; never mere bytes (G-05).

    Attributes:
        agent: Its key.
        at: When.
        what: In a word or two, such as `"message"`.
    """

    agent: str
    at: float
    what: str


@final
@frozen
class ToolCallBegan:
    """The agent called a tool; also progress.

    Attributes:
        agent: Its key.
        at: When.
        call: Which call it is; unique among the open calls of the agent.
        tool: Name of the tool.
        input: Its input, as the CLI tells it.
    """

    agent: str
    at: float
    call: str
    tool: str
    input: Mapping[str, object] = field(factory=dict[str, object], converter=_fixed)


@final
@frozen
class ToolCallEnded:
    """A call of a tool is over; also progress. The end of an unknown call changes nothing.

    Attributes:
        agent: Its key.
        at: When.
        call: Which call it was.
        failed: Whether the tool reported an error.
    """

    agent: str
    at: float
    call: str
    failed: bool = False


@final
@frozen
class RestBegan:
    """The agent waits for something outside itself, so its silence is not a stall.

    For example for input, for a wake-up, for a rate limit to pass, or because it is paused. Ends
    with `RestEnded`, and with its next progress.

    Attributes:
        agent: Its key.
        at: When.
        why: For what, in one line.
    """

    agent: str
    at: float
    why: str


@final
@frozen
class RestEnded:
    """The agent waits no longer; its silence counts from here.

    Attributes:
        agent: Its key.
        at: When.
    """

    agent: str
    at: float


@final
@frozen
class UsageSeen:
    """A counter of tokens was read; also progress.

    A reading says how much was used since its counter began, so that the same one told twice says
    nothing new.

    Attributes:
        agent: Its key.
        at: When.
        run: Which counter it is: the id of the run of its CLI, or, if it is cumulative, that of
            the session. No other counter has that id. Empty for a step that no counter counts;
            told twice, it counts twice.
        model: Name of the model.
        input_tokens: Tokens read, without those in `cached_tokens`.
        output_tokens: Tokens written.
        cached_tokens: Tokens read from a cache.
        cumulative: Whether it counts the session, over all runs that resumed it, and not one run
            (G-07). Such a counter may fall: then it was reset.
        cost_usd: Cost as the CLI reports it, in US dollars; None if it does not.
        late: Whether it was found only after the run had ended, as that of a host that was killed:
            it counts as spent, but not for the agent's speed.
    """

    agent: str
    at: float
    run: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cumulative: bool = False
    cost_usd: float | None = None
    late: bool = False


@final
@frozen
class FilesTouched:
    """Files were written, moved or deleted. Files that are only read are not told.

    Attributes:
        agent: Its key.
        at: When.
        paths: Which; relative ones start from `cwd` of the agent's card.
    """

    agent: str
    at: float
    paths: tuple[str, ...]


@final
@frozen
class CommandRun:
    """The agent ran a command.

    Attributes:
        agent: Its key.
        at: When.
        line: As one would type it.
    """

    agent: str
    at: float
    line: str


@final
@frozen
class NetworkUsed:
    """The agent reached for another machine.

    Attributes:
        agent: Its key.
        at: When.
        host: Name or address, without a port.
    """

    agent: str
    at: float
    host: str


@final
@frozen
class ChildSpawned:
    """The agent asked for another agent, and got it.

    Attributes:
        agent: Key of the one that asked.
        at: When.
        child: Key of the new one.
    """

    agent: str
    at: float
    child: str


@final
@frozen
class TurnEnded:
    """The agent ended its turn; also progress. Whether it now waits is told by `RestBegan`.

    Attributes:
        agent: Its key.
        at: When.
    """

    agent: str
    at: float


@final
@frozen
class OutputSeen:
    """Bytes came out of the agent. They are counted, and are never progress.

    Attributes:
        agent: Its key.
        at: When.
        size: How many.
    """

    agent: str
    at: float
    size: int


Activity: TypeAlias = (
    AgentAppeared
    | AgentGone
    | Progressed
    | ToolCallBegan
    | ToolCallEnded
    | RestBegan
    | RestEnded
    | UsageSeen
    | FilesTouched
    | CommandRun
    | NetworkUsed
    | ChildSpawned
    | TurnEnded
    | OutputSeen
)

PROGRESS: Final = (Progressed, ToolCallBegan, ToolCallEnded, UsageSeen, TurnEnded)
"""The facts that show that an agent gets on: what its adapter reads in its events (G-05)."""
