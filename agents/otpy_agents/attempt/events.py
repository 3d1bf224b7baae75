"""What an agent says while it runs, in the same terms for every CLI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen

from otpy_agents.attempt.usage import Usage

__all__ = [
    "Event",
    "CliFault",
    "Final",
    "Problem",
    "Retrying",
    "SessionSeen",
    "Spent",
    "Text",
    "ToolEnded",
    "ToolStarted",
]


@frozen
class CliFault:
    """An error in the CLI's own words, before it is classified.

    Attributes:
        message: Its words. Never the model's text and never a tool's output.
        status: HTTP status, where the CLI gives it in a field of its own.
        codes: Names of the error in fields of their own, the most specific first.
        hints: Fields that came with it, as text, for how long to wait.
    """

    message: str
    status: int | None = None
    codes: tuple[str, ...] = ()
    hints: str = ""


@frozen
class SessionSeen:
    """The session can be resumed under this id.

    Attributes:
        session: The id.
        model: The model, where the CLI says it; otherwise empty.
    """

    session: str
    model: str = ""


@frozen
class Text:
    """A piece of the model's text."""

    text: str


@frozen
class ToolStarted:
    """The agent uses a tool.

    Attributes:
        call: Identity of the call, found again in its `ToolEnded`.
        name: The tool.
        input: What it was called with, in the CLI's own terms; empty if the CLI does not say.
    """

    call: str
    name: str
    input: Mapping[str, object] = field(factory=dict[str, object])


@frozen
class ToolEnded:
    """A tool has answered.

    Attributes:
        call: Identity of the call.
        ok: False if the tool failed or was refused.
        denied: True if the agent was not allowed to use it.
    """

    call: str
    ok: bool = True
    denied: bool = False


@frozen
class Spent:
    """A reading of usage; a later one in the same run replaces it.

    Attributes:
        usage: What.
        model: The model, where the reading names it; otherwise empty.
    """

    usage: Usage
    model: str = ""


@frozen
class Retrying:
    """The CLI met an error and tries again by itself.

    Attributes:
        fault: The error.
        endless: Whether it does so until it succeeds, whatever it was told. Then the attempt is
            ended for that error: how long is waited is for the policy of the run to say.
    """

    fault: CliFault
    endless: bool = False


@frozen
class Problem:
    """The CLI met an error that may be its last."""

    fault: CliFault


@frozen
class Final:
    """The CLI says that it is done; nothing of weight follows.

    Attributes:
        answer: The model's answer; None if it is what the `Text` events held.
        fault: Why it failed; None if the CLI claims success.
        denied: Tools that were refused during the run.
    """

    answer: str | None = None
    fault: CliFault | None = None
    denied: tuple[str, ...] = field(default=())


Event: TypeAlias = SessionSeen | Text | ToolStarted | ToolEnded | Spent | Retrying | Problem | Final
"""One thing an agent said."""
