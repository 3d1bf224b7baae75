"""Workers: their orders, and the results of their attempts (ENG-36, ENG-37)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.adapters.adapter import Access
from otpy_agents.agent.runs import HostedRuns
from otpy_agents.engine.events import FailureCause
from otpy_agents.engine.outputs import ImplementationOutput, OutputKind, schema_of
from otpy_agents.engine.roles import RoleConfig, WorkerRole
from otpy_agents.engine.workers import WorkerResult, do_work, worker_order
from otpy_agents.run.host.host import RunHost, run_host
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.store import RunStore
from otpy_agents.testing import Script, memory_stores
from tests.agents.run.scripts import network, ok, says, silent
from tests.agents.run.stage import Stage

KIND = OutputKind.IMPLEMENTATION
DONE = json.dumps(
    {"status": "success", "files_modified": ["a.py"], "changes": [], "next_steps": []}
)
GAVE_UP = json.dumps({"status": "failed", "files_modified": [], "next_steps": ["no such API"]})
ROLE = WorkerRole(
    name="implementer",
    cli="command",
    argv=("agent",),
    flags=("--a b",),
    system_prompt="Write code.",
    output=KIND,
    config=RoleConfig(timeout=30.0),
)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage for whole runs in virtual time."""
    with memory_stores():
        yield Stage(tmp_path)


async def work(stage: Stage, host: RunHost) -> WorkerResult:
    """Make one attempt on the stage."""
    sandbox = SandboxChoice(name="scripted")
    order = worker_order(
        ROLE, "command", "do it", stage.folder, sandbox=sandbox, label="wf-1/step-1/1"
    )
    async with RunStore(stage.path) as store:
        return await do_work(HostedRuns(host, store), order, KIND)


def lines(*events: dict[str, object], code: int = 0) -> Script:
    return says(*map(json.dumps, events), code=code)


SPENT: dict[str, object] = {
    "type": "usage",
    "input": 100,
    "cached": 40,
    "output": 7,
    "cost_usd": 0.5,
}


@pytest.mark.parametrize(
    ("scripts", "wanted"),
    [
        ((ok(DONE),), {"fault": "", "failure": "", "is_agents_fault": False}),
        ((network(), ok(DONE)), {"fault": "", "failure": "", "is_agents_fault": False}),
        (
            (ok("I am done."),),
            {
                "fault": "implementation output: got an answer without one, wanted a JSON object"
                " with status, files_modified, changes, next_steps",
                "failure": "",
                "is_agents_fault": True,
            },
        ),
        (
            (lines(SPENT),),
            {
                "fault": "implementation output: it never said that it was done",
                "is_agents_fault": True,
            },
        ),
        (
            (lines({"type": "error", "message": "invalid api key", "status": 401}, code=1),),
            {"failure": "invalid api key", "cause": FailureCause.ERROR, "is_agents_fault": True},
        ),
        ((silent(),), {"cause": FailureCause.TIME, "is_agents_fault": True}),
        (
            (
                lines(
                    {"type": "tool", "id": "1", "name": "Bash"},
                    {"type": "tool_end", "id": "1", "ok": False, "denied": True},
                    SPENT,
                    {"type": "result", "text": DONE},
                ),
            ),
            {"failure": "", "tokens_in": 100, "tokens_out": 7, "cost_usd": 0.5},
        ),
    ],
)
async def test_how_an_attempt_ends_is_told_apart(
    stage: Stage, scripts: tuple[Script, ...], wanted: dict[str, object]
) -> None:
    """The result tells a good answer, an invalid one and none apart, and what a circuit counts."""
    async with stage.host(*scripts) as host:
        result = await work(stage, host)
    assert {name: getattr(result, name) for name in wanted} == wanted
    assert (result.output is None) == bool(result.fault or result.failure)


async def test_delays_before_retries_are_varied(stage: Stage) -> None:
    """Exponential, and never the same for two that fail together (ENG-03)."""
    async with stage.host(network()) as host:
        result = await work(stage, host)
    assert result.failure
    assert stage.delays == pytest.approx([2, 6], rel=0.101)
    assert stage.delays != [2, 6]


async def test_a_worker_that_gives_up_says_why(stage: Stage) -> None:
    """The worker answered, so its agent is not at fault."""
    async with stage.host(ok(GAVE_UP)) as host:
        result = await work(stage, host)
    assert (result.gave_up, result.claims, result.is_agents_fault) == ("no such API", (), False)


async def test_a_worker_that_is_cancelled_leaves_nothing(stage: Stage) -> None:
    """It is stopped in order, and its run is over."""
    async with stage.host(silent()) as host:
        task = asyncio.create_task(work(stage, host))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not list(stage.sandbox.alive)
        assert not host.handles


async def test_an_agent_that_is_not_installed_is_no_crash(tmp_path: Path) -> None:
    """The circuit counts it, so that routing takes another."""
    role, sandbox = evolve(ROLE, cli="gemini"), SandboxChoice()
    order = worker_order(role, "gemini", "do it", tmp_path, sandbox=sandbox, label="1")
    with memory_stores():
        async with RunStore(tmp_path / "runs.sqlite3") as store:
            async with run_host(store, environment={"PATH": "/nowhere"}) as host:
                result = await do_work(HostedRuns(host, store), order, KIND)
    assert "gemini" in result.failure
    assert result.is_agents_fault


@pytest.mark.parametrize(
    ("kind", "sandbox", "access"),
    [
        (OutputKind.IMPLEMENTATION, "process", Access.EDIT),
        (OutputKind.IMPLEMENTATION, "bubblewrap", Access.FULL),
        (OutputKind.PLAN, "docker", Access.READ),
        (OutputKind.REVIEW, "process", Access.READ),
    ],
)
def test_an_order_is_what_the_role_says(kind: OutputKind, sandbox: str, access: Access) -> None:
    """It has one fresh agent, with the access that its role needs and its sandbox confines."""
    role = evolve(ROLE, output=kind, cli="claude:opus")
    choice = SandboxChoice(name=sandbox, mounts=(Mount(Path("/usr/share")),))
    order = worker_order(
        role,
        "claude:opus",
        "do it",
        Path("/tree"),
        sandbox=choice,
        mounts=[Mount(Path("/tree/.git"))],
        label="wf-1/step-1/1",
        secrets=("TOKEN",),
    )
    (agent,) = order.candidates
    assert (agent.agent_cli, agent.model, agent.flags) == ("claude", "opus", ("--a b",))
    assert (order.access, order.session, order.policy.resume) == (access, None, False)
    assert json.loads(order.schema) == schema_of(kind)
    assert [mount.source for mount in order.sandbox.mounts] == [
        Path("/usr/share"),
        Path("/tree/.git"),
    ]
    assert order.liveness.seconds == 30


AGENT = """\
import json, os, sys
prompt = open(os.environ["OTPY_PROMPT_FILE"]).read()
fields = json.load(open(os.environ["OTPY_SCHEMA_FILE"]))["required"]
open("made.txt", "w").write(prompt)
print(json.dumps({"status": "completed", "files_modified": ["made.txt"],
                  "changes": fields, "next_steps": []}))
"""


@pytest.mark.real_time
async def test_a_real_program_works_as_a_worker(tmp_path: Path) -> None:
    """It finds its prompt and its schema, and its answer is an output."""
    role = evolve(ROLE, argv=(sys.executable, "-c", AGENT), flags=())
    order = worker_order(
        role, "command", "make it", tmp_path, sandbox=SandboxChoice(), label="wf-1/step-1/1"
    )
    async with RunStore(tmp_path / "runs.sqlite3") as store, run_host(store) as host:
        result = await do_work(HostedRuns(host, store), order, KIND)
    assert isinstance(result.output, ImplementationOutput), result
    assert result.output.changes == ("status", "files_modified", "changes", "next_steps")
    assert result.claims == ("made.txt",)
    assert (tmp_path / "made.txt").read_text() == "make it"
