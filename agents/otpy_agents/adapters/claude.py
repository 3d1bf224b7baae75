"""Claude Code (`claude`), measured with 2.1.197."""

from __future__ import annotations

import json
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
from otpy_agents.adapters.fields import JsonObject, integer, items, number, obj, objects, text
from otpy_agents.adapters.session_logs import ClaudeLog
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

__all__ = ["ADAPTER", "Claude"]

_SESSION_FLAGS: Final = ("-r", "--resume", "-c", "--continue", "--session-id", "--from-pr")
_MODES: Final = {
    Access.READ: "default",
    Access.EDIT: "acceptEdits",
    Access.FULL: "bypassPermissions",
}
# Author of messages that Claude Code writes itself, into the place where the model speaks.
_ITSELF: Final = "<synthetic>"
_ERROR_KINDS: Final = frozenset({"success", "completed"})
_LIMIT: Final = (
    r"(?:Claude (?:AI |Code )?usage limit reached|You(?:[’']ve| have) (?:hit|reached) your"
    r" [\w -]{0,40}limits?"
    r"|You[’']re out of extra usage|(?:\d+-hour|(?:\w+ )?weekly|Session) limit reached)"
)
# A moment is short; a sentence in which the model quotes such a line goes on.
_MOMENT: Final = r"(?: at| on)? [\w ,:]{1,24}(?: ?\([\w/ +-]{1,40}\))?(?: [·∙] /[^\n]{1,60})?"


@final
class ClaudeParser:
    """Reads `--output-format stream-json`, and `json`."""

    def __init__(self) -> None:
        self._json = JsonLines()
        self._own_words = ""
        self._resets = ""

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in self._events(found)]

    def _events(self, found: JsonObject) -> list[Event]:
        match text(found, "type"):
            case "system":
                return self._system(found)
            case "assistant":
                return self._assistant(found)
            case "user":
                return [
                    ToolEnded(text(part, "tool_use_id"), ok=part.get("is_error") is not True)
                    for part in objects(obj(found, "message"), "content")
                    if text(part, "type") == "tool_result"
                ]
            case "rate_limit_event":
                limit = obj(found, "rate_limit_info")
                if text(limit, "status") == "rejected" and "resetsAt" in limit:
                    self._resets = f"resets_at={integer(limit, 'resetsAt')}"
                return []
            case "result":
                return self._result(found)
            case _:
                return []

    def _system(self, found: JsonObject) -> list[Event]:
        if text(found, "subtype") == "init":
            return [SessionSeen(text(found, "session_id"), text(found, "model"))]
        if text(found, "subtype") == "api_retry":
            error = text(found, "error")
            status = integer(found, "error_status") or None
            return [Retrying(CliFault(_reason(found, error), status, (error,)))]
        return []

    def _assistant(self, found: JsonObject) -> list[Event]:
        message = obj(found, "message")
        parts = objects(message, "content")
        said = "".join(text(part, "text") for part in parts)
        if text(message, "model") == _ITSELF or text(found, "error"):
            self._own_words = said
            return [Problem(CliFault(said, codes=(text(found, "error"),), hints=self._resets))]
        self._own_words = ""
        events: list[Event] = [
            ToolStarted(text(part, "id"), text(part, "name"), obj(part, "input"))
            for part in parts
            if text(part, "type") == "tool_use"
        ]
        # What an agent's own helpers say to it is not part of the answer.
        if said and found.get("parent_tool_use_id") is None:
            events.insert(0, Text(said))
        return events

    def _result(self, found: JsonObject) -> list[Event]:
        structured = found.get("structured_output")
        # With a schema the answer stands apart, and the text may be anything.
        answer = text(found, "result") if structured is None else json.dumps(structured)
        subtype = text(found, "subtype")
        failed = found.get("is_error") is True or subtype.startswith("error")
        fault = None
        # Some versions give out their own words as an answer and call it a success.
        if failed or (answer and answer == self._own_words):
            errors = "; ".join(item for item in items(found, "errors") if isinstance(item, str))
            kinds = (text(found, "terminal_reason"), subtype)
            fault = CliFault(
                answer or errors or subtype,
                integer(found, "api_error_status") or None,
                tuple(kind for kind in kinds if kind and kind not in _ERROR_KINDS),
                self._resets,
            )
        denied = tuple(text(item, "tool_name") for item in objects(found, "permission_denials"))
        events: list[Event] = []
        if text(found, "session_id"):
            events.append(SessionSeen(text(found, "session_id")))
        if "usage" in found:
            events.append(Spent(_usage(found)))
        return [*events, FinalEvent(None if fault else answer, fault, denied)]


def _reason(found: JsonObject, error: str) -> str:
    """Return why a request is repeated; some answers never came, and then it does not say."""
    if error != "unknown":
        return error
    again, most = integer(found, "attempt"), integer(found, "max_retries")
    return (
        f"no reason given for retry {again} of {most}" if again else "no reason given for a retry"
    )


def _usage(found: JsonObject) -> Usage:
    cost = number(found, "total_cost_usd")
    total = Usage(cost_usd=cost)
    # By model it counts every request. `usage` leaves out those of its helpers, and an answer that
    # it had to ask for a second time because its stream was cut.
    for counts in map(obj, obj(found, "modelUsage").values()):
        cached = integer(counts, "cacheReadInputTokens")
        fresh = integer(counts, "inputTokens") + integer(counts, "cacheCreationInputTokens")
        total += Usage(input=fresh + cached, cached=cached, output=integer(counts, "outputTokens"))
    if total.input or total.output:
        return total
    counts = obj(found, "usage")
    cached = integer(counts, "cache_read_input_tokens")
    fresh = integer(counts, "input_tokens") + integer(counts, "cache_creation_input_tokens")
    return Usage(
        input=fresh + cached,
        cached=cached,
        output=integer(counts, "output_tokens"),
        cost_usd=cost,
    )


@final
class Claude:
    """How to call Claude Code, and how to read its output."""

    name = "claude"
    executable = "claude"
    install_hint = "npm install -g @anthropic-ai/claude-code"
    config_variable = "CLAUDE_CONFIG_DIR"
    cumulative_usage = False
    session_log = ClaudeLog()
    errors_on_stderr = False
    # It exits with 1 whatever happened.
    exit_codes: Mapping[int, Detail] = {}
    wordings: Sequence[Wording] = (
        Wording(Detail.USAGE, re.compile(r"root/sudo privileges")),
        Wording(Detail.PROTOCOL, re.compile(r"empty or malformed response")),
        Wording(Detail.CONTEXT_OVERFLOW, re.compile(r"piped stdin input exceeds")),
    )
    plain_text = PlainText(
        heads=('{"type":', '[{"type":'),
        noise=re.compile(r"\[?Warn|⚠"),
        openings=re.compile(
            rf"{_LIMIT}|API Error\b|Credit balance is too low|Invalid API key|Not logged in"
            r"|Please run /login|Failed to authenticate|Prompt is too long|Request timed out"
            r"|There[’']s an issue with the selected model|Unable to connect to API|OAuth token"
            r"|Your (?:organization|account)\b|Execution error|Error: |Request too large"
            r"|Claude \w+ is not available|Connection error"
        ),
        # Versions up to 2.1 wrote these as an answer and exited with 0.
        notices=re.compile(
            rf"{_LIMIT}(?:\|\d{{10}}|[^\n]{{0,120}}resets?{_MOMENT})?\.?"
            r"|API Error: \d{3} \{[^\n]*\}"
            r"|Credit balance is too low"
            r"|Invalid API key · (?:Fix external API key|Please run /login)"
            r"|Not logged in · (?:Please r|R)un (?:/login|claude[\w /-]{0,30})|Prompt is too long"
        ),
    )

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt."""
        argv = ["claude", "--print", "--output-format", "stream-json", "--verbose"]
        argv += ["--permission-mode", _MODES[request.access]]
        if request.model is not None:
            argv += ["--model", request.model]
        session = request.new_session(*_SESSION_FLAGS)
        if request.session is not None:
            argv += ["--resume", request.session]
        elif session is not None:
            argv += ["--session-id", session]
        if request.budget_usd is not None:
            argv += ["--max-budget-usd", f"{request.budget_usd:g}"]
        if request.schema:
            argv += ["--json-schema", request.schema]
        prompt = request.folder / PROMPT_FILE
        return Launch(
            argv=(*argv, *request.flags),
            environment={
                # Ten retries of its own would hide three minutes of waiting inside one attempt.
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "NO_COLOR": "1",
            },
            files={prompt: request.prompt},
            stdin=prompt,
            session=session,
        )

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return ClaudeParser()


ADAPTER: Final = Claude()
"""The adapter."""
