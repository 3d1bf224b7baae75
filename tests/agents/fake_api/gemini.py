"""Google's Gemini API: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from tests.agents.fake_api.dialect import event
from tests.agents.fake_api.replies import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    Answer,
    Error,
    Refusal,
    UseTool,
)

__all__ = ["GenerateContent"]

_USAGE: Final = {
    "promptTokenCount": INPUT_TOKENS,
    "cachedContentTokenCount": CACHED_TOKENS,
    # Here the reasoning is counted beside the answer, not as part of it.
    "candidatesTokenCount": OUTPUT_TOKENS - REASONING_TOKENS,
    "thoughtsTokenCount": REASONING_TOKENS,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}
_TYPE: Final = "type.googleapis.com/google.rpc"


def _refusal(status: int, name: str, message: str, *details: Mapping[str, object]) -> Refusal:
    error: dict[str, object] = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = list(details)
    return Refusal(status, {"error": error})


def _limit(span: str, wait: str) -> Refusal:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    violation = {
        "quotaMetric": metric,
        "quotaId": f"GenerateRequestsPer{span}PerProjectPerModel-FreeTier",
        "quotaValue": "10",
    }
    return _refusal(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.\n* Quota"
        f" exceeded for metric: {metric}, limit: 10\nPlease retry in {wait}.",
        {"@type": f"{_TYPE}.QuotaFailure", "violations": [violation]},
        {"@type": f"{_TYPE}.RetryInfo", "retryDelay": wait},
    )


_REFUSALS: Final = {
    Error.UNAUTHORIZED: _refusal(
        401,
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login"
        " cookie or other valid authentication credential.",
    ),
    Error.FORBIDDEN: _refusal(
        403,
        "PERMISSION_DENIED",
        "Your API key was reported as leaked. Please use another API key.",
    ),
    Error.RATE_LIMIT: _limit("Minute", "7s"),
    Error.RATE_LIMIT_LONG: _limit("Day", "5400s"),
    Error.QUOTA: _refusal(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    Error.OVERLOADED: _refusal(
        529, "UNAVAILABLE", "The model is overloaded. Please try again later."
    ),
    Error.SERVER_ERROR: _refusal(
        500, "INTERNAL", "An internal error has occurred. Please retry or report it."
    ),
    Error.UNAVAILABLE: _refusal(503, "UNAVAILABLE", "The service is currently unavailable."),
    Error.CONTEXT: _refusal(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1229841) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Error.CREDIT: _refusal(
        400,
        "FAILED_PRECONDITION",
        "Gemini API free tier is not available in your country. Please enable billing on your"
        " project in Google AI Studio.",
    ),
    Error.MODEL: _refusal(
        404,
        "NOT_FOUND",
        "models/gemini-of-nowhere is not found for API version v1beta, or is not supported for"
        " generateContent. Call ListModels to see the list of available models.",
    ),
}


@final
class GenerateContent:
    """`POST /v1beta/models/MODEL:generateContent` and its stream."""

    name = "Gemini"

    def understands(self, path: str) -> bool:
        """Return whether a request for `path` asks the model for an answer."""
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def wants_stream(self, path: str, body: Mapping[str, object]) -> bool:
        """Return whether the answer is to come as a stream of events."""
        return path.endswith(":streamGenerateContent")

    def stream(self, model: str, reply: Answer | UseTool) -> Sequence[str]:
        """Return the events of an answer."""
        head = {"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0}
        return [
            event({"candidates": [head], "modelVersion": model}),
            event(self.document(model, reply)),
        ]

    def document(self, model: str, reply: Answer | UseTool) -> Mapping[str, object]:
        """Return the same answer as one document."""
        if isinstance(reply, Answer):
            part: dict[str, object] = {"text": reply.text}
        else:
            part = {"functionCall": {"name": reply.name, "args": dict(reply.arguments)}}
        content = {"role": "model", "parts": [part]}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": model}

    def refusal(self, error: Error) -> Refusal:
        """Return the refusal that Google sends for an error."""
        return _REFUSALS[error]
