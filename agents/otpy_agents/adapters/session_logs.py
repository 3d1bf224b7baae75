"""Where the four CLIs keep their sessions, and how an answered request stands there."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from otpy_agents.adapters.fields import JsonObject, integer, obj, text
from otpy_agents.adapters.session_log import LineUsage
from otpy_agents.attempt.usage import Usage

__all__ = ["ClaudeLog", "CodexLog", "CopilotLog", "GeminiLog"]

_ID: Final = re.compile(r"\w[\w-]*")
_THREAD: Final = "thread"


def _files(
    variables: Mapping[str, str], variable: str, default: str, session: str, *patterns: str
) -> Sequence[Path]:
    """Return the files that match below a CLI's configuration folder; `{}` is the session."""
    home = variables.get(variable) or variables.get("HOME")
    # What an agent says is its session leads nowhere else.
    if not home or not _ID.fullmatch(session):
        return ()
    folder = Path(home) if variables.get(variable) else Path(home) / default
    name = glob.escape(session)
    return [path for one in patterns for path in sorted(folder.glob(one.format(name)))]


@final
class ClaudeLog:
    """Transcripts, one of the agent and one of each of its helpers, with every answer."""

    hints = ('"usage"',)

    def files(self, session: str, variables: Mapping[str, str]) -> Sequence[Path]:
        """Return the transcript of a session and those of its helpers."""
        patterns = ("projects/*/{}.jsonl", "projects/*/{}/subagents/*.jsonl")
        return _files(variables, "CLAUDE_CONFIG_DIR", ".claude", session, *patterns)

    def answered(self, found: JsonObject) -> LineUsage | None:
        """Return the usage of an answer; an answer of several parts has a line for each."""
        message = obj(found, "message")
        if text(found, "type") != "assistant" or not obj(message, "usage"):
            return None
        counts = obj(message, "usage")
        cached = integer(counts, "cache_read_input_tokens")
        fresh = integer(counts, "input_tokens") + integer(counts, "cache_creation_input_tokens")
        usage = Usage(input=fresh + cached, cached=cached, output=integer(counts, "output_tokens"))
        if usage == Usage():  # its own words in the place of the model's
            return None
        return LineUsage(text(message, "id"), usage, text(message, "model"))


@final
class CodexLog:
    """The rollout of a thread; it holds the thread's total usage."""

    hints = ('"token_usage_record"', '"token_count"', '"turn_context"')

    def files(self, session: str, variables: Mapping[str, str]) -> Sequence[Path]:
        """Return the rollout of a thread."""
        return _files(
            variables, "CODEX_HOME", ".codex", session, "sessions/*/*/*/rollout-*-{}.jsonl"
        )

    def answered(self, found: JsonObject) -> LineUsage | None:
        """Return the thread's total usage."""
        data = obj(found, "payload")
        match text(found, "type"):
            case "turn_context":
                return LineUsage("", Usage(), text(data, "model"))
            case "token_usage_record":
                counts = obj(data, "thread_token_usage")
            case "event_msg" if text(data, "type") == "token_count":
                counts = obj(data, "info", "total_token_usage")
            case _:
                return None
        usage = Usage(
            input=integer(counts, "input_tokens"),
            cached=integer(counts, "cached_input_tokens"),
            output=integer(counts, "output_tokens"),
        )
        return LineUsage(_THREAD, usage) if counts else None


@final
class GeminiLog:
    """The record of a chat, which tells an answer again when its tools have ended."""

    hints = ('"tokens"',)

    def files(self, session: str, variables: Mapping[str, str]) -> Sequence[Path]:
        """Return the record of a chat; its name has the beginning of its id."""
        folder = (
            {"GEMINI_CLI_HOME": f"{home}/.gemini"}
            if (home := variables.get("GEMINI_CLI_HOME"))
            else {}
        )
        return _files(
            {**variables, **folder},
            "GEMINI_CLI_HOME",
            ".gemini",
            session[:8],
            "tmp/*/chats/session-*-{}.jsonl",
        )

    def answered(self, found: JsonObject) -> LineUsage | None:
        """Return the usage of an answer."""
        counts = obj(found, "tokens")
        if text(found, "type") != "gemini" or not counts:
            return None
        usage = Usage(
            input=integer(counts, "input"),
            cached=integer(counts, "cached"),
            output=integer(counts, "output") + integer(counts, "thoughts"),
        )
        return LineUsage(text(found, "id"), usage, text(found, "model"))


@final
class CopilotLog:
    """The events of a session, one of which is for the usage of each request."""

    hints = ('"session.usage_record"',)

    def files(self, session: str, variables: Mapping[str, str]) -> Sequence[Path]:
        """Return the events of a session."""
        return _files(
            variables, "COPILOT_HOME", ".copilot", session, "session-state/{}/events.jsonl"
        )

    def answered(self, found: JsonObject) -> LineUsage | None:
        """Return the usage of a request."""
        if text(found, "type") != "session.usage_record":
            return None
        counts = obj(found, "data", "usage")
        usage = Usage(
            input=integer(counts, "inputTokens"),
            cached=integer(counts, "cacheReadTokens"),
            output=integer(counts, "outputTokens"),
        )
        return LineUsage(text(found, "id"), usage, text(counts, "model"))
