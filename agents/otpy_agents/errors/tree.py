"""Errors of the tree of agents: its settings, its names, its moves."""

from __future__ import annotations

from collections.abc import Iterable

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "AgentNotFound",
    "AgentRefused",
    "BudgetRenewed",
    "ForbiddenMove",
    "GangFailed",
    "InvalidFailureRow",
    "InvalidGang",
    "InvalidStartRate",
    "InvalidTreeSetting",
    "NameAlreadyExists",
    "RunFailed",
    "VerificationFailed",
]


class InvalidTreeSetting(AgentsError, ValueError):
    """A setting of the tree that can never work; the subclasses say of what.

    Attributes:
        field: The setting.
    """

    def __init__(self, field: str, got: str, wanted: str) -> None:
        self.field = field
        super().__init__(f"{field}: got {got}, wanted {wanted}")


class InvalidStartRate(InvalidTreeSetting):
    """A limit of starts that can never work."""


class InvalidGang(InvalidTreeSetting):
    """A group of agents that can never go wrong."""


class InvalidFailureRow(InvalidTreeSetting):
    """A row of the table of failures that means nothing."""


class ForbiddenMove(AgentsError, RuntimeError):
    """Something that cannot happen to an agent where it stands; it stays there.

    Attributes:
        agent: Its key.
        state: Where it stands.
        happening: What was to happen.
    """

    def __init__(self, agent: str, state: str, happening: str) -> None:
        self.agent, self.state, self.happening = agent, state, happening
        super().__init__(f"agent {agent!r}: got {happening!r} while {state!r}, wanted a move of it")


class AgentNotFound(AgentsError, LookupError):
    """No agent of this name is in the pool (TREE-21).

    Attributes:
        name: The name.
        known: Names there are, sorted.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"got agent {name!r}, wanted one of: {', '.join(self.known) or 'none'}")


class NameAlreadyExists(AgentsError, ValueError):
    """An agent of this name is in the pool already; nothing was started (TREE-21).

    Attributes:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"got agent {name!r} for the second time, wanted a name that is free")


class AgentRefused(AgentsError, RuntimeError):
    """Something was asked of an agent that it cannot do where it stands.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"agent {name!r}: {reason}")


class RunFailed(AgentsError, RuntimeError):
    """The run of an agent ended without success; the agent is restarted or given up.

    Attributes:
        failure: Its name in the table of failures.
    """

    def __init__(self, failure: str, message: str) -> None:
        self.failure = failure
        super().__init__(f"{failure}: {message}" if message else failure)


class VerificationFailed(RunFailed):
    """The agent claims to be done, and its work does not pass (TREE-29)."""


class GangFailed(AgentsError, RuntimeError):
    """Several agents of its group failed together, so this one is restarted with them (TREE-31)."""


class BudgetRenewed(AgentsError, RuntimeError):
    """Its budget is spent, and it is restarted with a fresh one (C-12)."""
