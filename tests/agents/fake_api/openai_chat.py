"""OpenAI's chat completions, an API that many other vendors speak too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, final

from tests.agents.fake_api.dialect import event
from tests.agents.fake_api.openai_errors import REFUSALS
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

__all__ = ["ChatCompletions"]

_USAGE: Final = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
}


def _message(reply: Answer | UseTool) -> dict[str, object]:
    if isinstance(reply, Answer):
        return {"role": "assistant", "content": reply.text}
    function = {"name": reply.name, "arguments": json.dumps(dict(reply.arguments))}
    call = {"index": 0, "id": fresh_id("call"), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _finish(reply: Answer | UseTool) -> str:
    return "stop" if isinstance(reply, Answer) else "tool_calls"


@final
class ChatCompletions:
    """`POST /v1/chat/completions`."""

    name = "OpenAI chat completions"

    def understands(self, path: str) -> bool:
        """Return whether a request for `path` asks the model for an answer."""
        return path.endswith("/chat/completions")

    def wants_stream(self, path: str, body: Mapping[str, object]) -> bool:
        """Return whether the answer is to come as a stream of events."""
        return body.get("stream") is True

    def stream(self, model: str, reply: Answer | UseTool) -> Sequence[str]:
        """Return the events of an answer."""
        head: dict[str, object] = {"id": fresh_id("chatcmpl"), "object": "chat.completion.chunk"}
        head |= {"created": 1, "model": model}
        said = {"index": 0, "delta": _message(reply), "finish_reason": None}
        done: dict[str, object] = {"index": 0, "delta": {}, "finish_reason": _finish(reply)}
        return [
            event({**head, "choices": [said]}),
            event({**head, "choices": [done]}),
            event({**head, "choices": [], "usage": _USAGE}),
            event("[DONE]"),
        ]

    def document(self, model: str, reply: Answer | UseTool) -> Mapping[str, object]:
        """Return the same answer as one document."""
        choice = {"index": 0, "message": _message(reply), "finish_reason": _finish(reply)}
        head: dict[str, object] = {
            "id": fresh_id("chatcmpl"),
            "object": "chat.completion",
            "created": 1,
        }
        return {**head, "model": model, "choices": [choice], "usage": _USAGE}

    def refusal(self, error: Error) -> Refusal:
        """Return the refusal that OpenAI sends for an error."""
        return REFUSALS[error]
