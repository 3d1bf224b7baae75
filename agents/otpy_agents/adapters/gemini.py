"""Gemini CLI (`gemini`), measured with 0.61.0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast, final

from otpy_agents.adapters.adapter import (
    PROMPT_FILE,
    Access,
    AttemptRequest,
    Parser,
    PlainText,
    Wording,
)
from otpy_agents.adapters.fields import JsonObject, integer, obj, text
from otpy_agents.adapters.session_logs import GeminiLog
from otpy_agents.adapters.stream import JsonLines
from otpy_agents.adapters.vendor_codes import by_status
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

__all__ = ["ADAPTER", "Gemini"]

_MODES: Final = {Access.READ: "default", Access.EDIT: "auto_edit", Access.FULL: "yolo"}
# It repeats the prompt in its output, and ends with `process.exit`, at which Node drops what does
# not fit into the pipe: all that follows the prompt. So a long one needs an output that blocks.
_LONG: Final = 8 * 1024
_READS: Final = 8 * 1024 * 1024
_BLOCKING: Final = "blocking.cjs"
_DEFAULTS: Final = "gemini-defaults.json"
_SESSION_FLAGS: Final = ("-r", "--resume", "--session-id", "--session-file")
_DENIED: Final = re.compile(
    r"denied by policy|cancelled by user|requires user confirmation", re.IGNORECASE
)

_OWN_CODES: Final = {
    41: Detail.AUTH,
    42: Detail.USAGE,
    44: Detail.USAGE,
    52: Detail.USAGE,
    53: Detail.BUDGET,
    55: Detail.USAGE,
}


def _exit_codes() -> Mapping[int, Detail]:
    # In JSON mode it exits with the HTTP status, of which the system keeps the low eight bits. A
    # status that says too little, as 400, is listed too: its code is not a signal.
    codes = {
        status % 256: by_status(status) or Detail.UNKNOWN for status in (*range(400, 505), 529)
    }
    return codes | _OWN_CODES


@final
class GeminiParser:
    """Reads `--output-format stream-json`, and the document of `json`."""

    def __init__(self) -> None:
        self._json = JsonLines()

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in self._events(found)]

    def _events(self, found: JsonObject) -> list[Event]:
        match found.get("type"):
            case "init":
                return [SessionSeen(text(found, "session_id"), text(found, "model"))]
            case "message":
                said = text(found, "content")
                return [Text(said)] if said and text(found, "role") == "assistant" else []
            case "tool_use":
                return [
                    ToolStarted(
                        text(found, "tool_id"), text(found, "tool_name"), obj(found, "parameters")
                    )
                ]
            case "tool_result":
                return [_tool_ended(found)]
            case "error":
                if text(found, "severity") == "warning":
                    return []
                return [Problem(_fault(found))]
            case "result":
                return _result(found, None)
            case None if "response" in found or isinstance(found.get("error"), dict | str):
                return _result(found, text(found, "response"))
            case _:
                return []


def _tool_ended(found: JsonObject) -> ToolEnded:
    error = obj(found, "error")
    denied = text(error, "type") == "policy_violation" or bool(
        _DENIED.search(text(error, "message"))
    )
    return ToolEnded(text(found, "tool_id"), text(found, "status") == "success", denied)


def _fault(error: JsonObject) -> CliFault:
    code = integer(error, "code")
    # The same field holds an HTTP status or an exit code.
    status = code if 400 <= code <= 599 else None  # noqa: PLR2004
    codes = (text(error, "type"), text(error, "code"))
    return CliFault(text(error, "message"), status, tuple(name for name in codes if name))


def _result(found: JsonObject, answer: str | None) -> list[Event]:
    events: list[Event] = []
    if text(found, "session_id"):
        events.append(SessionSeen(text(found, "session_id")))
    stats = obj(found, "stats")
    if stats:
        events.append(Spent(_usage(stats)))
    error = found.get("error")
    failed = bool(error) or text(found, "status") == "error"
    fault = _fault(obj(error) or {"message": error}) if failed else None
    refused = integer(obj(stats, "tools", "totalDecisions"), "reject")
    denied = ("a tool",) if refused else ()
    return [*events, FinalEvent(answer, fault, denied)]


def _usage(stats: JsonObject) -> Usage:
    if "input_tokens" in stats:
        prompt = integer(stats, "input_tokens")
        return Usage(
            input=prompt,
            cached=integer(stats, "cached"),
            # The total holds what was spent on thinking, which it counts nowhere else.
            output=max(integer(stats, "output_tokens"), integer(stats, "total_tokens") - prompt),
        )
    total = Usage()
    for model in obj(stats, "models").values():
        counts = obj(model, "tokens")
        total += Usage(
            input=integer(counts, "prompt"),
            cached=integer(counts, "cached"),
            output=integer(counts, "candidates") + integer(counts, "thoughts"),
        )
    return total


@final
class Gemini:
    """How to call Gemini CLI, and how to read its output."""

    name = "gemini"
    executable = "gemini"
    install_hint = "npm install -g @google/gemini-cli"
    config_variable = "GEMINI_CLI_HOME"
    cumulative_usage = False
    session_log = GeminiLog()
    errors_on_stderr = True
    exit_codes = _exit_codes()
    wordings: Sequence[Wording] = (
        Wording(Detail.SESSION_INVALID, re.compile(r"Use --list-sessions to see")),
        # All that it asks the vendor for by name is its model.
        Wording(Detail.MODEL_UNAVAILABLE, re.compile(r"Requested entity was not found")),
    )
    plain_text = PlainText(
        heads=('{"type":', '{\n  "session_id":', '{\n  "response":', '{\n  "error":'),
        noise=re.compile(
            r"Ripgrep is not|\[STARTUP\]|Attempt \d+ failed|Loaded cached credentials"
            r"|An unexpected critical error occurred|Data collection is|YOLO mode is"
            r"|Suggested retry after [^.]*\.\. Retrying|Full report available at"
        ),
        openings=re.compile(r"\[API Error|Error when talking to Gemini API|Please set an Auth"),
    )

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt.

        Raises:
            InvalidRequest: The prompt is longer than what it reads; it would cut it.
        """
        size = len(request.prompt.encode())
        if size > _READS:
            raise InvalidRequest("prompt", f"{size:,} bytes", f"at most {_READS:,}")
        argv = ["gemini", "--output-format", "stream-json", "--skip-trust"]
        argv += ["--approval-mode", _MODES[request.access]]
        if request.model is not None:
            argv += ["--model", request.model]
        session = request.new_session(*_SESSION_FLAGS)
        if request.session is not None:
            argv += ["--resume", request.session]
        elif session is not None:
            argv += ["--session-id", session]
        defaults, prompt = request.folder / _DEFAULTS, request.folder / PROMPT_FILE
        # Ten retries of its own would hide four minutes of waiting inside one attempt. Defaults and
        # not overrides: what the user set in his own settings stays.
        settings = cast("JsonObject", {"general": {"maxAttempts": 1}})
        environment = {"GEMINI_CLI_SYSTEM_DEFAULTS_PATH": str(defaults), "NO_COLOR": "1"}
        files = {defaults: json.dumps(settings), prompt: request.prompt}
        if len(request.prompt) > _LONG:
            blocking = request.folder / _BLOCKING
            files[blocking] = "process.stdout._handle?.setBlocking?.(true);\n"
            environment["NODE_OPTIONS"] = f'--require "{blocking}"'
        return Launch(
            argv=(*argv, *request.flags),
            environment=environment,
            files=files,
            stdin=prompt,
            session=session,
        )

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return GeminiParser()


ADAPTER: Final = Gemini()
"""The adapter."""
