"""GitHub Copilot CLI (`copilot`), measured with 1.0.102."""

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
from otpy_agents.adapters.fields import JsonObject, integer, number, obj, text
from otpy_agents.adapters.session_logs import CopilotLog
from otpy_agents.adapters.stream import JsonLines
from otpy_agents.attempt.events import (
    CliFault,
    Event,
    Problem,
    Retrying,
    SessionSeen,
    Spent,
    Text,
    ToolEnded,
    ToolStarted,
)
from otpy_agents.attempt.events import Final as FinalEvent
from otpy_agents.attempt.failures import Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.sandbox.launch import Launch

__all__ = ["ADAPTER", "Copilot"]

_TOOLS: Final = {
    Access.READ: ("--allow-all-tools", "--deny-tool=write", "--deny-tool=shell"),
    Access.EDIT: ("--allow-all-tools",),
    Access.FULL: ("--allow-all-tools", "--allow-all-paths"),
}
_DENIED: Final = frozenset({"denied", "rejected"})
_REPORT: Final = "copilot-usage.json"
_SESSION_FLAGS: Final = ("-r", "--resume", "--continue", "--session-id", "--connect")


@final
class CopilotParser:
    """Reads `--output-format json`, and the report of its usage behind it."""

    def __init__(self) -> None:
        self._json = JsonLines()
        self._answer = ""
        self._told: set[str] = set()
        self._failure: CliFault | None = None

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in self._events(found)]

    def _events(self, found: JsonObject) -> list[Event]:
        data = obj(found, "data")
        match text(found, "type"):
            case "session.start" | "session.resume" if text(data, "sessionId"):
                return [SessionSeen(text(data, "sessionId"), text(data, "selectedModel"))]
            case "assistant.message_delta":
                self._told.add(text(data, "messageId"))
                return [Text(text(data, "deltaContent"))]
            case "assistant.message":
                return self._message(data)
            case "tool.execution_start":
                return [
                    ToolStarted(text(data, "toolCallId"), text(data, "toolName"), _arguments(data))
                ]
            case "tool.execution_complete":
                code = text(obj(data, "error"), "code")
                ok = data.get("success") is True
                return [ToolEnded(text(data, "toolCallId"), ok, code in _DENIED)]
            case "model.call_failure":
                self._failure = _fault(data, text(data, "errorMessage"))
                return [Retrying(self._failure)]
            case "session.error":
                return [Problem(self._error(data))]
            case "abort":
                reason = text(data, "reason") or "no reason"
                return [Problem(CliFault(f"the session was aborted: {reason}"))]
            case "result":
                return self._result(found)
            case "" if "modelMetrics" in found:
                return [Spent(_usage(obj(found, "modelMetrics")))]
            case _:
                return []

    def _message(self, data: JsonObject) -> list[Event]:
        said = text(data, "content")
        self._answer = said or self._answer
        return [Text(said)] if said and text(data, "messageId") not in self._told else []

    def _error(self, data: JsonObject) -> CliFault:
        fault = _fault(data, text(data, "message"))
        before = self._failure
        # The vendor's own name for the error stands only with the request that failed.
        if before is None or before.status != fault.status:
            return fault
        return CliFault(fault.message, fault.status, (*before.codes, *fault.codes), before.message)

    def _result(self, found: JsonObject) -> list[Event]:
        code = number(found, "exitCode")
        # The words for it came in an event before this one.
        fault = CliFault("") if code else None
        events: list[Event] = []
        if text(found, "sessionId"):
            events.append(SessionSeen(text(found, "sessionId")))
        return [*events, FinalEvent(None if fault else self._answer, fault)]


def _arguments(data: JsonObject) -> JsonObject:
    # A patch comes as it is, and not as an object that holds it.
    patch = text(data, "arguments")
    return {"input": patch} if patch else obj(data, "arguments")


def _usage(models: JsonObject) -> Usage:
    total = Usage()
    for model in models.values():
        counts = obj(model, "usage")
        total += Usage(
            input=integer(counts, "inputTokens"),
            cached=integer(counts, "cacheReadTokens"),
            output=integer(counts, "outputTokens"),
        )
    return total


def _fault(data: JsonObject, message: str) -> CliFault:
    codes = (text(data, "errorCode"), text(data, "errorType"), text(data, "failureKind"))
    return CliFault(
        message,
        integer(data, "statusCode") or None,
        tuple(code for code in codes if code),
    )


@final
class Copilot:
    """How to call Copilot CLI, and how to read its output."""

    name = "copilot"
    executable = "copilot"
    install_hint = "npm install -g @github/copilot"
    config_variable = "COPILOT_HOME"
    # The report goes on over all runs of a session.
    cumulative_usage = True
    session_log = CopilotLog()
    errors_on_stderr = False
    exit_codes: Mapping[int, Detail] = {}
    wordings: Sequence[Wording] = (
        Wording(Detail.AUTH, re.compile(r"Access denied by policy settings")),
        Wording(Detail.NO_RESULT, re.compile(r"\ANo response was returned")),
        Wording(Detail.CONTEXT_OVERFLOW, re.compile(r"exceeds the model's prompt budget")),
    )
    plain_text = PlainText(
        heads=('{"type":',),
        noise=re.compile(
            r"● |(?:Changes|Duration|Resume|Tokens|AI Credits|Requests|Total usage est|Session"
            r"|Usage by model|Total (?:duration|code))\b|\s{2,}\S+\s+[\d.]+k? (?:in|input)\b"
        ),
        openings=re.compile(r"Failed to get response from the AI model|Sorry, you[’']ve hit"),
    )

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt."""
        argv = ["copilot", "--output-format", "json", "--no-ask-user", *_TOOLS[request.access]]
        if request.model is not None:
            argv += ["--model", request.model]
        session = request.new_session(*_SESSION_FLAGS)
        if request.session is not None:
            argv.append(f"--resume={request.session}")
        elif session is not None:
            # Its output tells the session at the very end.
            argv.append(f"--session-id={session}")
        # What it spent stands nowhere in its output.
        report, prompt = request.folder / _REPORT, request.folder / PROMPT_FILE
        argv.append(f"--usage-output-file={report}")
        return Launch(
            argv=(*argv, *request.flags),
            environment={"COPILOT_AUTO_UPDATE": "false", "NO_COLOR": "1"},
            files={prompt: request.prompt},
            stdin=prompt,
            report=report,
            session=session,
        )

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return CopilotParser()


ADAPTER: Final = Copilot()
"""The adapter."""
