"""The order of a run: one value, stored with the run, so that it can be continued.

It holds no secret. Variables that are secret are named, and their values are taken from the
environment of the host that makes the attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import Attribute, evolve, field, frozen

from otpy_agents.adapters.adapter import Access
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.chain import AgentChain, AgentInstance, AgentSelection, default_agent
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.prices import unheld
from otpy_agents.run.decide.result import VendorSession
from otpy_agents.run.decide.state import RunState
from otpy_agents.sandbox.allowlist import ALLOWED_HOST, allowed_host
from otpy_agents.sandbox.behaviour import Mount, SandboxLimits
from otpy_agents.store.redaction import is_secret_name

__all__ = ["RunOrder", "SandboxChoice"]


def _allowable(_: object, attribute: Attribute[Any], value: tuple[str, ...] | None) -> None:
    for text in value or ():
        if allowed_host(text) is None:
            name = f"order.sandbox.{attribute.name}"
            raise InvalidRunSetting(name, repr(text), ALLOWED_HOST)


@frozen(kw_only=True)
class SandboxChoice:
    """Where the attempts of a run are made.

    Attributes:
        name: `process`, `bubblewrap`, `docker`, or another that the host was given.
        image: Image of the containers; `docker` only.
        network: Whether an attempt reaches the network; `process` cannot hold it off.
        hosts: What it reaches of the network instead, whatever `network` says, each as a name, as
            `*.NAME` or as an address, perhaps with `:PORT`; None for nothing but that. Not for
            `process`.
        limits: What an attempt may use.
        mounts: More of the host to be seen.

    Raises:
        InvalidRunSetting: One of the hosts is none.
    """

    name: str = "process"
    image: str = ""
    network: bool = True
    hosts: tuple[str, ...] | None = field(default=None, validator=_allowable)
    limits: SandboxLimits = field(factory=SandboxLimits)
    mounts: tuple[Mount, ...] = ()


def _absolute(_: object, attribute: Attribute[Any], value: Path | None) -> None:
    if value is not None and not value.is_absolute():
        raise InvalidRunSetting(f"order.{attribute.name}", f"'{value}'", "an absolute path")


def _some(_: object, attribute: Attribute[str], value: str) -> None:
    if not value.strip():
        raise InvalidRunSetting(f"order.{attribute.name}", repr(value), "some text")


def _money(_: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise InvalidRunSetting(f"order.{attribute.name}", repr(value), "US dollars above 0")


def _json_object(_: object, attribute: Attribute[str], value: str) -> None:
    if not value:
        return
    try:
        found: object = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidRunSetting(f"order.{attribute.name}", f"{value!r:.60}", "a JSON object")


def _no_secret(order: RunOrder, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name in value:
        if is_secret_name(name) or name in order.secrets:
            wanted = "no secret: what is in an order is stored; name it in `passed`"
            raise InvalidRunSetting(f"order.{attribute.name}", repr(name), wanted)


def _sealed(values: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(values))


@frozen(kw_only=True)
class RunOrder:
    """One prompt, and all settings for who does it and how (RUN-18 to RUN-21).

    It is stored, and secret values that stand in its texts all the same are not: `[NAME]` stands
    there for them, and that is what a host reads that goes on with the run after this one.

    Attributes:
        prompt: The task for the agent (RUN-01).
        cwd: Its work directory; absolute.
        selection: Agents to choose from; without any it is `use` alone.
        use: CLI of the only agent if `selection` is empty, in any letter case; empty means `codex`
            (RUN-20).
        policy: What follows a failure.
        liveness: When an attempt is ended for its silence.
        budget_usd: US dollars for all attempts; None for no limit.
        access: The agent's permissions.
        argv: The whole command, for agents of the CLI `command`.
        sandbox: Where the attempts are made.
        environment: Variables for the attempts, with their values; none may be secret by its name.
        passed: Names of variables that an attempt gets from the environment of the host. Needed
            for sandboxes that inherit nothing; the others get all of them.
        secrets: Names of variables whose values are kept out of whatever is shown or stored,
            whatever they are called. Those with a telling name are anyway.
        artifacts: Folder for what attempts leave, one for all attempts; None if they leave nothing.
        session: Session of a vendor that the first attempt goes on with; without effect on agents
            that cannot, and lost without a retry if the vendor does not know it any more.
        schema: JSON Schema of the final answer, as text, for CLIs that can hold the model to one;
            the prompt has to say it too. Empty for none.
        label: The client that ordered it, to find its runs later, see `RunStore.runs`; free text
            without secrets.

    Raises:
        InvalidRunSetting: One of these can never work.
    """

    prompt: str = field(validator=_some)
    cwd: Path = field(validator=_absolute)
    selection: AgentSelection = field(factory=AgentSelection)
    use: str = ""
    policy: RetryPolicy = field(factory=RetryPolicy)
    liveness: Liveness = field(factory=Liveness)
    budget_usd: float | None = field(default=None, validator=_money)
    access: Access = Access.EDIT
    argv: tuple[str, ...] = ()
    sandbox: SandboxChoice = field(factory=SandboxChoice)
    environment: Mapping[str, str] = field(
        factory=dict[str, str], converter=_sealed, validator=_no_secret
    )
    passed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    artifacts: Path | None = field(default=None, validator=_absolute)
    session: VendorSession | None = None
    schema: str = field(default="", validator=_json_object)
    label: str = ""

    @property
    def default(self) -> AgentInstance:
        """The agent if none is selected (RUN-20)."""
        return default_agent(self.use)

    @property
    def candidates(self) -> tuple[AgentInstance, ...]:
        """The agents that may come into its chain."""
        return self.selection.agents or (self.default,)

    def first_state(self, chain: AgentChain) -> RunState:
        """Return where its run stands before it begins.

        Args:
            chain: Its agents, in order.
        """
        if self.budget_usd is not None:
            free = tuple(map(str, unheld(chain.agents)))
            chain = evolve(chain, warnings=(*chain.warnings, *free))
        state = RunState(
            chain=chain, policy=self.policy, liveness=self.liveness, budget_usd=self.budget_usd
        )
        session = self.session
        if session is None or not state.agent.owns(session):
            return state
        readings = {} if session.counted is None else {session.id: session.counted}
        return evolve(state, session=session.id, readings=readings)
