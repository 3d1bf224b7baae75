"""The login of an agent at its vendor: whose limits it shares, and who serves its model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve

from otpy_agents.adapters.codex import configured_provider
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.errors import AdapterError

if TYPE_CHECKING:
    from otpy_agents.run.decide.chain import AgentChain, AgentInstance
    from otpy_agents.run.host.order import RunOrder

__all__ = ["provider_of", "with_accounts"]

# What chooses an account beside the folder of a configuration, for each CLI.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        "ANTHROPIC_BASE_URL",
    ),
    "codex": ("CODEX_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"),
    "copilot": (
        *("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        *("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"),
    ),
}


def with_accounts(chain: AgentChain, environment: Mapping[str, str]) -> AgentChain:
    """Return the chain with the account of each agent that names none (G-06).

    Two keys of one CLI are two accounts: the limit of one must not hold up the other. What stands
    for a key is stored and shown, so it is a short digest.

    Args:
        chain: The chain.
        environment: What its attempts inherit.
    """
    return evolve(chain, agents=tuple(_with_account(one, environment) for one in chain.agents))


def _with_account(agent: AgentInstance, environment: Mapping[str, str]) -> AgentInstance:
    if agent.credential:
        return agent
    names = _KEYS.get(agent.agent_cli, ())
    stated = [f"{name}={environment[name]}" for name in names if environment.get(name)]
    variable = "" if agent.config_dir else _variable(agent)
    if environment.get(variable):
        stated.append(environment[variable])
    if not stated:
        return agent
    stated.append(agent.config_dir)
    digest = hashlib.sha256("\0".join(stated).encode(errors="surrogateescape")).hexdigest()
    return evolve(agent, credential=f"login-{digest[:8]}")


def _variable(agent: AgentInstance) -> str:
    try:
        return find_adapter(agent.agent_cli).config_variable
    except AdapterError:  # it cannot be started either, which is told then
        return ""


def provider_of(
    agent: AgentInstance,
    order: RunOrder,
    environment: Mapping[str, str],
    session: str | None = None,
) -> str | None:
    """Return the provider of an agent's model, as `Request` takes it.

    Only of a provider that is named Codex can be told not to retry. Otherwise it would wait by
    itself, for hours if the vendor says so, and nobody would see it.

    Args:
        agent: The agent; a provider that it names stays.
        order: The order of the run. A container and a project make their own choice, which is not
            overruled.
        environment: The attempt's environment.
        session: Session it goes on with; None for a new one.
    """
    if agent.provider is not None or agent.agent_cli != "codex" or order.sandbox.name == "docker":
        return agent.provider
    stated = environment.get("CODEX_HOME")
    home = Path(stated) if stated else Path(environment.get("HOME") or Path.home()) / ".codex"
    project = order.cwd / ".codex"
    if project.exists() and project != home:
        return None
    return configured_provider(home, key=environment.get("CODEX_API_KEY"), session=session)
