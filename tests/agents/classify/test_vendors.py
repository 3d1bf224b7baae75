"""Failures in the words of many vendors, gateways and libraries, without recorded samples."""

from __future__ import annotations

import json

import pytest

from otpy_agents.run import Classification, Detail, classify
from tests.agents import cli_worlds as world
from tests.agents.samples import Failure, failures


def verdict_on(item: Failure) -> Classification:
    """Return the verdict on a run of the CLI that ends with the message."""
    code, stdout, stderr = 1, "", f"{item.message}\n"
    if item.stream == "stdout":
        match item.cli:
            case "claude":
                stdout, stderr = world.claude(item.message, status=item.status), ""
            case "codex":
                stdout, stderr = world.codex(item.message), ""
            case "copilot":
                stdout, stderr = world.copilot(item.message, status=item.status), ""
            case "gemini":
                body = item.message.startswith("{")
                code = json.loads(item.message)["error"]["code"] % 256 if body else 1
                stderr = world.gemini(item.message)
            case _:
                pass
    return classify(item.cli, exit_code=code, stdout=stdout, stderr=stderr)


@pytest.mark.parametrize("item", failures(), ids=str)
def test_errors_of_vendors_are_told_apart(item: Failure) -> None:
    """Bedrock, Vertex, Azure, OpenAI, gateways, proxies, clients: the class is right (RUN-39)."""
    verdict = verdict_on(item)
    assert verdict.detail in item.details
    assert verdict.message
    assert set(verdict.message.split("\n")) <= set(item.message.strip().split("\n"))


def test_every_class_that_words_can_tell_is_among_them() -> None:
    """Only the three details without words are left to the samples."""
    told = frozenset[str]().union(*(item.details for item in failures()))
    silent = {Detail.NO_RESULT, Detail.TOOLS_DENIED, Detail.SESSION_CONFLICT}
    assert told >= {*Detail} - silent
