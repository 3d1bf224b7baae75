"""Git on work trees that agents commit in, without the drivers that its configuration names.

Such a work tree has a branch and an index of the repository, so that `SealedGit` is none for it.
Whatever the configuration calls a filter, a diff or a merge driver is given no program instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from otpy_agents.workspace.git import Git

__all__ = ["disarmed", "without_drivers"]

_BLANK: Final = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "diff": {"command": "", "textconv": ""},
    "merge": {"driver": ""},
}
"""What takes the programs of a driver away, by the section it is in."""


async def disarmed(git: Git, where: Path) -> Git:
    """Return a git that runs no driver that the configuration of a work tree names.

    Args:
        git: What runs git.
        where: The work tree.

    Raises:
        GitFailed: Its configuration cannot be read, or its link to the repository is spoilt.
    """
    answer = await git.run(where, "config", "--list", "--name-only", "-z")
    return git.also(without_drivers(answer.out))


def without_drivers(names: bytes) -> dict[str, str]:
    """Return an environment without drivers for git. Pure.

    Args:
        names: What `git config --list --name-only -z` said.
    """
    blank: dict[str, str] = {}
    for name in os.fsdecode(names).split("\0"):
        section, _, rest = name.partition(".")
        driver, dot, _ = rest.rpartition(".")
        if dot and section in _BLANK:
            blank |= {f"{section}.{driver}.{k}": v for k, v in _BLANK[section].items()}
    # Not by `-c`, in which a name may have no equals sign.
    found = {"GIT_CONFIG_COUNT": str(len(blank))}
    for number, (name, value) in enumerate(blank.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found
