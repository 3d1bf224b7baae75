"""The options of `otpy-agents run`, and the order they make."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click

from otpy_agents.adapters.adapter import Access
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.cli.policy_options import policy_from, policy_options
from otpy_agents.cli.streams import is_text
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection, SelectionMode
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.prices import unheld
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.walls import (
    COMMAND,
    SANDBOXES,
    WAY_OUT,
    Flaw,
    NetworkWish,
    choice_of,
    flaw_in,
    is_way_out,
)
from otpy_agents.store.redaction import is_secret_name

__all__ = ["order_from", "order_options"]

_OPTIONS: Final = (
    click.option("--agent", default="codex", metavar="NAME", help="Who does it.  [codex]"),
    click.option(
        "--fallback",
        "fallbacks",
        multiple=True,
        metavar="NAME",
        help="Who takes over where the one before cannot; may be repeated.",
    ),
    click.option(
        "--cwd",
        type=click.Path(path_type=Path, readable=False),
        default=Path(),
        metavar="DIR",
        help="Where the agent works.  [here]",
    ),
    click.option("--model", metavar="NAME", help="Model of --agent, by its CLI's own name."),
    click.option(
        "--access",
        type=click.Choice([str(access) for access in Access]),
        default=str(Access.EDIT),
        help="What the agent may do without being asked: look, change files, anything.  [edit]",
    ),
    click.option(
        "--liveness",
        default="none",
        metavar="WHAT",
        help="When an attempt is ended: none, deadline:S, stall:S or heartbeat:S.  [none]",
    ),
    click.option("--budget-usd", type=float, metavar="USD", help="For all attempts together."),
    click.option(
        "--budget-strict",
        is_flag=True,
        help="Refuse an agent that --budget-usd may not hold: its price is unknown.",
    ),
    click.option("--sandbox", default="process", metavar="WHERE", help=f"{SANDBOXES}.  [process]"),
    click.option(
        "--network/--no-network",
        default=None,
        help="Whether the sandbox lets it reach the network.  [on in process]",
    ),
    click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="HOST",
        help="Reach this host alone, NAME[:PORT], or vendor for the agent's own; may be repeated.",
    ),
    click.option(
        "--artifacts",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Folder for what it leaves; it finds it in $OTPY_ARTIFACTS.",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable for the agent; without a value it is taken from here.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help="A variable for the agent whose value is never shown nor stored.",
    ),
)


def order_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of an order; `order_from` reads them."""
    command = policy_options(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def order_from(prompt: str | None, argv: Sequence[str], options: dict[str, Any]) -> RunOrder:
    """Return the order, and take its options out of those of the command.

    Args:
        prompt: The task for the agent; `command` can do without it.
        argv: What stands behind `--`.
        options: All options of the command.

    Raises:
        InvalidRunSetting: It can never work.
        UnknownAdapter: There is no such agent.
    """
    names = (options.pop("agent"), *options.pop("fallbacks"))
    selection = _selection(names, options.pop("model"), argv)
    if (COMMAND in names) != bool(argv):
        got = shlex.join(argv) if argv else "nothing"
        wanted = "a command there for --agent command" if not argv else "nothing there"
        raise InvalidRunSetting("behind --", got, wanted)
    if prompt is None and set(names) == {COMMAND}:
        prompt = shlex.join(argv)  # for lists; the command finds it as OTPY_PROMPT
    if prompt is None or not prompt.strip():
        raise InvalidRunSetting("PROMPT", repr(prompt or ""), "some text, or - for standard input")
    budget = options.pop("budget_usd")
    if options.pop("budget_strict"):
        _check_prices(selection, budget)
    environment, passed = _variables(options.pop("variables"))
    secrets = _existing("--secret", options.pop("secrets"))
    artifacts = options.pop("artifacts")
    return RunOrder(
        prompt=prompt,
        cwd=_absolute("--cwd", options.pop("cwd")),
        selection=selection,
        policy=policy_from(options),
        liveness=Liveness.parse(options.pop("liveness")),
        budget_usd=budget,
        access=Access(options.pop("access")),
        argv=tuple(argv),
        sandbox=_sandbox(options.pop("sandbox"), names, network=_network(options)),
        environment=environment,
        passed=tuple(dict.fromkeys((*passed, *secrets))),
        secrets=secrets,
        artifacts=None if artifacts is None else _absolute("--artifacts", artifacts),
    )


def _absolute(option: str, path: Path) -> Path:
    absolute = os.path.abspath(path)  # noqa: PTH100 - a link in it is what the user calls it
    if not is_text(absolute):
        raise InvalidRunSetting(option, ascii(absolute), "a path in UTF-8")
    return Path(absolute)


def _selection(names: Sequence[str], model: str | None, argv: Sequence[str]) -> AgentSelection:
    """Return the agents, each the fallback of the one before."""
    for name in names:
        find_adapter(name)
        if names.count(name) > 1:
            raise InvalidRunSetting("--fallback", repr(name), "each agent once")
    first, *others = names
    return AgentSelection(
        agents=(
            AgentInstance(
                agent_id=first, agent_cli=first, model=model, credential=_account(first, argv)
            ),
            *(
                AgentInstance(agent_id=name, agent_cli=name, credential=_account(name, argv))
                for name in others
            ),
        ),
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks=dict(pairwise(names)),
    )


def _check_prices(selection: AgentSelection, budget: float | None) -> None:
    if budget is None:
        raise InvalidRunSetting("--budget-strict", "no --budget-usd", "the budget to enforce")
    for one in unheld(selection.agents):
        got = f"{one.agent_id} with " + (f"the model {one.model!r}" if one.model else "no --model")
        raise InvalidRunSetting("--budget-strict", got, "a --model whose price is known")


def _account(name: str, argv: Sequence[str]) -> str:
    """Return whose limits an agent shares: those of its CLI's login, a command only its own."""
    if name != COMMAND or not argv:
        return ""
    # The name is stored, and an argument may hold what must not be.
    digest = hashlib.sha256("\0".join(argv).encode(errors="surrogateescape")).hexdigest()
    return f"{Path(argv[0]).name}-{digest[:8]}"


def _network(options: dict[str, Any]) -> NetworkWish:
    """Return what of the network is to be reached."""
    network: bool | None = options.pop("network")
    hosts: tuple[str, ...] = options.pop("hosts")
    if not hosts:
        return network
    if network is not None:
        got = "it with --network" if network else "it with --no-network"
        raise InvalidRunSetting("--allow-host", got, "one of the two")
    for text in hosts:
        if not is_way_out(text):
            raise InvalidRunSetting("--allow-host", repr(text), WAY_OUT)
    return hosts


def _sandbox(text: str, names: Sequence[str], *, network: NetworkWish) -> SandboxChoice:
    """Return where attempts are made; outside of `process` the network has to be asked for."""
    match flaw_in(text, names, network=network):
        case Flaw.NO_SUCH_SANDBOX:
            raise InvalidRunSetting("--sandbox", repr(text), SANDBOXES)
        case Flaw.NO_WALL:
            wanted = "bubblewrap or docker:IMAGE: process cannot hold it off"
            option = "--no-network" if network is False else "--allow-host"
            raise InvalidRunSetting(option, f"--sandbox {text}", wanted)
        case Flaw.NETWORK_UNSAID:
            first = next(name for name in names if name != COMMAND)
            wanted = f"--network, --allow-host vendor, or --no-network if {first} needs none"
            got = "nothing about the network"
            raise InvalidRunSetting(f"--sandbox {text.partition(':')[0]}", got, wanted)
        case None:
            pass
    choice = choice_of(text, names, network=network, environment=os.environ, field="--sandbox")
    for mount in choice.mounts:
        if not is_text(str(mount.source)):
            raise InvalidRunSetting("--sandbox", ascii(str(mount.source)), "a path in UTF-8")
    return choice


def _variables(stated: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables that have a value, and the names of the others."""
    for text in stated:
        if not text.partition("=")[0]:
            raise InvalidRunSetting("--env", repr(text), "NAME=VALUE, or the NAME of one set here")
    valued = dict(text.split("=", 1) for text in stated if "=" in text)
    for name in filter(is_secret_name, valued):
        wanted = f"--secret {name}, with the variable set here: a value that stands here is stored"
        raise InvalidRunSetting("--env", f"a value for {name!r}", wanted)
    return valued, _existing("--env", [text for text in stated if "=" not in text])


def _existing(option: str, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in os.environ:
            raise InvalidRunSetting(option, repr(name), "a variable that is set here")
    return tuple(dict.fromkeys(names))
