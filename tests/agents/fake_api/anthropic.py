"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, final

from tests.agents.fake_api.dialect import event
from tests.agents.fake_api.replies import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    Error,
    Refusal,
    UseTool,
    fresh_id,
)

__all__ = ["Messages"]

_USAGE: Final = {
    # Here the cached tokens are counted beside the others, not among them.
    "input_tokens": INPUT_TOKENS - CACHED_TOKENS,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": CACHED_TOKENS,
}


def _refusal(status: int, kind: str, message: str, **headers: str) -> Refusal:
    error = {"type": kind, "message": message}
    body = {"type": "error", "error": error, "request_id": "req_011CVfake429"}
    return Refusal(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


_REFUSALS: Final = {
    Error.UNAUTHORIZED: _refusal(401, "authentication_error", "invalid x-api-key"),
    Error.FORBIDDEN: _refusal(
        403,
        "permission_error",
        "This organization does not have access to the requested resource.",
    ),
    Error.RATE_LIMIT: _refusal(
        429,
        "rate_limit_error",
        "This request would exceed the rate limit for your organization of 40,000 input tokens per"
        " minute. Please reduce the prompt length or the maximum tokens requested.",
        retry_after="12",
    ),
    Error.RATE_LIMIT_LONG: _refusal(
        429,
        "rate_limit_error",
        "Number of request tokens has exceeded your daily rate limit.",
        retry_after="7200",
    ),
    Error.QUOTA: _refusal(
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on 2030-01-01 at"
        " 00:00 UTC.",
    ),
    Error.OVERLOADED: _refusal(529, "overloaded_error", "Overloaded"),
    Error.SERVER_ERROR: _refusal(500, "api_error", "Internal server error"),
    Error.UNAVAILABLE: _refusal(503, "api_error", "Service is not available at the moment."),
    Error.CONTEXT: _refusal(
        400, "invalid_request_error", "prompt is too long: 229841 tokens > 200000 maximum"
    ),
    Error.CREDIT: _refusal(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing"
        " to upgrade or purchase credits.",
    ),
    Error.MODEL: _refusal(404, "not_found_error", "model: claude-of-nowhere-9"),
}


def _content(reply: Answer | UseTool) -> dict[str, object]:
    if isinstance(reply, Answer):
        return {"type": "text", "text": reply.text}
    return {
        "type": "tool_use",
        "id": fresh_id("toolu"),
        "name": reply.name,
        "input": dict(reply.arguments),
    }


def _message(model: str, content: list[object], stop: str | None, output: int) -> dict[str, object]:
    return {
        "id": fresh_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**_USAGE, "output_tokens": output},
    }


def _stop(reply: Answer | UseTool) -> str:
    return "end_turn" if isinstance(reply, Answer) else "tool_use"


@final
class Messages:
    """`POST /v1/messages`."""

    name = "Anthropic Messages"

    def understands(self, path: str) -> bool:
        """Return whether a request for `path` asks the model for an answer."""
        return path.endswith("/messages")

    def wants_stream(self, path: str, body: Mapping[str, object]) -> bool:
        """Return whether the answer is to come as a stream of events."""
        return body.get("stream") is True

    def stream(self, model: str, reply: Answer | UseTool) -> Sequence[str]:
        """Return the events of an answer."""
        if isinstance(reply, Answer):
            empty: dict[str, object] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": reply.text}
        else:
            empty = {**_content(reply), "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(dict(reply.arguments))}
        events: list[dict[str, object]] = [
            {"type": "message_start", "message": _message(model, [], None, 1)},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": _stop(reply), "stop_sequence": None},
                "usage": {"output_tokens": OUTPUT_TOKENS},
            },
            {"type": "message_stop"},
        ]
        return [event(data, str(data["type"])) for data in events]

    def document(self, model: str, reply: Answer | UseTool) -> Mapping[str, object]:
        """Return the same answer as one document."""
        return _message(model, [_content(reply)], _stop(reply), OUTPUT_TOKENS)

    def refusal(self, error: Error) -> Refusal:
        """Return the refusal that Anthropic sends for an error."""
        return _REFUSALS[error]
