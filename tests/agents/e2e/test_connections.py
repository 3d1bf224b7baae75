"""Answers that are complete, cut, unreadable, or missing."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve, frozen

from otpy_agents.adapters.codex import configured_provider
from otpy_agents.run import Detail, ErrorType, Usage
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    Cut,
    Error,
    FakeApi,
    Garbage,
    Hang,
    Refuse,
    Reply,
)

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
NO_ONE_LISTENS: Final = "http://127.0.0.1:1"


def tokens(usage: Usage | None) -> tuple[int, int, int] | None:
    """Return a usage without its costs, which are the vendor's prices."""
    return None if usage is None else (usage.input, usage.cached, usage.output)


@pytest.mark.parametrize("cli", AGENTS)
async def test_an_answer_arrives_with_its_session_and_its_price(
    cli: str, home_of: MakeHome
) -> None:
    """Success, the whole answer, the id to resume by, every token; exactly one request."""
    async with FakeApi(Answer("All is done: ünïcödé.", pause=0.05)) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter, home.request("Do it"), environment=home.environment, cwd=home.work
        )
    assert outcome.verdict.succeeded, outcome
    assert outcome.code == 0
    assert outcome.transcript.answer == "All is done: ünïcödé."
    assert outcome.transcript.session
    assert tokens(outcome.transcript.usage) == (INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS)
    assert "Do it" in str(api.exchanges[0].body)
    assert len(api.exchanges) == 1
    assert api.strays == []
    assert outcome.left_behind == ()


@frozen
class Broken:
    """A broken answer, and the expected result.

    Attributes:
        cli: Name of the adapter.
        reply: The vendor's answer, every time.
        detail: The class.
        requests: The number of its requests.
    """

    cli: str
    reply: Reply
    detail: Detail
    requests: int = 1

    def __str__(self) -> str:
        return f"{self.cli}-{type(self.reply).__name__}"


BROKEN: Final = [
    # It repeats the request without a stream after a broken stream.
    Broken("claude", Cut(), Detail.NETWORK, requests=2),
    Broken("claude", Garbage(), Detail.PROTOCOL, requests=2),
    Broken("claude", Answer(""), Detail.NO_RESULT, requests=2),
    Broken("codex", Cut(), Detail.NETWORK),
    # It does not distinguish an unreadable answer from a cut one.
    Broken("codex", Garbage(), Detail.NETWORK),
    Broken("codex", Answer(""), Detail.NO_RESULT),
    Broken("copilot", Cut(), Detail.NETWORK, requests=6),
    Broken("copilot", Garbage(), Detail.PROTOCOL, requests=6),
    Broken("copilot", Answer(""), Detail.NO_RESULT),
    Broken("gemini", Cut(), Detail.NETWORK),
    Broken("gemini", Garbage(), Detail.PROTOCOL),
    Broken("gemini", Answer(""), Detail.NO_RESULT),
]


@pytest.mark.parametrize("case", BROKEN, ids=str)
async def test_a_broken_answer_is_no_answer(case: Broken, home_of: MakeHome) -> None:
    """A cut stream, a page in place of JSON and an empty answer are told apart (C-25)."""
    async with FakeApi(case.reply) as api:
        home = home_of(case.cli, api.url)
        outcome = await attempt(
            home.adapter, home.request(), environment=home.environment, cwd=home.work
        )
    assert outcome.by_itself, outcome
    assert outcome.verdict.detail is case.detail, outcome
    assert len(api.exchanges) == case.requests


async def test_claude_gets_over_a_cut_stream(home_of: MakeHome) -> None:
    """It asks again; the answer counts, and so do the second request's tokens."""
    async with FakeApi(Cut(), Answer("whole")) as api:
        home = home_of("claude", api.url)
        outcome = await attempt(
            home.adapter, home.request(), environment=home.environment, cwd=home.work
        )
    assert outcome.verdict.succeeded, outcome
    assert outcome.transcript.answer == "whole"
    assert tokens(outcome.transcript.usage) == (INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS)


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_vendor_that_never_answers_leaves_nothing_behind(
    cli: str, home_of: MakeHome
) -> None:
    """A hanging CLI is stopped with all its processes, even one that ignores SIGTERM (G-02)."""
    async with FakeApi(Hang()) as api:
        home = home_of(cli, api.url)
        outcome = await attempt(
            home.adapter,
            home.request(),
            environment=home.environment,
            cwd=home.work,
            until=api.asked(),
        )
    assert not outcome.by_itself, outcome
    assert outcome.survivors == ()
    assert home.processes() == []
    assert not outcome.transcript.finished or outcome.transcript.answer == ""


@pytest.mark.parametrize("cli", ["claude", "gemini"])
async def test_without_a_connection_the_network_is_to_blame(cli: str, home_of: MakeHome) -> None:
    """The connection may work later."""
    home = home_of(cli, NO_ONE_LISTENS)
    outcome = await attempt(
        home.adapter, home.request(), environment=home.environment, cwd=home.work
    )
    assert outcome.verdict.detail is Detail.NETWORK, outcome
    assert outcome.verdict.error_type is ErrorType.RETRYABLE


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Refuse(Error.SERVER_ERROR), Detail.SERVER_ERROR),
        (Refuse(Error.RATE_LIMIT_LONG), Detail.RATE_LIMIT),
        (Cut(), Detail.NETWORK),
    ],
    ids=["server", "limit", "cut"],
)
async def test_codex_with_its_own_provider_leaves_the_waiting_to_us(
    reply: Reply, detail: Detail, home_of: MakeHome
) -> None:
    """A login with an API key, without configuration, makes one request and then ends."""
    async with FakeApi(reply) as api:
        home = home_of("codex", api.url)
        provider = configured_provider(home.log_codex_in())
        outcome = await attempt(
            home.adapter,
            evolve(home.request(), provider=provider),
            environment=home.environment,
            cwd=home.work,
        )
    assert outcome.by_itself, outcome
    assert outcome.verdict.detail is detail, outcome
    assert len(api.exchanges) == 1
    assert api.exchanges[0].headers["authorization"] == "Bearer fake-key"


@pytest.mark.parametrize("began", ["ours", "its own"])
async def test_codex_goes_on_in_a_session_with_the_provider_it_began_with(
    began: str, home_of: MakeHome
) -> None:
    """Codex refuses a change; a session that it began without an adapter can be resumed too."""
    async with FakeApi(Answer("one"), Answer("two")) as api:
        home = home_of("codex", api.url)
        folder = home.log_codex_in()
        session = None
        for turn in ("one", "two"):
            provider = configured_provider(folder, session=session)
            if session is None and began == "its own":
                provider = None
            request = evolve(home.request(f"prompt {turn}", session=session), provider=provider)
            outcome = await attempt(
                home.adapter, request, environment=home.environment, cwd=home.work
            )
            assert outcome.transcript.answer == turn, outcome
            assert session in {None, outcome.transcript.session}
            session = outcome.transcript.session
    assert "prompt one" in str(api.exchanges[-1].body)
