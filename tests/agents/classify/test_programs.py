"""Words of programs about their own names, tests and files never count as a rate limit."""

from __future__ import annotations

import pytest

from otpy_agents.run import Detail, classify
from tests.agents import cli_worlds as world
from tests.agents.samples import programs


def verdicts(message: str) -> dict[str, Detail | None]:
    """Return the meaning of `message` at the end of a command and inside two agents."""
    command = classify("command", exit_code=1, stdout="", stderr=f"{message}\n")
    codex = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    claude = classify("claude", exit_code=1, stdout="", stderr=f"{message}\n")
    return {"command": command.detail, "codex": codex.detail, "claude": claude.detail}


@pytest.mark.parametrize("message", programs())
def test_a_program_that_speaks_of_its_names_says_nothing_of_the_vendor(message: str) -> None:
    """Names quoted by compilers, test runners, build tools and exceptions set no class (C-08)."""
    allowed = {Detail.UNKNOWN, Detail.USAGE}
    assert set(verdicts(message).values()) <= allowed, verdicts(message)


VENDORS = [
    ("Error: rate_limit_exceeded", "rate_limit"),
    ("rate_limit_error: Number of request tokens has exceeded the limit", "rate_limit"),
    ("Request failed (rate_limit_exceeded)", "rate_limit"),
    ("API error: 429 rate_limit_error: slow", "rate_limit"),
    ("got status: RESOURCE_EXHAUSTED. slow", "rate_limit"),
    (
        "failed: {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'x'}}",
        "rate_limit",
    ),
    ('failed: {"error":{"code":"rate_limit_exceeded","message":"cut her', "rate_limit"),
    ("failed { status: 0, code: 'insufficient_quota', type: 'x' }", "quota"),
    ("failed: {'error': {'message': 'Overloaded'}}", "overloaded"),
    (
        "This request would exceed the rate limit for your organization of 40,000 tokens",
        "rate_limit",
    ),
    ("API rate limit exceeded for user ID 4290529.", "rate_limit"),
    ("You have exceeded a secondary rate limit. Please wait.", "rate_limit"),
    ("Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
    ("Rate limit is exceeded. Try again in 26 seconds.", "rate_limit"),
    ("Sorry, you have been rate-limited. Please wait a moment.", "rate_limit"),
    ("Request was dropped due to rate limiting", "rate_limit"),
    ("Error: Rate limit", "rate_limit"),
    ("rate limit: retrying in 12 seconds", "rate_limit"),
    ("openai.error.RateLimitError: slow down", "rate_limit"),
    ("Error: Unexpected server response: 429", "rate_limit"),
    ("Server is limiting requests (not your usage limit) · Rate limited", "rate_limit"),
    ("Too Many Requests", "rate_limit"),
    ("GET https://example.com/login returned error: 500", "server_error"),
    ("Start 'copilot' and run the '/login' command", "auth"),
]


@pytest.mark.parametrize(("message", "detail"), VENDORS)
def test_what_vendors_say_still_counts(message: str, detail: str) -> None:
    """A code counts as a heading, in brackets or in a field, as do words about an event."""
    assert set(verdicts(message).values()) == {detail}
