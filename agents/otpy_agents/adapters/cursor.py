"""Cursor's CLI (`cursor-agent`), written from its public documentation.

It was never tried: it needs an account, and speaks with its vendor alone. Flags and
events are those of its documentation of print mode and of `stream-json`, and its failures those
that users have shown; what else it says counts as any CLI's words do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, final

from otpy_agents.adapters.adapter import (
    PROMPT_FILE,
    Access,
    AttemptRequest,
    Parser,
    PlainText,
    Wording,
)
from otpy_agents.adapters.fields import JsonObject, obj, objects, text
from otpy_agents.adapters.stream import JsonLines
from otpy_agents.attempt.events import CliFault, Event, SessionSeen, Text, ToolEnded, ToolStarted
from otpy_agents.attempt.events import Final as FinalEvent
from otpy_agents.attempt.failures import Detail
from otpy_agents.sandbox.launch import Launch

__all__ = ["ADAPTER", "Cursor"]

_MODES: Final[Mapping[Access, tuple[str, ...]]] = {
    Access.READ: ("--mode", "ask"),
    Access.EDIT: ("--force", "--sandbox", "enabled"),
    Access.FULL: ("--force",),
}
_TOOL: Final = re.compile(r"(\w+?)(?:ToolCall)?\Z")


@final
class CursorParser:
    """Reads `--output-format stream-json`."""

    def __init__(self) -> None:
        self._json = JsonLines()

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in _events(found)]


def _events(found: JsonObject) -> list[Event]:
    match text(found, "type"), text(found, "subtype"):
        case "system", "init":
            return [SessionSeen(text(found, "session_id"), text(found, "model"))]
        case "assistant", _:
            parts = objects(obj(found, "message"), "content")
            said = "".join(text(part, "text") for part in parts)
            return [Text(said)] if said else []
        case "tool_call", "started":
            name, call = _call(found)
            return [ToolStarted(text(found, "call_id"), name, obj(call, "args"))]
        case "tool_call", "completed":
            result = obj(_call(found)[1], "result")
            denied = "rejected" in result
            return [ToolEnded(text(found, "call_id"), "success" in result, denied)]
        case "result", _:
            return _result(found)
        case _:
            return []


def _call(found: JsonObject) -> tuple[str, JsonObject]:
    """Return the name of a tool and its call, which stands under a key of that name."""
    calls = obj(found, "tool_call")
    for key in calls:
        match = _TOOL.match(key)
        return (match[1] if match else key), obj(calls, key)
    return "", {}


def _result(found: JsonObject) -> list[Event]:
    said = text(found, "result")
    session: list[Event] = []
    if text(found, "session_id"):
        session.append(SessionSeen(text(found, "session_id")))
    if found.get("is_error") is True or text(found, "subtype") not in {"", "success"}:
        return [*session, FinalEvent(fault=CliFault(said or text(found, "subtype")))]
    return [*session, FinalEvent(said)]


@final
class Cursor:
    """How to call Cursor's CLI, and how to read its output."""

    name = "cursor"
    executable = "cursor-agent"
    install_hint = "curl https://cursor.com/install -fsS | bash"
    config_variable = ""
    cumulative_usage = False
    session_log = None
    # It tells why on the error stream when nothing was begun.
    errors_on_stderr = True
    exit_codes: Mapping[int, Detail] = {}
    wordings: Sequence[Wording] = (
        Wording(Detail.AUTH, re.compile(r"Authentication required|Not logged in|unauthenticated")),
        Wording(Detail.AUTH, re.compile(r"provided API key is invalid")),
        Wording(Detail.QUOTA, re.compile(r"You[’']ve hit your (?:usage|free requests) limit")),
        Wording(Detail.MODEL_UNAVAILABLE, re.compile(r"Cannot use this model")),
    )
    plain_text = PlainText(
        heads=('{"type":',),
        noise=re.compile(r"⚠"),
        openings=re.compile(r"Error: |Authentication required|Not logged in|You[’']ve hit your"),
    )

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt.

        The CLI takes its prompt as an argument, which every user of the machine can read, and which
        has a limit. So the argument names the file that holds the prompt. Usage is not told.
        """
        prompt = request.folder / PROMPT_FILE
        argv = ["cursor-agent", "--print", "--output-format", "stream-json", "--trust"]
        argv += _MODES[request.access]
        if request.model is not None:
            argv += ["--model", request.model]
        if request.session is not None:
            argv += ["--resume", request.session]
        say = f"Read the file {prompt} and do exactly what it says. It is your whole task."
        return Launch(
            argv=(*argv, *request.flags, say),
            environment={"NO_COLOR": "1", "NO_OPEN_BROWSER": "1"},
            files={prompt: request.prompt},
        )

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return CursorParser()


ADAPTER: Final = Cursor()
"""The adapter."""
