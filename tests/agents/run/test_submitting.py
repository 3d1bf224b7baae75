"""Orders that are refused before anything is stored or started, and runs that may be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import otpy
from otpy import SupervisorSpec
from otpy.errors import NotRunning
from otpy.testing import FaultPlan, faults
from otpy_agents.errors import (
    AgentsError,
    CliMissing,
    InvalidRunSetting,
    RunBroken,
    RunFinished,
    SandboxUnavailable,
    UnknownAdapter,
    UnknownRun,
)
from otpy_agents.run import AgentSelection, Ending, Usage, VendorSession, build_chain
from otpy_agents.run.host.facts import RunLeft
from otpy_agents.run.host.host import RunHost
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.stored_form import StoredForm
from otpy_agents.sandbox import ProcessSandbox
from otpy_agents.store import RunStore
from otpy_agents.testing import ExitWith, Write
from tests.agents.run.scripts import ok, plays, silent
from tests.agents.run.stage import Stage

HERE = Path("/work")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"prompt": " \n"}, "order.prompt"),
        ({"cwd": Path("relative")}, "order.cwd"),
        ({"artifacts": Path("relative")}, "order.artifacts"),
        ({"budget_usd": 0.0}, "order.budget_usd"),
        ({"environment": {"MY_API_KEY": "x"}}, "order.environment"),
        ({"environment": {"DB": "x"}, "secrets": ("DB",)}, "order.environment"),
    ],
)
def test_an_order_that_can_never_work_is_refused(settings: dict[str, Any], field: str) -> None:
    """RUN-01: the constructor refuses it, and names the field."""
    given: dict[str, Any] = {"prompt": "do it", "cwd": HERE, **settings}
    with pytest.raises(InvalidRunSetting, match=field):
        RunOrder(**given)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"cwd": Path("/nowhere")}, InvalidRunSetting, "a folder that is there"),
        ({"sandbox": SandboxChoice(name="moon")}, InvalidRunSetting, "'moon', wanted scripted or"),
        ({"sandbox": SandboxChoice(name="docker")}, InvalidRunSetting, "the name of an image"),
        (
            {"sandbox": SandboxChoice(hosts=("a.example.com",))},
            InvalidRunSetting,
            "'process' has all of the network",
        ),
        ({"argv": ()}, InvalidRunSetting, "a program and its arguments"),
        ({"selection": AgentSelection(), "use": "hal"}, UnknownAdapter, "hal"),
        (
            {"selection": AgentSelection(), "sandbox": SandboxChoice()},
            CliMissing,
            "npm install -g @openai/codex",
        ),
    ],
)
async def test_what_cannot_be_begun_is_not_stored(
    stage: Stage, settings: Mapping[str, Any], error: type[AgentsError], words: str
) -> None:
    """RUN-01: a typed error with what to do about it; no row, no attempt, no fact."""
    async with stage.host(ok(), environment={"PATH": "/nowhere"}) as host:
        with pytest.raises(error, match=words):
            await host.submit(evolve(stage.order(), **settings))
        assert host.handles == {}
    async with RunStore(stage.path, as_host=False) as store:
        assert await store.runs() == ()
    assert (stage.facts, stage.sandbox.played) == ([], [])


async def test_where_no_engine_answers_nothing_is_started(stage: Stage) -> None:
    """The error of the sandbox itself is one clear line."""
    stage.sandbox.unavailable = "no engine answers at /var/run/docker.sock"
    async with stage.host(ok()) as host:
        with pytest.raises(SandboxUnavailable, match="no engine answers") as refused:
            await host.submit(stage.order())
        assert "\n" not in str(refused.value)
    assert stage.facts == []


async def test_a_host_that_has_ended_begins_nothing(stage: Stage) -> None:
    """A host that does not run refuses the order."""
    async with RunStore(stage.path) as store:
        host = RunHost(store, sandboxes={"scripted": stage.sandbox})
        with pytest.raises(NotRunning):
            await host.submit(stage.order())
        assert await store.runs() == ()
    with pytest.raises(InvalidRunSetting, match="at least 1"):
        RunHost(store, capacity=0)


async def test_a_host_is_a_branch_of_any_tree(stage: Stage) -> None:
    """A restart of the desk beside its runs does not disturb them."""
    async with RunStore(stage.path) as store:
        host = RunHost(store, sandboxes={"scripted": stage.sandbox}, listeners=[stage.facts.append])
        stage.scripts.append(plays(Write(text="done", after=10.0), ExitWith()))
        async with otpy.start(SupervisorSpec("app", [host.spec()]), hooks=()) as root:
            handle = await host.submit(stage.order())
            await asyncio.sleep(1.0)
            branch = root.child("RunHost").supervisor
            assert branch is not None
            branch.child("desk").kill()
            await asyncio.sleep(1.0)
            other = await host.submit(stage.order())
            assert (await handle.wait()).ending is Ending.SUCCEEDED
            assert (await other.wait()).ending is Ending.SUCCEEDED
    assert len(stage.sandbox.played) == 2


async def test_only_what_is_unfinished_and_known_is_resumed(stage: Stage) -> None:
    """A finished run says how it stands; one that this host works on is just returned."""
    async with stage.host(ok(), silent()) as host:
        done = await host.submit(stage.order())
        await done.wait()
        with pytest.raises(RunFinished, match="done"):
            await host.resume(done.id)
        with pytest.raises(UnknownRun):
            await host.resume("nobody")
        runs = await host.submit(stage.order())
        assert await host.resume(runs.id) is runs


async def test_a_run_that_broke_is_resumed_once(stage: Stage) -> None:
    """The same host can resume it; two callers that ask at the same time get one handle."""
    with FaultPlan([faults.crash("RunHost/runs/*/task", RuntimeError("ours"), times=6)]).active():
        async with stage.host(ok()) as host:
            broken = await host.submit(stage.order())
            with pytest.raises(RunBroken):
                await broken.wait()
            first, second = await asyncio.gather(*(host.resume(broken.id) for _ in range(2)))
            assert first is second
            assert (await first.wait()).ending is Ending.SUCCEEDED
    assert len(stage.sandbox.played) == 1


async def test_a_run_that_cannot_be_resumed_holds_up_no_other(stage: Stage) -> None:
    """The reason is told, and the run stays as it is."""
    async with RunStore(stage.path) as store:
        order = stage.order()
        chain, _ = build_chain(order.selection, order.default, 0)
        form = StoredForm(order=order, state=order.first_state(chain))
        for run, state in (("bad", "{}"), ("good", form.to_json(str))):
            await store.create(
                run, state, version=1, status="pending", agent="a", prompt="", cwd="/"
            )
    async with stage.host(ok()) as host:
        (handle,) = await host.recover()
        assert handle.id == "good"
        assert (await handle.wait()).ending is Ending.SUCCEEDED
    assert [fact.run for fact in stage.told(RunLeft)] == ["bad"]


def test_what_a_session_has_counted_is_not_counted_again() -> None:
    """A CLI that counts by session includes the runs before (G-07)."""
    counted = Usage(input=10, output=5)
    session = VendorSession(id="s", agent_cli="codex", counted=counted)
    order = RunOrder(prompt="do it", cwd=HERE, session=session)
    chain, _ = build_chain(order.selection, order.default, 0)
    state = order.first_state(chain)
    assert (state.session, state.readings) == ("s", {"s": counted})
    other = evolve(order, session=evolve(session, config_dir="/elsewhere"))
    assert (other.first_state(chain).session, other.first_state(chain).readings) == (None, {})


def test_what_is_stored_of_an_order_lacks_its_secrets_only() -> None:
    """Names, paths and numbers stay as they were, for any secret (G-04)."""
    order = RunOrder(
        prompt="with hunter2",
        cwd=Path("/hunter2"),
        use="command",
        argv=("curl", "-H", "key: hunter2"),
        environment={"URL": "http://me:hunter2@here"},
        label="hunter2",
    )
    chain, _ = build_chain(order.selection, order.default, 0)
    form = StoredForm(order=order, state=order.first_state(chain))
    stored = StoredForm.from_json(form.to_json(lambda text: text.replace("hunter2", "[KEY]")))
    assert stored.state == form.state
    assert stored.order == evolve(
        order,
        prompt="with [KEY]",
        argv=("curl", "-H", "key: [KEY]"),
        environment={"URL": "http://me:[KEY]@here"},
    )


def test_the_process_sandbox_is_the_default() -> None:
    """A run without a choice of a sandbox needs no engine."""
    assert SandboxChoice().name == ProcessSandbox.name
