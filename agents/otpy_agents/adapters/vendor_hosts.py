"""Which hosts the CLI of an agent calls to do its work, as its vendor documents them.

Signing in, telemetry and updates need others; a container has a key instead and does without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["VENDOR", "vendor_hosts"]

VENDOR: Final = "vendor"
"""The word that stands in a list of hosts for those of the agent's own vendor."""

_HOSTS: Final[Mapping[str, tuple[str, ...]]] = {
    # The second renews a login.
    "claude": ("api.anthropic.com", "platform.claude.com"),
    # With a key the first; with a login of ChatGPT the others.
    "codex": ("api.openai.com", "auth.openai.com", "chatgpt.com"),
    "copilot": ("*.githubcopilot.com", "api.github.com"),
    "cursor": ("*.cursor.sh",),
    # With a key the first; with a login of Google the others.
    "gemini": (
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
    ),
}


def vendor_hosts(cli: str) -> tuple[str, ...]:
    """Return the hosts that the CLI of an agent must reach, as entries of an allowlist.

    Args:
        cli: Name of its adapter; of `command`, and of one that is not our own, nothing is known.
    """
    return _HOSTS.get(cli, ())
