"""Any command: its exit code and its output decide, and it may speak JSON lines.

A line that is a JSON object with one of these types is an event; a command that wrote any has to
end with a `result`:

| line | meaning |
|---|---|
| `{"type": "session", "id": …}` | it can be resumed |
| `{"type": "text", "text": …}` | a piece of the answer |
| `{"type": "tool", "id": …, "name": …, "input": {…}}` | it began to use a tool |
| `{"type": "tool_end", "id": …, "ok": …}` | the tool answered |
| `{"type": "usage", "input": …, "cached": …, "output": …, "cost_usd": …}` | spent so far |
| `{"type": "error", "message": …, "status": …, "code": …}` | an error, perhaps the last |
| `{"type": "result", "text": …}` | done; with `"is_error": true` it failed |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, final

from otpy_agents.adapters.adapter import (
    PROMPT_FILE,
    SCHEMA_FILE,
    AttemptRequest,
    Parser,
    PlainText,
    Wording,
)
from otpy_agents.adapters.fields import JsonObject, integer, number, obj, text
from otpy_agents.adapters.stream import JsonLines
from otpy_agents.attempt.events import (
    CliFault,
    Event,
    Problem,
    SessionSeen,
    Spent,
    Text,
    ToolEnded,
    ToolStarted,
)
from otpy_agents.attempt.events import Final as FinalEvent
from otpy_agents.attempt.failures import Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.errors import InvalidRequest
from otpy_agents.sandbox.launch import Launch

__all__ = ["ADAPTER", "Command"]

_SHORT: Final = 64 * 1024


@final
class CommandParser:
    """Reads JSON lines of the kinds above; every other line is not an event."""

    def __init__(self) -> None:
        self._json = JsonLines()

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in _events(found)]


def _events(found: JsonObject) -> list[Event]:
    match text(found, "type"):
        case "session":
            return [SessionSeen(text(found, "id"))]
        case "text":
            return [Text(text(found, "text"))]
        case "tool":
            return [ToolStarted(text(found, "id"), text(found, "name"), obj(found, "input"))]
        case "tool_end":
            return [
                ToolEnded(
                    text(found, "id"),
                    found.get("ok") is not False,
                    found.get("denied") is True,
                )
            ]
        case "usage":
            return [Spent(_usage(found))]
        case "error":
            return [Problem(_fault(found, text(found, "message")))]
        case "result":
            said = text(found, "text")
            if found.get("is_error") is True:
                return [FinalEvent(fault=_fault(found, said))]
            return [FinalEvent(said)]
        case _:
            return []


def _fault(found: JsonObject, message: str) -> CliFault:
    code = text(found, "code")
    return CliFault(message, integer(found, "status") or None, (code,) if code else ())


def _usage(found: JsonObject) -> Usage:
    return Usage(
        input=integer(found, "input"),
        cached=integer(found, "cached"),
        output=integer(found, "output"),
        cost_usd=number(found, "cost_usd"),
    )


@final
class Command:
    """How to call any command: as the request says."""

    name = "command"
    executable = ""
    install_hint = "install it, or make it executable"
    config_variable = ""
    cumulative_usage = False
    session_log = None
    errors_on_stderr = False
    exit_codes: Mapping[int, Detail] = {}
    wordings: Sequence[Wording] = ()
    plain_text = PlainText(heads=(), noise=re.compile(r"(?!)"), openings=re.compile(r"(?!)"))

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt: `request.argv`, which finds its prompt in a file.

        `OTPY_PROMPT_FILE` names that. A prompt of at most 64 KiB is in `OTPY_PROMPT` too; Linux has
        128 KiB for a variable. A session to go on with is in `OTPY_SESSION`; `OTPY_SCHEMA_FILE`
        names the file with the JSON Schema of the answer, if one is wanted.

        Raises:
            InvalidRequest: `request.argv` is empty.
        """
        if not request.argv or not request.argv[0]:
            raise InvalidRequest("argv", repr(request.argv), "a program and its arguments")
        prompt = request.folder / PROMPT_FILE
        environment = {"OTPY_PROMPT_FILE": str(prompt)}
        if len(request.prompt.encode()) <= _SHORT:
            environment["OTPY_PROMPT"] = request.prompt
        if request.session is not None:
            environment["OTPY_SESSION"] = request.session
        files = {prompt: request.prompt}
        if request.schema:
            schema = request.folder / SCHEMA_FILE
            files[schema] = request.schema
            environment["OTPY_SCHEMA_FILE"] = str(schema)
        return Launch(argv=(*request.argv, *request.flags), environment=environment, files=files)

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return CommandParser()


ADAPTER: Final = Command()
"""The adapter."""
