"""Where attempts are made, as a person says it: `process`, `bubblewrap` or `docker:IMAGE`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.adapters.vendor_hosts import VENDOR, vendor_hosts
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.allowlist import ALLOWED_HOST, allowed_host
from otpy_agents.sandbox.behaviour import Mount

__all__ = [
    "COMMAND",
    "OPEN",
    "SANDBOXES",
    "WAY_OUT",
    "Flaw",
    "NetworkWish",
    "choice_of",
    "flaw_in",
    "is_sandbox",
    "is_way_out",
    "said_of",
]

NetworkWish: TypeAlias = bool | tuple[str, ...] | None
"""What agents reach: all of the network, none, or these hosts alone, among which the word `vendor`
stands for those of their own vendors. None if nothing is said."""

WAY_OUT: Final = f"{VENDOR}, or {ALLOWED_HOST}"
"""What can be said of a host, for messages."""

SANDBOXES: Final = "process, bubblewrap or docker:IMAGE"
"""What can be said, for messages."""

COMMAND: Final = "command"
"""The one CLI that needs neither network nor login of its own."""

OPEN: Final = "process"
"""The sandbox without walls."""


class Flaw(Enum):
    """What about a choice can never work."""

    NO_SUCH_SANDBOX = "no such sandbox"
    NO_WALL = "no wall against the network"
    """The network, or a part of it, is to be held off where nothing can."""
    NETWORK_UNSAID = "nothing about the network"
    """Behind walls an agent that calls a vendor needs one, and it has to be said."""


def is_sandbox(text: str) -> bool:
    """Tell whether a text says where attempts are made."""
    name, colon, image = text.partition(":")
    return bool(image) if name == "docker" else name in {OPEN, "bubblewrap"} and not colon


def is_way_out(text: str) -> bool:
    """Tell whether a text says which hosts are reached."""
    return text == VENDOR or allowed_host(text) is not None


def flaw_in(text: str, clis: Sequence[str], *, network: NetworkWish) -> Flaw | None:
    """Return the flaw of a choice; None if it has none. Pure.

    Args:
        text: Where attempts are made.
        clis: Names of the agents' CLIs.
        network: Their access to the network.
    """
    if not is_sandbox(text):
        return Flaw.NO_SUCH_SANDBOX
    if text == OPEN:
        return Flaw.NO_WALL if network is not None and network is not True else None
    return Flaw.NETWORK_UNSAID if network is None and set(clis) != {COMMAND} else None


def choice_of(
    text: str,
    clis: Sequence[str],
    *,
    network: NetworkWish,
    environment: Mapping[str, str],
    field: str,
) -> SandboxChoice:
    """Return the sandbox of a choice without a flaw.

    In bubblewrap an agent finds the folder of its login and its sessions, and may write there.

    Args:
        text: Where attempts are made.
        clis: Names of the agents' CLIs.
        network: Their access to the network.
        environment: Says where CLIs keep those folders.
        field: The name of the setting, for messages.

    Raises:
        InvalidRunSetting: Such a folder is not there.
    """
    name, _, image = text.partition(":")
    if name == OPEN:
        return SandboxChoice(name=name)
    online = [cli for cli in clis if cli != COMMAND] if name == "bubblewrap" else []
    mounts = tuple(_home_of(cli, environment, f"{field} {name}") for cli in online)
    if not isinstance(network, tuple):
        return SandboxChoice(name=name, image=image, network=bool(network), mounts=mounts)
    hosts = tuple(dict.fromkeys(host for text in network for host in _hosts(text, clis)))
    return SandboxChoice(name=name, image=image, network=False, hosts=hosts, mounts=mounts)


def said_of(choice: SandboxChoice) -> str:
    """Return in one line, for people, which walls a sandbox has; empty if it has none."""
    if choice.name == OPEN:
        return ""
    where = f"{choice.name} {choice.image}".rstrip()
    network = "the network" if choice.network else "no network"
    if choice.hosts is not None:
        network = f"no network but {', '.join(choice.hosts) or 'a list without a host'}"
    return f"{where}: can write in its own folders alone, and has {network}"


def _hosts(text: str, clis: Sequence[str]) -> tuple[str, ...]:
    if text != VENDOR:
        return (text,)
    return tuple(host for cli in clis for host in vendor_hosts(cli))


def _home_of(name: str, environment: Mapping[str, str], field: str) -> Mount:
    """Return the folder of an agent's login and sessions, to which it has to write."""
    variable = find_adapter(name).config_variable
    stated = environment.get(variable) if variable else None
    folder = Path(os.path.abspath(stated or Path.home() / f".{name}"))  # noqa: PTH100 - keeps links
    if not folder.is_dir():
        wanted = f"the folder of {name}, which its first use makes" + (
            f", or another in ${variable}" if variable else ""
        )
        raise InvalidRunSetting(field, f"no '{folder}'", wanted)
    return Mount(folder, writable=True)
