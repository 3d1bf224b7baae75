"""What an adapter is: everything that is particular to one agent CLI, and nothing else.

An adapter is a value without state. It says how its CLI is called and what its output means; who
starts it, watches it and decides what follows is the run. [The page on
adapters](../../../docs/reference/agent-adapters.md) shows how another package adds one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from attrs import field, frozen

from otpy_agents.adapters.session_log import SessionLog
from otpy_agents.attempt.events import Event
from otpy_agents.attempt.failures import Detail
from otpy_agents.errors import InvalidRequest
from otpy_agents.sandbox.launch import Launch

__all__ = [
    "PROMPT_FILE",
    "SCHEMA_FILE",
    "Access",
    "Adapter",
    "Parser",
    "PlainText",
    "AttemptRequest",
    "Wording",
]


class Access(StrEnum):
    """What the agent may do; there is no person to ask for permission."""

    READ = "read"
    """Look around."""
    EDIT = "edit"
    """Change files in its work directory."""
    FULL = "full"
    """Anything. Only inside a sandbox that holds by itself."""


# Below this the folder of an attempt, which is its alone, names a session that is its alone.
_SESSIONS: Final = uuid.UUID("6f1c1d0e-6a0b-4f0e-9d53-5d1a3c2be0a7")


def _some(_request: object, attribute: object, value: str) -> None:
    if not value.strip():
        raise InvalidRequest(getattr(attribute, "name", ""), repr(value), "some text")


@frozen(kw_only=True)
class AttemptRequest:
    """One attempt, in terms every CLI understands.

    Attributes:
        prompt: The task for the agent; not empty.
        folder: A folder that belongs to this attempt alone and exists, for files of `Launch`.
        session: Session to go on with; None begins a new one.
        model: Model by the CLI's own name; None leaves it to the CLI's configuration.
        provider: Who serves the model; only Codex has it. A name that its configuration defines,
            `openai` for the built-in one with an API key, or the address of that.
        access: The agent's permissions.
        budget_usd: US dollars after which the CLI stops by itself, where it can.
        flags: More arguments.
        argv: The whole command, for the adapter `command` only.
        schema: JSON Schema of its final answer, as text, for a CLI that can hold the model to one;
            the prompt has to say it too, because not every CLI can. Empty for none.
    """

    prompt: str = field(validator=_some)
    folder: Path
    session: str | None = None
    model: str | None = None
    provider: str | None = None
    access: Access = Access.EDIT
    budget_usd: float | None = None
    flags: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    schema: str = ""

    def new_session(self, *choices: str) -> str | None:
        """Return the id for a new session, which no other attempt has; None if one is chosen.

        The host that a CLI outlives has to find its session, also when it was killed before the
        CLI told the id.

        Args:
            choices: Flags of the CLI by which a user chooses a session himself.
        """
        if self.session is not None or {flag.partition("=")[0] for flag in self.flags} & {*choices}:
            return None
        return str(uuid.uuid5(_SESSIONS, str(self.folder)))


PROMPT_FILE: Final = "prompt"
"""Name of the file in `AttemptRequest.folder` that holds the prompt."""

SCHEMA_FILE: Final = "schema.json"
"""Name of the file there that holds `AttemptRequest.schema`, for a CLI that reads it from one."""


class Parser(Protocol):
    """Reads one stream of one attempt, line by line, and keeps its state in between."""

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` (without its line feed) says; nothing if it is not an event."""
        ...


@frozen
class Wording:
    """Words of an error message, and their meaning.

    Attributes:
        detail: The class.
        pattern: Looked for in the final error message only.
        cut: Whether it holds only for an attempt that a time limit ended (exit code 124, or one
            that nobody knows), where the last words are not those of an end.
    """

    detail: Detail
    pattern: re.Pattern[str]
    cut: bool = False


@frozen(kw_only=True)
class PlainText:
    """How to find the final error message in output that is not JSON.

    Attributes:
        heads: How standard output begins when it is JSON, not plain text; then it needs a last
            event, however little of it came.
        noise: Lines of the error stream that are not an error and may follow one.
        openings: How the CLI's own errors begin. Only what begins so counts as an error on standard
            output, where otherwise the model speaks.
        notices: Whole outputs that are an error although the exit code says 0; None if there are
            none.
    """

    heads: tuple[str, ...]
    noise: re.Pattern[str]
    openings: re.Pattern[str]
    notices: re.Pattern[str] | None = None


class Adapter(Protocol):
    """Everything that is particular to one agent CLI."""

    @property
    def name(self) -> str:
        """Name in chains, records and the entry point."""
        ...

    @property
    def executable(self) -> str:
        """Program to be found on the PATH; empty if the request names it."""
        ...

    @property
    def install_hint(self) -> str:
        """What to type where the program is missing."""
        ...

    @property
    def config_variable(self) -> str:
        """Variable that names its configuration folder; empty if there is none."""
        ...

    @property
    def cumulative_usage(self) -> bool:
        """Whether its usage counts the whole session instead of one run."""
        ...

    @property
    def session_log(self) -> SessionLog | None:
        """Files that tell each answered request at once; None if it has none."""
        ...

    @property
    def errors_on_stderr(self) -> bool:
        """Whether its events may stand on the error stream too."""
        ...

    @property
    def exit_codes(self) -> Mapping[int, Detail]:
        """What an exit code means if no message says more."""
        ...

    @property
    def wordings(self) -> Sequence[Wording]:
        """Its own words for errors, looked up before those that all share."""
        ...

    @property
    def plain_text(self) -> PlainText:
        """How to read its output where it is not JSON."""
        ...

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt.

        Raises:
            InvalidRequest: The request lacks what this CLI needs.
        """
        ...

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        ...
