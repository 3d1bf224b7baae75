"""Which agents a run may use, and in which order (RUN-18 to RUN-20, RUN-30 to RUN-36, G-09).

A chain is made once, when the run is made, and belongs to it alone: whatever the run does with it,
the selection it came from stays as it was (RUN-35).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from attrs import evolve, field, frozen

from otpy_agents.adapters.adapter import AttemptRequest
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.cooldown import VendorAccount
from otpy_agents.run.decide.result import VendorSession

__all__ = [
    "AgentInstance",
    "AgentSelection",
    "AgentChain",
    "SelectionMode",
    "build_chain",
    "default_agent",
]


@frozen(kw_only=True)
class AgentInstance:
    """One agent CLI as an operator has set it up (RUN-18).

    Attributes:
        agent_id: Unique in its selection; what logs and chains call it.
        agent_cli: Name of the adapter: `codex`, `claude`, `copilot`, `gemini`, or another's.
        config_dir: Folder of the CLI's configuration and login; empty for the CLI's own choice.
        cli_flags: More arguments, written as for a shell.
        model: Model by the CLI's own name; None leaves it to the configuration.
        provider: Who serves the model; only Codex has it. A name that its configuration defines,
            `openai` for the built-in one with an API key, or the address of that.
        credential: Name of the account whose limits it shares with others, never the secret itself;
            empty means that each `config_dir` is an account of its own.

    Raises:
        InvalidRunSetting: `agent_id` or `agent_cli` is empty, or `cli_flags` cannot be split.
    """

    agent_id: str
    agent_cli: str
    config_dir: str = ""
    cli_flags: str = ""
    model: str | None = None
    provider: str | None = None
    credential: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuse what can never be started."""
        for name, text in (("agent_id", self.agent_id), ("agent_cli", self.agent_cli)):
            if not text.strip():
                raise InvalidRunSetting(f"agent.{name}", repr(text), "a name")
        try:
            shlex.split(self.cli_flags)
        except ValueError as error:
            raise InvalidRunSetting(
                f"agent {self.agent_id!r}.cli_flags",
                f"{self.cli_flags!r} ({error})",
                "arguments as a shell would take them",
            ) from None

    @property
    def flags(self) -> tuple[str, ...]:
        """`cli_flags`, split as a shell does (RUN-36)."""
        return tuple(shlex.split(self.cli_flags))

    @property
    def account(self) -> VendorAccount:
        """What its rate limits are counted by (G-06)."""
        return VendorAccount(self.agent_cli, self.credential or self.config_dir)

    def shares_sessions_with(self, other: AgentInstance) -> bool:
        """Whether a session of `other` can be gone on with here."""
        return (self.agent_cli, self.config_dir) == (other.agent_cli, other.config_dir)

    def owns(self, session: VendorSession) -> bool:
        """Whether `session` can be gone on with here."""
        return (self.agent_cli, self.config_dir) == (session.agent_cli, session.config_dir)

    def request(
        self, base: AttemptRequest, *, session: str | None, budget_usd: float | None
    ) -> AttemptRequest:
        """Return `base` as this agent is to be asked (RUN-36).

        Everything else is copied. Flags, model and provider are the agent's own also where it has
        none, because those of `base` may be for another CLI. `config_dir` is not part of a request;
        it goes into the environment of the process.

        Args:
            base: What the run is about.
            session: Session to go on with; None begins a new one.
            budget_usd: US dollars that are left; None for no limit.
        """
        return evolve(
            base,
            session=session,
            model=self.model,
            provider=self.provider,
            flags=self.flags,
            budget_usd=budget_usd,
        )


class SelectionMode(StrEnum):
    """Where a chain begins (RUN-19)."""

    ROUND_ROBIN = "round-robin"
    """Each run begins with the agent after that of the run before it (G-09)."""
    FALLBACK = "fallback"
    """Each run begins with the first agent."""


def _mode(value: str) -> SelectionMode:
    try:
        return SelectionMode(value)
    except ValueError:
        wanted = " or ".join(repr(str(mode)) for mode in SelectionMode)
        raise InvalidRunSetting("selection.selection_mode", repr(value), wanted) from None


def _sealed(fallbacks: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(fallbacks))


@frozen(kw_only=True)
class AgentSelection:
    """The agents of one environment, and the fallback of each (RUN-19).

    Attributes:
        agents: In the operator's order.
        selection_mode: Where a chain begins; the value as text will do.
        agent_fallbacks: Id of an agent to the id of the one that takes over from it.

    Raises:
        InvalidRunSetting: There is no such mode.
    """

    agents: tuple[AgentInstance, ...] = ()
    selection_mode: SelectionMode = field(default=SelectionMode.ROUND_ROBIN, converter=_mode)
    agent_fallbacks: Mapping[str, str] = field(factory=dict[str, str], converter=_sealed)

    def problems(self, adapters: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the problems with it, one sentence each, for the author of the configuration.

        A run never fails for any of it: `build_chain` makes do and warns (RUN-33, C-09).

        Args:
            adapters: Names of the adapters there are; None asks no such question.
        """
        ids = Counter(agent.agent_id for agent in self.agents)
        found = [f"agent id {name!r} is used {n} times" for name, n in ids.items() if n > 1]
        found += [
            f"agent {agent.agent_id!r}: got the CLI {agent.agent_cli!r}, "
            f"wanted one of {', '.join(sorted(adapters))}"
            for agent in self.agents
            if adapters is not None and agent.agent_cli not in adapters
        ]
        for source, target in self.agent_fallbacks.items():
            found += [
                f"fallback {source!r} -> {target!r}: there is no agent {name!r}"
                for name in dict.fromkeys((source, target))
                if name not in ids
            ]
        return tuple(found)


@frozen(kw_only=True)
class AgentChain:
    """The agents of one run, in the order in which it may use them.

    Attributes:
        agents: At least one; no id twice.
        warnings: The problems with the selection, one sentence each.

    Raises:
        InvalidRunSetting: There is no agent, or an id stands twice.
    """

    agents: tuple[AgentInstance, ...]
    warnings: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse a chain that no run can go along."""
        ids = [agent.agent_id for agent in self.agents]
        if not ids or len(set(ids)) < len(ids):
            raise InvalidRunSetting("chain.agents", repr(ids), "at least one agent, no id twice")


def default_agent(use: str = "codex", **settings: Any) -> AgentInstance:
    """Return the agent of a run without a selection (RUN-20).

    Args:
        use: Name of its CLI, in any letter case; also its id. Empty means `codex`.
        settings: The other attributes of `AgentInstance`.
    """
    name = use.strip().lower() or "codex"
    return AgentInstance(agent_id=name, agent_cli=name, **settings)


def build_chain(
    selection: AgentSelection | None, default: AgentInstance, cursor: int = 0
) -> tuple[AgentChain, int]:
    """Return the chain of one run, and the cursor for the next run.

    It begins where `selection_mode` says, and goes from agent to agent along `agent_fallbacks`
    (RUN-31). It ends with the first agent that has no fallback, before an agent it already holds
    (RUN-32) and before an id that no agent has (RUN-33, C-09); the last two leave a warning. If an
    id stands for several agents, the meaning of a fallback is unknown, and the first agent is the
    whole chain (RUN-34). Without any agent it is `default` alone (RUN-30).

    Args:
        selection: The operator's; None if there is none.
        default: The agent if none is selected.
        cursor: The cursor from the previous run; 0 for the first. Any number is good.

    Returns:
        The chain, and the cursor to store. Only `round-robin` moves it.
    """
    if selection is None or not selection.agents:
        return AgentChain(agents=(default,)), cursor
    agents = {agent.agent_id: agent for agent in selection.agents}
    start, following = 0, cursor
    if selection.selection_mode is SelectionMode.ROUND_ROBIN:
        start = cursor % len(selection.agents)
        following = (start + 1) % len(selection.agents)
    first = selection.agents[start]
    if len(agents) < len(selection.agents):
        text = f"agent ids are not unique: {first.agent_id!r} runs without a fallback"
        return AgentChain(agents=(first,), warnings=(text,)), following
    ids, warnings = _follow(first.agent_id, agents, selection.agent_fallbacks)
    return AgentChain(agents=tuple(agents[name] for name in ids), warnings=warnings), following


def _follow(
    first: str, known: Collection[str], fallbacks: Mapping[str, str]
) -> tuple[list[str], tuple[str, ...]]:
    ids = [first]
    while (target := fallbacks.get(ids[-1])) is not None:
        link = f"fallback {ids[-1]!r} -> {target!r}"
        if target in ids:
            return ids, (f"{link} leads back: the chain ends at {ids[-1]!r}",)
        if target not in known:
            return ids, (f"{link}: there is no agent {target!r}, the chain ends there",)
        ids.append(target)
    return ids, ()
