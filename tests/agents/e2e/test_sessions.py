"""Sessions that are resumed, sessions that are missing, and wrong calls."""

from __future__ import annotations

from typing import Final

import pytest

from otpy_agents.run import Detail, Usage, UsageMeter
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    FakeApi,
)

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
TURNS: Final = 4


@pytest.mark.parametrize("cli", AGENTS)
async def test_three_resumes_count_each_token_once(cli: str, home_of: MakeHome) -> None:
    """Each turn goes on in the same session, knows the turns before, and counts once."""
    meter = UsageMeter()
    session = None
    async with FakeApi(*(Answer(f"reply {turn}") for turn in range(TURNS))) as api:
        home = home_of(cli, api.url)
        for turn in range(TURNS):
            outcome = await attempt(
                home.adapter,
                home.request(f"prompt {turn}", session=session),
                environment=home.environment,
                cwd=home.work,
            )
            assert outcome.verdict.succeeded, outcome
            assert outcome.transcript.answer == f"reply {turn}"
            assert session in {None, outcome.transcript.session}
            session = outcome.transcript.session
            assert session is not None
            assert outcome.transcript.usage is not None
            new = meter.add(
                outcome.transcript.usage,
                session=session,
                cumulative=home.adapter.cumulative_usage,
            )
            assert (new.input, new.cached, new.output) == (
                INPUT_TOKENS,
                CACHED_TOKENS,
                OUTPUT_TOKENS,
            )
    said = str(api.exchanges[-1].body)
    assert all(f"prompt {turn}" in said for turn in range(TURNS))
    assert all(f"reply {turn}" in said for turn in range(TURNS - 1))
    assert len(api.exchanges) == TURNS
    total = Usage(
        input=TURNS * INPUT_TOKENS,
        cached=TURNS * CACHED_TOKENS,
        output=TURNS * OUTPUT_TOKENS,
        cost_usd=meter.total.cost_usd,
    )
    assert meter.total == total


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_session_that_is_gone_costs_no_request(cli: str, home_of: MakeHome) -> None:
    """Resuming an unknown session fails at once, with its own class."""
    async with FakeApi() as api:
        home = home_of(cli, api.url)
        gone = home.request(session="00000000-0000-4290-8000-000000000429")
        outcome = await attempt(home.adapter, gone, environment=home.environment, cwd=home.work)
    assert outcome.verdict.detail is Detail.SESSION_INVALID, outcome
    assert api.exchanges == []


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_wrong_call_costs_no_request(cli: str, home_of: MakeHome) -> None:
    """A flag that the CLI does not know is the caller's error."""
    async with FakeApi() as api:
        home = home_of(cli, api.url)
        wrong = home.request(flags=("--no-such-flag",))
        outcome = await attempt(home.adapter, wrong, environment=home.environment, cwd=home.work)
    assert outcome.verdict.detail is Detail.USAGE, outcome
    assert api.exchanges == []
