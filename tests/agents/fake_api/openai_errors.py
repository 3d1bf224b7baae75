"""The refusals of OpenAI's APIs."""

from __future__ import annotations

from typing import Final

from tests.agents.fake_api.replies import Error, Refusal

__all__ = ["REFUSALS"]


def _refusal(
    status: int, kind: str, code: str | None, message: str, wait: str | None = None
) -> Refusal:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Refusal(status, {"error": error}, {} if wait is None else {"retry-after": wait})


REFUSALS: Final = {
    Error.UNAUTHORIZED: _refusal(
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: sk-fake-*429. You can find your API key in your account.",
    ),
    Error.FORBIDDEN: _refusal(
        403,
        "invalid_request_error",
        None,
        "You have insufficient permissions for this operation. Missing scopes: model.request.",
    ),
    Error.RATE_LIMIT: _refusal(
        429,
        "tokens",
        "rate_limit_exceeded",
        "Rate limit reached for the model in organization org-429 on tokens per min (TPM):"
        " Limit 30000, Used 29500, Requested 1700. Please try again in 2.4s.",
        "3",
    ),
    Error.RATE_LIMIT_LONG: _refusal(
        429,
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for the model in organization org-429 on requests per day (RPD):"
        " Limit 200, Used 200, Requested 1. Please try again in 1h12m0s.",
        "4320",
    ),
    Error.QUOTA: _refusal(
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    Error.OVERLOADED: _refusal(
        529, "server_error", None, "The engine is currently overloaded, please try again later."
    ),
    Error.SERVER_ERROR: _refusal(
        500,
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    Error.UNAVAILABLE: _refusal(
        503, "service_unavailable_error", None, "The service is not available at the moment."
    ),
    Error.CONTEXT: _refusal(
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in"
        " 229841 tokens. Please reduce the length of the messages.",
    ),
    Error.CREDIT: _refusal(
        400,
        "invalid_request_error",
        "billing_hard_limit_reached",
        "Billing hard limit has been reached.",
    ),
    Error.MODEL: _refusal(
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `gpt-of-nowhere` does not exist or you do not have access to it.",
    ),
}
"""One for each error."""
