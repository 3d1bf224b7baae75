"""OpenAI's Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

from tests.agents.fake_api.dialect import event
from tests.agents.fake_api.openai_errors import REFUSALS
from tests.agents.fake_api.replies import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    Answer,
    Error,
    Refusal,
    UseTool,
    fresh_id,
)

__all__ = ["Responses"]

_USAGE: Final = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": []}


def _item(reply: Answer | UseTool) -> dict[str, object]:
    if isinstance(reply, Answer):
        return {
            "type": "message",
            "id": fresh_id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [_part(reply.text)],
        }
    return {
        "type": "function_call",
        "id": fresh_id("fc"),
        "call_id": fresh_id("call"),
        "name": reply.name,
        "arguments": json.dumps(dict(reply.arguments)),
        "status": "completed",
    }


def _begun(item: Mapping[str, object]) -> dict[str, object]:
    empty: dict[str, object] = {"content": []} if "content" in item else {"arguments": ""}
    return {**item, "status": "in_progress", **empty}


def _text(item: Mapping[str, object], text: str) -> Iterator[dict[str, object]]:
    place: dict[str, object] = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    yield {**place, "type": "response.content_part.added", "part": _part("")}
    yield {**place, "type": "response.output_text.delta", "delta": text}
    yield {**place, "type": "response.output_text.done", "text": text}
    yield {**place, "type": "response.content_part.done", "part": _part(text)}


def _response(name: str, model: str, status: str, output: list[object]) -> dict[str, object]:
    found: dict[str, object] = {"id": name, "object": "response", "created_at": 1}
    return {**found, "status": status, "model": model, "output": output}


def _completed(name: str, model: str, item: Mapping[str, object]) -> dict[str, object]:
    return {**_response(name, model, "completed", [item]), "usage": _USAGE}


@final
class Responses:
    """`POST /v1/responses`."""

    name = "OpenAI Responses"

    def understands(self, path: str) -> bool:
        """Return whether a request for `path` asks the model for an answer."""
        return path.endswith("/responses")

    def wants_stream(self, path: str, body: Mapping[str, object]) -> bool:
        """Return whether the answer is to come as a stream of events."""
        return body.get("stream") is True

    def stream(self, model: str, reply: Answer | UseTool) -> Sequence[str]:
        """Return the events of an answer."""
        item, name = _item(reply), fresh_id("resp")
        events: list[dict[str, object]] = [
            {"type": "response.created", "response": _response(name, model, "in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": _begun(item)},
        ]
        if isinstance(reply, Answer):
            events.extend(_text(item, reply.text))
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": _completed(name, model, item)})
        return [event(data, str(data["type"])) for data in events]

    def document(self, model: str, reply: Answer | UseTool) -> Mapping[str, object]:
        """Return the same answer as one document."""
        return _completed(fresh_id("resp"), model, _item(reply))

    def refusal(self, error: Error) -> Refusal:
        """Return the refusal that OpenAI sends for an error."""
        return REFUSALS[error]
