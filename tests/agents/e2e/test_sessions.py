"""Sessions that are missing, and wrong calls."""

from __future__ import annotations

from typing import Final

import pytest

from otpy_agents.run import Detail
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import FakeApi

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")


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
