"""Prompts that no command line can hold."""

from __future__ import annotations

import json
from typing import Final

import pytest

from otpy_agents.errors import InvalidRequest
from otpy_agents.run import Detail
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import Answer, FakeApi

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
PROMPT: Final = "--model 'of' \"thö\"\n" + "a word or twö " * 72_000 + "THE END"
"""A good 1 MB, which begins as a flag would."""
TOO_LONG: Final = "word " * 2_400_000


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_prompt_of_1_mb_arrives_or_is_too_long(cli: str, home_of: MakeHome) -> None:
    """The vendor gets the whole prompt, or the CLI knows that it is too long for its model."""
    async with FakeApi(Answer("done")) as api:
        home = home_of(cli, api.url)
        request = home.request(PROMPT)
        outcome = await attempt(home.adapter, request, environment=home.environment, cwd=home.work)
    if cli == "copilot":  # it counts before it asks
        assert outcome.verdict.detail is Detail.CONTEXT_OVERFLOW, outcome
        assert api.exchanges == []
        return
    assert outcome.verdict.succeeded, outcome
    assert outcome.transcript.answer == "done"
    assert json.dumps(PROMPT)[1:-1] in json.dumps(api.exchanges[0].body)


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_prompt_in_the_middle_arrives(cli: str, home_of: MakeHome) -> None:
    """All CLIs answer a prompt over the limit of an argument, and within that of each model."""
    async with FakeApi(Answer("done")) as api:
        home = home_of(cli, api.url)
        request = home.request(PROMPT[:300_000])
        outcome = await attempt(home.adapter, request, environment=home.environment, cwd=home.work)
    assert outcome.verdict.succeeded, outcome
    assert outcome.transcript.answer == "done"
    assert json.dumps(PROMPT[:300_000])[1:-1] in json.dumps(api.exchanges[0].body)


@pytest.mark.parametrize("cli", AGENTS)
async def test_a_prompt_that_no_cli_reads_is_said_to_be_too_long(
    cli: str, home_of: MakeHome
) -> None:
    """Each CLI has a limit; nothing is cut silently, and no request is made."""
    async with FakeApi() as api:
        home = home_of(cli, api.url)
        request = home.request(TOO_LONG)
        if cli == "gemini":
            with pytest.raises(InvalidRequest, match=r"request\.prompt"):
                home.adapter.launch(request)
            return
        outcome = await attempt(home.adapter, request, environment=home.environment, cwd=home.work)
    assert outcome.verdict.detail is Detail.CONTEXT_OVERFLOW, outcome
    assert api.exchanges == []
