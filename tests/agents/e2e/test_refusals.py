"""The reaction of every CLI to every error of its vendor, and its class."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from attrs import frozen

from otpy_agents.run import Detail
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import Answer, Error, FakeApi, Refuse

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]


@frozen
class Refused:
    """An error, and the expected result.

    Attributes:
        cli: Name of the adapter.
        error: The vendor's answer, every time.
        detail: The class.
        words: Part of the message.
        wait: Seconds to wait, where the CLI passes them on.
        requests: The number of its requests.
    """

    cli: str
    error: Error
    detail: Detail
    words: str
    wait: float | None = None
    requests: int = 1

    def __str__(self) -> str:
        return f"{self.cli}-{self.error.value}".replace(" ", "_")


AT_ONCE: Final = [
    Refused("claude", Error.UNAUTHORIZED, Detail.AUTH, "Invalid API key"),
    Refused("claude", Error.FORBIDDEN, Detail.AUTH, "does not have access to the requested"),
    Refused("claude", Error.RATE_LIMIT, Detail.RATE_LIMIT, "40,000 input tokens per minute"),
    Refused("claude", Error.RATE_LIMIT_LONG, Detail.QUOTA, "your daily rate limit"),
    Refused("claude", Error.QUOTA, Detail.QUOTA, "your specified API usage limits"),
    Refused("claude", Error.OVERLOADED, Detail.OVERLOADED, "529 Overloaded"),
    Refused("claude", Error.SERVER_ERROR, Detail.SERVER_ERROR, "500 Internal server error"),
    Refused("claude", Error.UNAVAILABLE, Detail.OVERLOADED, "503 Service is not available"),
    Refused("claude", Error.CONTEXT, Detail.CONTEXT_OVERFLOW, "Prompt is too long"),
    Refused("claude", Error.CREDIT, Detail.BILLING, "Credit balance is too low"),
    # It repeats the request without its beta features.
    Refused("claude", Error.MODEL, Detail.MODEL_UNAVAILABLE, "selected model", requests=2),
    Refused("codex", Error.UNAUTHORIZED, Detail.AUTH, "Incorrect API key provided"),
    Refused("codex", Error.FORBIDDEN, Detail.AUTH, "insufficient permissions"),
    # After a 429 it gives neither the vendor's words nor the time to wait.
    Refused("codex", Error.RATE_LIMIT, Detail.RATE_LIMIT, "last status: 429"),
    Refused("codex", Error.RATE_LIMIT_LONG, Detail.RATE_LIMIT, "last status: 429"),
    Refused("codex", Error.QUOTA, Detail.QUOTA, "Quota exceeded"),
    Refused("codex", Error.OVERLOADED, Detail.OVERLOADED, "currently overloaded"),
    Refused("codex", Error.SERVER_ERROR, Detail.SERVER_ERROR, "experiencing high demand"),
    Refused("codex", Error.UNAVAILABLE, Detail.OVERLOADED, "503 Service Unavailable"),
    Refused("codex", Error.CONTEXT, Detail.CONTEXT_OVERFLOW, "context window"),
    Refused("codex", Error.CREDIT, Detail.BILLING, "Billing hard limit"),
    Refused("codex", Error.MODEL, Detail.MODEL_UNAVAILABLE, "`gpt-of-nowhere` does not exist"),
    Refused("gemini", Error.UNAUTHORIZED, Detail.AUTH, "invalid authentication credentials"),
    Refused("gemini", Error.FORBIDDEN, Detail.AUTH, "reported as leaked"),
    Refused("gemini", Error.RATE_LIMIT, Detail.RATE_LIMIT, "Please retry in 7s", 7.0),
    Refused("gemini", Error.RATE_LIMIT_LONG, Detail.QUOTA, "exhausted your daily quota"),
    Refused("gemini", Error.QUOTA, Detail.QUOTA, "exceeded your current quota"),
    Refused("gemini", Error.OVERLOADED, Detail.OVERLOADED, "The model is overloaded"),
    Refused("gemini", Error.SERVER_ERROR, Detail.SERVER_ERROR, "An internal error has occurred"),
    Refused("gemini", Error.UNAVAILABLE, Detail.OVERLOADED, "currently unavailable"),
    Refused("gemini", Error.CONTEXT, Detail.CONTEXT_OVERFLOW, "input token count (1229841)"),
    Refused("gemini", Error.CREDIT, Detail.BILLING, "Please enable billing"),
    Refused("gemini", Error.MODEL, Detail.MODEL_UNAVAILABLE, "models/gemini-of-nowhere"),
    # It reads the key again twice, in case the key was renewed.
    Refused("copilot", Error.UNAUTHORIZED, Detail.AUTH, "HTTP 401", requests=3),
    Refused("copilot", Error.FORBIDDEN, Detail.AUTH, "HTTP 403"),
    Refused("copilot", Error.RATE_LIMIT_LONG, Detail.QUOTA, "requests per day", 4320.0),
    Refused("copilot", Error.CONTEXT, Detail.CONTEXT_OVERFLOW, "maximum context length"),
    Refused("copilot", Error.CREDIT, Detail.BILLING, "Billing hard limit"),
    Refused("copilot", Error.MODEL, Detail.MODEL_UNAVAILABLE, "not found on provider"),
]

# Copilot's own retries cannot be switched off: one request and five more.
AFTER_A_WHILE: Final = [
    Refused("copilot", Error.RATE_LIMIT, Detail.RATE_LIMIT, "tokens per min", 2.4, 6),
    Refused("copilot", Error.OVERLOADED, Detail.OVERLOADED, "currently overloaded", None, 6),
    Refused("copilot", Error.SERVER_ERROR, Detail.SERVER_ERROR, "Sorry about that", None, 6),
    Refused("copilot", Error.UNAVAILABLE, Detail.OVERLOADED, "is not available", None, 6),
]


async def _check(case: Refused, home_of: MakeHome) -> None:
    async with FakeApi(Refuse(case.error)) as api:
        home = home_of(case.cli, api.url)
        outcome = await attempt(
            home.adapter, home.request(), environment=home.environment, cwd=home.work
        )
    verdict = outcome.verdict
    assert outcome.by_itself, outcome
    assert outcome.code != 0
    assert verdict.detail is case.detail, outcome
    assert case.words in verdict.message
    assert verdict.retry_after == case.wait
    assert len(api.exchanges) == case.requests
    assert outcome.left_behind == ()
    assert outcome.survivors == ()
    assert outcome.transcript.answer == ""


@pytest.mark.parametrize("case", AT_ONCE, ids=str)
async def test_a_refused_attempt_ends_at_once_and_says_why(
    case: Refused, home_of: MakeHome
) -> None:
    """Each error has its class and the CLI's own words; the CLI itself does not wait (RUN-39)."""
    await _check(case, home_of)


async def test_copilots_own_attempts_come_to_an_end(home_of: MakeHome) -> None:
    """If a CLI's own retries cannot be switched off, their last error decides (RUN-39)."""
    # The attempts only wait, so all run at the same time.
    await asyncio.gather(*(_check(case, home_of) for case in AFTER_A_WHILE))


async def test_a_quota_that_copilot_waits_for_is_seen_meanwhile(home_of: MakeHome) -> None:
    """The CLI would go on for a minute; the reason is told as an event long before."""
    async with FakeApi(Refuse(Error.QUOTA)) as api:
        home = home_of("copilot", api.url)
        outcome = await attempt(
            home.adapter,
            home.request(),
            environment=home.environment,
            cwd=home.work,
            until=api.asked(2),
        )
    assert not outcome.by_itself, outcome
    assert outcome.transcript.retry is not None
    assert outcome.transcript.retry.status == 429
    assert "insufficient_quota" in outcome.transcript.retry.codes
    assert outcome.survivors == ()


@pytest.mark.parametrize(
    ("cli", "detail"),
    [
        ("claude", Detail.SERVER_ERROR),
        ("codex", Detail.SERVER_ERROR),
        ("copilot", None),
        ("gemini", Detail.SERVER_ERROR),
    ],
)
async def test_an_error_that_would_pass_is_ours_to_try_again(
    cli: str, detail: Detail | None, home_of: MakeHome
) -> None:
    """After one failed request three CLIs give up, as told; Copilot retries and succeeds."""
    async with FakeApi(Refuse(Error.SERVER_ERROR), Answer("done")) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter, home.request(), environment=home.environment, cwd=home.work
        )
        assert outcome.verdict.detail is detail, outcome
        if detail is not None:
            assert len(api.exchanges) == 1
            outcome = await attempt(
                home.adapter, home.request(), environment=home.environment, cwd=home.work
            )
    assert outcome.verdict.succeeded, outcome
    assert outcome.transcript.answer == "done"
    assert len(api.exchanges) == 2


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_without_a_key_nothing_is_asked(cli: str, home_of: MakeHome) -> None:
    """A CLI without a login says so by itself, as an error for the user to solve."""
    async with FakeApi() as api:
        home = home_of(cli, api.url)
        keyless = {
            name: value
            for name, value in home.environment.items()
            if "KEY" not in name and not name.startswith("COPILOT_PROVIDER")
        }
        keyless.pop("COPILOT_OFFLINE", None)
        outcome = await attempt(home.adapter, home.request(), environment=keyless, cwd=home.work)
    assert outcome.verdict.detail is Detail.AUTH, outcome
    assert api.exchanges == []


async def test_the_shell_that_codex_leaves_running_is_found_and_ended(home_of: MakeHome) -> None:
    """It goes on in a session of its own, with all that its user's settings run (G-02)."""
    async with FakeApi(Refuse(Error.FORBIDDEN)) as api:
        home = home_of("codex", api.url)
        home.slow_the_shell()
        outcome = await attempt(
            home.adapter, home.request(), environment=home.environment, cwd=home.work
        )
    assert outcome.by_itself, outcome
    assert {"sleep", "cat"} <= {one.name for one in outcome.left_over}
    assert outcome.left_behind == ()
    assert outcome.survivors == ()
    assert home.processes() == []
