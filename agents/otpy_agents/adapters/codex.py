"""OpenAI Codex CLI (`codex`), measured with 0.169.0."""

from __future__ import annotations

import glob
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast, final

from otpy_agents.adapters.adapter import (
    PROMPT_FILE,
    SCHEMA_FILE,
    Access,
    AttemptRequest,
    Parser,
    PlainText,
    Wording,
)
from otpy_agents.adapters.fields import JsonObject, integer, obj, text
from otpy_agents.adapters.session_logs import CodexLog
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

__all__ = ["ADAPTER", "BUILT_IN", "Codex", "configured_provider"]

_SANDBOXES: Final = {
    Access.READ: "read-only",
    Access.EDIT: "workspace-write",
    Access.FULL: "danger-full-access",
}
_ENDLESS: Final = "waiting for network"
_RETRYING: Final = re.compile(rf"Reconnecting\.\.\. (\d+/\d+|{_ENDLESS})(?: \((.*)\))?")
_TOOLS: Final = frozenset(
    {"command_execution", "mcp_tool_call", "file_change", "web_search", "collab_tool_call"}
)
_OF_ITEMS: Final = frozenset({"id", "type", "status", "aggregated_output", "exit_code"})


_NAME: Final = re.compile(r"[\w-]+")
_TWIN: Final = "otpy"
BUILT_IN: Final = "openai"
"""Name of the provider that Codex has without any configuration."""


def configured_provider(
    home: Path, *, key: str | None = None, session: str | None = None
) -> str | None:
    """Return the provider that a configuration chooses, as `AttemptRequest.provider` takes it.

    Args:
        home: The folder of the configuration, such as `~/.codex`.
        key: Value of `CODEX_API_KEY`; None if it is not set.
        session: A session to go on with, which Codex does with the provider it began with alone;
            None for a new one.

    Returns:
        Its name if the configuration defines it itself. Of the built-in one its base URL, or
        `BUILT_IN`, if the login is an API key; None for a login with ChatGPT, whose requests are
        made by the built-in one alone.
    """
    begun = None if session is None else _begun_with(home, session)
    if begun == BUILT_IN:
        return None
    if begun is not None and begun != _TWIN:
        return begun if _NAME.fullmatch(begun) else None
    config: JsonObject
    try:
        config = cast(
            "JsonObject", tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
        )
    except FileNotFoundError:
        config = {}
    except (OSError, ValueError):
        return None
    profile = obj(config, "profiles", text(config, "profile"))
    name = text(profile, "model_provider") or text(config, "model_provider")
    if name in {"", BUILT_IN} and not isinstance(config.get("model_provider", ""), str):
        return None
    if name in {"", BUILT_IN}:
        return (text(config, "openai_base_url") or BUILT_IN) if key or _has_key(home) else None
    return name if _NAME.fullmatch(name) and obj(config, "model_providers", name) else None


def _begun_with(home: Path, session: str) -> str | None:
    """Return the name of the provider that a session began with; None if it is unknown."""
    for path in (home / "sessions").glob(f"*/*/*/rollout-*-{glob.escape(session)}.jsonl"):
        try:
            with path.open(encoding="utf-8") as file:
                meta: object = json.loads(file.readline())
        except (OSError, ValueError):
            return None
        if isinstance(meta, dict):
            return text(obj(cast("JsonObject", meta), "payload"), "model_provider") or None
    return None


def _has_key(home: Path) -> bool:
    try:
        login: object = json.loads((home / "auth.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(login, dict) and bool(text(cast("JsonObject", login), "OPENAI_API_KEY"))


def _without_retries(provider: str) -> list[str]:
    """Return the settings of a provider that leaves the waiting to us."""
    if provider != BUILT_IN and _NAME.fullmatch(provider):
        return [
            *("-c", f'model_provider="{provider}"'),
            *("-c", f"model_providers.{provider}.request_max_retries=0"),
            *("-c", f"model_providers.{provider}.stream_max_retries=0"),
        ]
    # The built-in one cannot be told, but one like it can: same name, same login, same address.
    fields = [
        'name="OpenAI",wire_api="responses",requires_openai_auth=true',
        "request_max_retries=0,stream_max_retries=0",
    ]
    if provider != BUILT_IN:
        fields.append(f"base_url={json.dumps(provider)}")
    return [
        *("-c", f"model_providers.{_TWIN}={{{','.join(fields)}}}"),
        *("-c", f'model_provider="{_TWIN}"'),
    ]


@final
class CodexParser:
    """Reads `codex exec --json`."""

    def __init__(self) -> None:
        self._json = JsonLines()
        self._answer = ""

    def feed(self, line: str) -> Sequence[Event]:
        """Return what `line` says."""
        return [event for found in self._json.feed(line) for event in self._events(found)]

    def _events(self, found: JsonObject) -> list[Event]:
        match text(found, "type"):
            case "thread.started":
                return [SessionSeen(text(found, "thread_id"))]
            case "item.started" | "item.completed" as kind:
                return self._item(kind, obj(found, "item"))
            case "error":
                return [_error(text(found, "message"))]
            case "turn.failed":
                message = text(obj(found, "error"), "message") or "the turn failed"
                return [FinalEvent(fault=CliFault(message))]
            case "turn.completed":
                final = FinalEvent(self._answer)
                return [Spent(_usage(obj(found, "usage"))), final] if "usage" in found else [final]
            case _:
                return []

    def _item(self, kind: str, item: JsonObject) -> list[Event]:
        name = text(item, "type")
        if name == "agent_message" and kind == "item.completed":
            # It comments on its work in several messages; the last one is the answer.
            self._answer = text(item, "text") or self._answer
            return [Text(text(item, "text"))]
        if name not in _TOOLS:
            return []
        call, status = text(item, "id"), text(item, "status")
        if kind == "item.started":
            return [ToolStarted(call, name, _input(item))]
        return [ToolEnded(call, ok=status == "completed", denied=status == "declined")]


def _input(item: JsonObject) -> JsonObject:
    """Return the input of a tool call: its item without the fields that all items have."""
    return {key: value for key, value in item.items() if key not in _OF_ITEMS}


def _error(message: str) -> Event:
    again = _RETRYING.match(message)
    if again is None:
        return Problem(CliFault(message))
    return Retrying(CliFault(again[2] or message), endless=again[1] == _ENDLESS)


def _usage(counts: JsonObject) -> Usage:
    return Usage(
        input=integer(counts, "input_tokens"),
        cached=integer(counts, "cached_input_tokens"),
        output=integer(counts, "output_tokens"),
    )


@final
class Codex:
    """How to call Codex, and how to read its output."""

    name = "codex"
    executable = "codex"
    install_hint = "npm install -g @openai/codex"
    config_variable = "CODEX_HOME"
    # The count goes on over all turns of a thread, resumed ones too.
    cumulative_usage = True
    session_log = CodexLog()
    errors_on_stderr = False
    # 101 is how a program in Rust ends that panicked.
    exit_codes: Mapping[int, Detail] = {2: Detail.USAGE, 101: Detail.CRASH}
    wordings: Sequence[Wording] = (
        Wording(Detail.CONTEXT_OVERFLOW, re.compile(r"Input exceeds the maximum length")),
        # What it makes of HTTP 500; a lack of capacity it calls so.
        Wording(Detail.SERVER_ERROR, re.compile(r"currently experiencing high demand, which may")),
        # Its first pause is a fifth of a second. One that was cut in it, with no reason given, was
        # most likely told by the server to wait, and for longer than we were ready to.
        Wording(Detail.QUOTA, re.compile(r"\A(?:ERROR: )?Reconnecting\.\.\. 1/\d+\s*\Z"), cut=True),
        # Behind it stands what a tool wrote.
        Wording(Detail.UNKNOWN, re.compile(r"\Asandbox denied exec error\b")),
        Wording(Detail.SESSION_INVALID, re.compile(r"Cannot change thread's model provider")),
        Wording(Detail.AUTH, re.compile(r"Access blocked by Cloudflare")),
    )
    plain_text = PlainText(
        heads=('{"type":',),
        noise=re.compile(
            r"tokens used|[\d,]+\s*$|Reading additional input|Reading prompt from stdin"
        ),
        openings=re.compile(r"ERROR: |Not inside a trusted directory"),
    )

    def launch(self, request: AttemptRequest) -> Launch:
        """Return how to start an attempt."""
        argv = ["codex", "exec", "--json", "--skip-git-repo-check"]
        argv += ["--sandbox", _SANDBOXES[request.access]]
        if request.model is not None:
            argv += ["--model", request.model]
        if request.provider is not None:
            argv += _without_retries(request.provider)
        prompt, schema = request.folder / PROMPT_FILE, request.folder / SCHEMA_FILE
        files = {prompt: request.prompt}
        if request.schema:
            argv += ["--output-schema", str(schema)]
            files[schema] = request.schema
        argv += request.flags
        if request.session is not None:
            argv += ["resume", request.session]
        return Launch(
            argv=(*argv, "-"),
            environment={"NO_COLOR": "1"},
            files=files,
            stdin=prompt,
        )

    def parser(self) -> Parser:
        """Return a fresh parser for one stream."""
        return CodexParser()


ADAPTER: Final = Codex()
"""The adapter."""
