"""Agents that give an output of the engine, each in its own way (ENG-36)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from otpy_agents.engine.outputs import (
    ImplementationOutput,
    OutputKind,
    output_instructions,
    read_output,
    schema_of,
)
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.engine.workers import worker_order
from otpy_agents.run import Access, Detail
from otpy_agents.run.host.order import SandboxChoice
from tests.agents.e2e.attempt import attempt
from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import Answer, FakeApi, Reply, UseTool

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

KIND: Final = OutputKind.IMPLEMENTATION
DONE: Final[dict[str, Any]] = {
    "status": "completed",
    "files_modified": ["a.py"],
    "changes": ["adds a"],
    "next_steps": [],
}
TOOL: Final = "StructuredOutput"  # the tool by which the model of Claude Code gives its answer
REPLIES: Final[dict[str, tuple[Reply, ...]]] = {
    "claude": (UseTool(TOOL, DONE), Answer("All is done.")),
    "codex": (Answer(json.dumps(DONE)),),
    "copilot": (Answer(f"All is done.\n```json\n{json.dumps(DONE)}\n```\n"),),
    "gemini": (Answer(f"All is done.\n```json\n{json.dumps(DONE)}\n```\n"),),
}


@pytest.mark.parametrize("cli", REPLIES)
async def test_an_agent_answers_with_an_output(cli: str, home_of: MakeHome) -> None:
    """Vendors that can enforce the schema get it; the prompt tells the other models."""
    schema = json.dumps(schema_of(KIND))
    async with FakeApi(*REPLIES[cli]) as api:
        # The access of planners and reviewers; Claude Code's tool needs no permission.
        home = home_of(cli, api.url)
        request = evolve(
            home.request(f"Add a.\n\n{output_instructions(KIND)}", access=Access.READ),
            schema=schema,
        )
        outcome = await attempt(home.adapter, request, environment=home.environment, cwd=home.work)
    assert outcome.verdict.succeeded, outcome
    found = read_output(KIND, outcome.transcript.answer or "")
    assert isinstance(found, ImplementationOutput), found
    assert found.files_modified == ("a.py",)
    if cli in {"claude", "codex"}:
        # The body for the vendor has it as a schema of a tool or answer, outside the prompt.
        body = json.dumps({**api.exchanges[0].body, "messages": [], "input": []})
        assert json.dumps(schema_of(KIND)["properties"]) in body


async def test_a_model_that_never_fits_is_told_from_a_failure(home_of: MakeHome) -> None:
    """Claude Code asks its model five times, so that the run need not (ENG-37)."""
    async with FakeApi(UseTool(TOOL, {"status": "done"})) as api:
        home = home_of("claude", api.url)
        request = evolve(home.request(), schema=json.dumps(schema_of(KIND)))
        outcome = await attempt(home.adapter, request, environment=home.environment, cwd=home.work)
    assert outcome.verdict.detail is Detail.NO_RESULT, outcome
    assert outcome.verdict.message == "Failed to provide valid structured output after 5 attempts"


async def test_root_may_do_anything_in_a_sandbox(home_of: MakeHome) -> None:
    """Claude Code refuses this to root unless the implementer's environment names a sandbox."""
    order = worker_order(
        WorkerRole(name="implementer", cli="claude", system_prompt="Write code.", output=KIND),
        "claude",
        "Add a.",
        Path("/"),
        sandbox=SandboxChoice(name="bubblewrap"),
        label="wf-1/step-1/1",
    )
    command = {"command": "echo hi > made.txt", "description": "Run it"}
    async with FakeApi(UseTool("Bash", command), *REPLIES["claude"]) as api:
        home = home_of("claude", api.url)
        request = evolve(home.request(access=order.access), schema=order.schema)
        environment = {**home.environment, **order.environment}
        outcome = await attempt(home.adapter, request, environment=environment, cwd=home.work)
    assert outcome.verdict.succeeded, outcome
    assert (home.work / "made.txt").read_text(encoding="utf-8") == "hi\n"
