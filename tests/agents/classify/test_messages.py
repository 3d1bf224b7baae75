"""Failures without a recorded sample, built from vendors' documentation and users' reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from otpy_agents.run import classify
from tests.agents import cli_worlds as world

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def anthropic(kind: str, message: str) -> str:
    """Return an error body of Anthropic's API."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}})


def openai(code: str | None, kind: str, message: str) -> str:
    """Return an error body of OpenAI's API."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


CLAUDE = [
    ("Invalid API key · Please run /login", 401, "auth"),
    ("Not logged in · Please run /login", None, "auth"),
    ("OAuth token has expired. Please obtain a new token or refresh.", 401, "auth"),
    ("OAuth token revoked · Please run /login", 403, "auth"),
    ("Your organization has been disabled.", 400, "auth"),
    (f"API Error: 401 {anthropic('authentication_error', 'invalid x-api-key')}", None, "auth"),
    (f"API Error: 403 {anthropic('permission_error', 'no permission')}", None, "auth"),
    ("Credit balance is too low", 400, "billing"),
    (f"API Error: 402 {anthropic('billing_error', 'There is an issue')}", None, "billing"),
    ("Claude AI usage limit reached|1767225600", 429, "quota"),
    ("Claude usage limit reached. Your limit will reset at 3pm (Europe/Berlin).", 429, "quota"),
    ("You've hit your limit · resets 3am (UTC)", 429, "quota"),
    ("You’ve hit your session limit · resets 7:30pm", None, "quota"),
    ("You've hit your weekly limit · resets Oct 7 at 5am (UTC)", None, "quota"),
    ("You've reached your Opus limit · resets Monday", None, "quota"),
    ("5-hour limit reached ∙ resets 5am", None, "quota"),
    ("Opus weekly limit reached ∙ resets Oct 6, 1pm", None, "quota"),
    ("You're out of extra usage · resets 3pm", None, "quota"),
    ("You have reached your specified API usage limits.", 400, "quota"),
    ("API Error: Request rejected (429) · would exceed your account's rate limit", 429, "quota"),
    (f"API Error: 429 {anthropic('rate_limit_error', 'slow down please')}", None, "rate_limit"),
    ("API Error: Request rejected (429) · this may be temporary", 429, "rate_limit"),
    (f"API Error: 529 {anthropic('overloaded_error', 'Overloaded')}", None, "overloaded"),
    ("API Error: Repeated 529 Overloaded errors", None, "overloaded"),
    ("API Error: 503 Service unavailable.", 503, "overloaded"),
    (f"API Error: 500 {anthropic('api_error', 'Internal server error')}", None, "server_error"),
    ("API Error: 502 <html>", 502, "server_error"),
    ("Request timed out", None, "network"),
    ("API Error: Connection error.", None, "network"),
    ("Unable to connect to API (ECONNREFUSED)", None, "network"),
    ("API Error: The socket connection was closed unexpectedly. fetch failed", None, "network"),
    ("Unable to connect to API: SSL certificate verification failed", None, "network"),
    ("API Error: Unexpected token '<', \"<html>\" is not valid JSON", None, "protocol"),
    ("API returned an empty or malformed response (HTTP 200)", None, "protocol"),
    ("Prompt is too long", 400, "context_overflow"),
    (
        f"API Error: 413 {anthropic('request_too_large', 'Request exceeds')}",
        None,
        "context_overflow",
    ),
    ("input length and `max_tokens` exceed context limit: 190000 + 21333", 400, "context_overflow"),
    (
        "There's an issue with the selected model (x). It may not exist or you may not have access",
        404,
        "model_unavailable",
    ),
    (f"API Error: 404 {anthropic('not_found_error', 'model: x')}", None, "model_unavailable"),
    ("Claude Opus is not available with the Claude Pro plan.", None, "model_unavailable"),
]


@pytest.mark.parametrize(("message", "status", "detail"), CLAUDE)
def test_claude_errors_are_told_apart(message: str, status: int | None, detail: str) -> None:
    """The known failure messages of Claude Code are understood in each of its formats."""
    stream = world.claude(message, status=status)
    document = stream.splitlines(keepends=True)[-1]
    for stdout in (
        stream,
        document,
        json.dumps([json.loads(line) for line in stream.split("\n")[:-1]]),
    ):
        verdict = classify("claude", exit_code=1, stdout=stdout, stderr="")
        assert (verdict.detail, verdict.message) == (detail, message)


PLAIN_CLAUDE = [
    case
    for case in CLAUDE
    if case[0].startswith(("API Error", "Claude AI", "You", "5-h", "Opus w"))
]


@pytest.mark.parametrize(("message", "_status", "detail"), PLAIN_CLAUDE)
def test_claude_errors_are_told_apart_in_plain_mode(
    message: str, _status: int | None, detail: str
) -> None:
    """In plain mode Claude Code writes its errors in place of the answer."""
    verdict = classify("claude", exit_code=1, stdout=f"{message}\n", stderr="")
    assert verdict.detail == detail


CODEX = [
    ("unexpected status 401 Unauthorized: Missing bearer or basic authentication", "auth"),
    ("unexpected status 403 Forbidden: , request id: req_429429", "auth"),
    (
        "Your access token could not be refreshed because your refresh token was already used",
        "auth",
    ),
    ("Missing environment variable: `OPENAI_API_KEY`. Create an API key", "auth"),
    (openai("invalid_api_key", "invalid_request_error", "Incorrect API key provided"), "auth"),
    ("You've hit your usage limit. Upgrade to Pro or try again at 3:45 PM.", "quota"),
    ("You've hit your usage limit. Try again at Oct 7th, 2026 3:45 PM.", "quota"),
    ("You've hit your usage limit. Visit the site to purchase more credits", "quota"),
    ("Quota exceeded. Check your plan and billing details.", "quota"),
    (openai("insufficient_quota", "insufficient_quota", "You exceeded your quota"), "quota"),
    (openai("usage_limit_reached", "usage_limit_reached", "The limit is reached"), "quota"),
    ("exceeded retry limit, last status: 429 Too Many Requests, request id: 500", "rate_limit"),
    (
        "stream disconnected before completion: Rate limit reached for gpt-5 on tokens per min",
        "rate_limit",
    ),
    (openai("rate_limit_exceeded", "tokens", "Rate limit reached"), "rate_limit"),
    ("Selected model is at capacity. Please try a different model.", "overloaded"),
    (openai("server_is_overloaded", "server_error", "Overloaded"), "overloaded"),
    ("unexpected status 503 Service Unavailable: upstream", "overloaded"),
    ("exceeded retry limit, last status: 500 Internal Server Error", "server_error"),
    ("We're currently experiencing high demand, which may cause temporary errors.", "server_error"),
    ("unexpected status 504 Gateway Timeout: , url: http://x:4290/", "server_error"),
    ("stream disconnected before completion: stream closed before response.completed", "network"),
    ("Connection failed: error sending request for url (http://x/v1/responses)", "network"),
    ("Error while reading the server response: connection reset by peer", "network"),
    ("timeout waiting for the stream", "network"),
    ("Codex ran out of room in the model's context window. Start anew.", "context_overflow"),
    (openai("context_length_exceeded", "invalid_request_error", "Too much"), "context_overflow"),
    (openai("model_not_found", "invalid_request_error", "No such model"), "model_unavailable"),
    (
        '{"detail":"The \'x\' model is not supported when using Codex with a ChatGPT account."}',
        "model_unavailable",
    ),
    ("To use Codex with your ChatGPT plan, upgrade to Plus: https://x", "billing"),
    (openai("billing_hard_limit_reached", "insufficient_quota", "Reached"), "billing"),
    ("no conversation with id: 7", "session_invalid"),
    ("thread/resume failed: no rollout found for thread id 0000", "session_invalid"),
    ("thread 'main' panicked at src/main.rs:1:2", "crash"),
]


@pytest.mark.parametrize(("message", "detail"), CODEX)
def test_codex_errors_are_told_apart(message: str, detail: str) -> None:
    """The known failure messages of Codex are understood, as JSON and as text."""
    verdict = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    assert (verdict.detail, verdict.message) == (detail, message)
    shown = f"OpenAI Codex v0.169.0\n--------\nuser\nsay hi\nERROR: {message}\n"
    assert classify("codex", exit_code=1, stdout="", stderr=shown).detail == detail


GEMINI = [
    (world.google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid one."), "auth"),
    (world.google(401, "UNAUTHENTICATED", "Request had invalid credentials."), "auth"),
    (world.google(403, "PERMISSION_DENIED", "The caller does not have permission"), "auth"),
    (world.google(400, "FAILED_PRECONDITION", "Precondition check failed."), "billing"),
    ("You have exhausted your daily quota on this model.", "quota"),
    ("You have exhausted your capacity on this model. Your quota will reset after 2h3m.", "quota"),
    (
        world.google(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota",
            {"@type": QUOTA_FAILURE, "violations": [{"quotaId": "RequestsPerDayPerProject"}]},
            {"@type": RETRY_INFO, "retryDelay": "31s"},
        ),
        "quota",
    ),
    (
        world.google(
            429,
            "RESOURCE_EXHAUSTED",
            "No capacity left",
            {"@type": ERROR_INFO, "reason": "QUOTA_EXHAUSTED", "domain": "cloudcode"},
        ),
        "quota",
    ),
    (
        world.google(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota. Please retry in 31.2s.",
            {"@type": QUOTA_FAILURE, "violations": [{"quotaId": "RequestsPerMinutePerModel"}]},
        ),
        "rate_limit",
    ),
    (
        "RESOURCE_EXHAUSTED: Quota exceeded for quota metric requests, limit per minute",
        "rate_limit",
    ),
    ("Resource has been exhausted (e.g. check quota).", "rate_limit"),
    ("got status: 429 Too Many Requests. {}", "rate_limit"),
    (world.google(503, "UNAVAILABLE", "The model is overloaded."), "overloaded"),
    (
        world.google(503, "UNAVAILABLE", "This model is currently experiencing high demand."),
        "overloaded",
    ),
    ("got status: UNAVAILABLE. try later", "overloaded"),
    (world.google(500, "INTERNAL", "An internal error has occurred."), "server_error"),
    (world.google(504, "DEADLINE_EXCEEDED", "Not finished in time"), "server_error"),
    ("Deadline expired before operation could complete.", "server_error"),
    ("exception TypeError: fetch failed sending request", "network"),
    ("request to https://x failed, reason: getaddrinfo ENOTFOUND x", "network"),
    ("Incomplete JSON segment at the end", "protocol"),
    ("Model stream ended without a finish reason.", "protocol"),
    (
        world.google(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum"),
        "context_overflow",
    ),
    (world.google(404, "NOT_FOUND", "models/x is not found for API version"), "model_unavailable"),
    ("Requested entity was not found.", "model_unavailable"),
    ('{"error":{"message":"too fast","type":"None","code":"429"}}', "rate_limit"),
    ("Reached max session turns for this session.", "budget"),
]


@pytest.mark.parametrize(("message", "detail"), GEMINI)
def test_gemini_errors_are_told_apart(message: str, detail: str) -> None:
    """The known failure messages of Gemini CLI are understood, on both streams."""
    document = world.gemini(message)
    noise = f"Ripgrep is not available.\nError when talking to Gemini API Full report: {message}\n"
    verdict = classify("gemini", exit_code=1, stdout="", stderr=noise + document)
    assert (verdict.detail, verdict.message) == (detail, message)
    stream = world.gemini_stream(message)
    assert classify("gemini", exit_code=1, stdout=stream, stderr="").detail == detail
    shown = f"[API Error: {message}]\nAn unexpected critical error occurred:[object Object]\n"
    assert classify("gemini", exit_code=1, stdout="", stderr=shown).detail == detail


COPILOT = [
    ("Sorry, you've hit a rate limit that restricts requests. Try again in 2 hours.", 429, "quota"),
    ("Sorry, you've hit a rate limit. Please try again in 40 seconds.", 429, "rate_limit"),
    ('Model call failed: {"message":"slow","code":"rate_limited"}', None, "rate_limit"),
    ('402 {"error":{"message":"You have no quota","code":"quota_exceeded"}}', 402, "quota"),
    ("Execution failed: 402 You have no quota", None, "quota"),
    ("You've reached your additional usage limit for your plan.", None, "quota"),
    ("You have exceeded your monthly quota. Please upgrade your plan.", None, "quota"),
    ("You have reached your premium request allowance for this month.", None, "quota"),
    ("CAPIError: 401 401 Invalid auto-mode selector", None, "auth"),
    ("retried 5 times Last error: CAPIError: 503 503 not now", None, "overloaded"),
    ("CAPIError: 429 429 slow down", None, "rate_limit"),
    ("CAPIError: 502 502 the gateway", None, "server_error"),
    ("Authentication failed with provider at http://x/v1 (HTTP 401).", 401, "auth"),
    ("Access denied by policy settings", 403, "auth"),
    ("Session token expired and the request could not be retried.", None, "auth"),
    ("retried 5 times Last error: 500 The server had an error", 500, "server_error"),
    ("retried 5 times Last error: 503 not able to handle it", 503, "overloaded"),
    ("retried 5 times Last error: 529 Overloaded", 529, "overloaded"),
    ("The provider rejected the prompt as too long.", 400, "context_overflow"),
    ('Model "x" not found on provider', 404, "model_unavailable"),
    ("Last error: body was not valid JSON: expected value at line 1 column 1", None, "protocol"),
    ("Failed to get response; Last error: fetch failed", None, "network"),
]


@pytest.mark.parametrize(("message", "status", "detail"), COPILOT)
def test_copilot_errors_are_told_apart(message: str, status: int | None, detail: str) -> None:
    """The known failure messages of Copilot CLI are understood, as JSON and as text."""
    stdout = world.copilot(message, status=status)
    verdict = classify("copilot", exit_code=1, stdout=stdout, stderr="")
    assert (verdict.detail, verdict.message) == (detail, message)
    shown = f"✗ {message}\n\nChanges    +0 -0\nDuration   17s\nResume     copilot --resume=429\n"
    assert classify("copilot", exit_code=1, stdout="● hm\n", stderr=shown).detail == detail


@pytest.mark.parametrize(
    ("message", "seconds", "named"),
    [
        ("Rate limit reached, try again in 90 seconds", 90.0, False),
        ("usage limit reached, resets 3pm (UTC)", 3 * 3600.0, True),
        ("usage limit reached, retry-after: Mon, 02 Mar 2026 12:30:00 GMT", 1800.0, True),
        ("rate limit reached", None, False),
    ],
)
def test_a_moment_that_is_named_is_told_from_a_span(
    message: str, seconds: float | None, named: bool
) -> None:
    """Only a named moment follows the wall clock."""
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    verdict = classify("codex", exit_code=1, stdout=world.codex(message), stderr="", now=now)
    assert (verdict.retry_after, verdict.named) == (seconds, named)
