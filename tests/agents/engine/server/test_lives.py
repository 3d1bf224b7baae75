"""After a crash or a kill a step fails or goes on, and nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any, cast

import pytest
from attrs import evolve

import otpy
from otpy import Process, Supervisor, SupervisorSpec
from otpy_agents.engine.events import (
    EngineEvent,
    FailureCause,
    GatePassed,
    StepApplying,
    StepCompleted,
    StepDispatched,
    StepStarted,
    WorkflowFailed,
)
from otpy_agents.engine.server import Engine, open_engine
from otpy_agents.engine.server.recovery import settle_dead
from otpy_agents.engine.server.workflow import EngineWorkflow
from otpy_agents.engine.workflow.machine import WorkflowMachine
from otpy_agents.errors import GitFailed, SandboxUnavailable, StepTreeUnwritable
from otpy_agents.run.host.order import RunOrder
from otpy_agents.sandbox.commands import CommandSandbox
from otpy_agents.store import RunStore
from otpy_agents.workspace import StepTree, StepTrees
from tests.agents.engine.server.engine_site import Agents, EngineSite, done, role, writing

pytestmark = pytest.mark.real_time

PLAIN = {"roles/implementer.yaml": role()}


async def begin(engine: Engine) -> str:
    return await engine.begin_run("implementer", "Add it", (), rebase=False, actor="ann")


async def sleeping(order: RunOrder) -> str:
    await writing()(order)
    await asyncio.sleep(60)
    return done("new.txt")


async def children(root: Supervisor, *path: str) -> list[Any]:
    """Return the children of a supervisor; the only one of a pool is called `*`."""
    place: Any = root
    for name in path:
        if name == "*":
            (info,) = await place.which_children()
            place = info.process.supervisor
        else:
            place = place.child(name).supervisor
    return [*await place.which_children()]


async def test_a_worker_that_is_ended_from_outside_fails_its_step(site: EngineSite) -> None:
    """The end names the reason, and nothing of the step is applied."""
    site.make(PLAIN)
    async with (
        open_engine(site.settings, agents=Agents(sleeping)) as engine,
        otpy.start(SupervisorSpec("App", [engine.spec()])) as root,
    ):
        name = await begin(engine)
        await site.heard(StepDispatched)
        await asyncio.sleep(0.1)
        (worker,) = await children(root, "Engine", "Workflows", "*", "workers")
        cast("Process", worker.process).kill()
        end = await engine.wait(name)
    assert end.cause is FailureCause.ERROR
    assert "killed" in end.line
    assert not site.status
    assert not site.trees


class Once:
    """Raises when it hears of an event of some kind for the first time."""

    def __init__(self, site: EngineSite, kind: type[EngineEvent]) -> None:
        self._site, self._kind, self._raised = site, kind, False

    def __call__(self, event: EngineEvent) -> None:
        self._site.told.append(event)
        if isinstance(event, self._kind) and not self._raised:
            self._raised = True
            raise RuntimeError("nobody listens")


@pytest.mark.parametrize(
    ("kind", "attempts"), [(StepStarted, 1), (StepApplying, 2), (StepCompleted, 1)]
)
async def test_a_workflow_that_crashes_goes_on_where_its_events_say(
    site: EngineSite, kind: type[EngineEvent], attempts: int
) -> None:
    """The workflow may crash at any event; its step is applied once."""
    site.make(PLAIN)
    settings = evolve(site.settings, listen=Once(site, kind))
    async with (
        open_engine(settings, agents=Agents(writing())) as engine,
        otpy.start(SupervisorSpec("App", [engine.spec()])),
    ):
        end = await engine.wait(await begin(engine))
    assert end.cause is None
    assert len(site.of(StepDispatched)) == attempts
    assert site.subjects == ["Add it", "Begin"]
    assert not site.trees


async def test_workers_of_an_earlier_life_have_ended_before_the_next_begins(
    site: EngineSite,
) -> None:
    """A workflow that crashes while its worker is at work does not have two of them."""
    site.make(PLAIN)
    alive = most = 0

    async def agent(order: RunOrder) -> str:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        try:
            await asyncio.sleep(0.5)
        finally:
            alive -= 1
        return await writing()(order)

    agents = Agents(agent)
    async with site.engine(agents) as engine:
        name = await begin(engine)
        await site.heard(StepDispatched)
        await asyncio.sleep(0.1)
        engine._workflows[name]._inbox.put_nowait(cast("Any", None))  # the workflow crashes on this
        end = await engine.wait(name)
    assert end.cause is None
    assert (len(agents.orders), most) == (2, 1)
    assert site.subjects == ["Add it", "Begin"]


async def test_a_workflow_that_crashes_again_and_again_ends_with_its_reason(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting caller gets the reason, and the next command settles the workflow."""
    site.make(PLAIN)
    monkeypatch.setattr(WorkflowMachine, "handle", None)
    end = await site.run(writing())
    assert end.cause is FailureCause.ERROR
    assert "TypeError" in end.line
    monkeypatch.undo()
    assert (await site.run(writing())).cause is None
    assert len(site.notes) == 1


async def test_another_program_leaves_a_workflow_alone_from_its_first_event_on(
    site: EngineSite,
) -> None:
    """Nothing of it runs yet; the other program settles it once its host is gone."""
    site.make(PLAIN)

    async def settled() -> tuple[str, ...]:
        trees = StepTrees(site.repository)
        try:
            async with RunStore(site.state) as store, site.log() as log:
                return await settle_dead(log, store, trees, site.repository, os.environ)
        finally:
            trees.close()

    async with open_engine(site.settings, agents=Agents(writing())) as engine:
        name = await begin(engine)
        assert await settled() == ()
    assert await settled() == (f"{name}: its host died; what it left was settled",)
    assert await settled() == ()


async def test_what_cannot_be_settled_is_said_and_holds_up_nothing(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, the container engine cannot be asked for the remains of a gate."""
    site.make(PLAIN)
    monkeypatch.setattr(StepTrees, "apply", None)
    with monkeypatch.context() as patch:
        patch.setattr(StepTrees, "settle", None)
        await site.run(writing())

    async def away(self: CommandSandbox, label: str) -> None:
        raise SandboxUnavailable("docker", "nobody answers")

    monkeypatch.undo()
    with monkeypatch.context() as patch:
        patch.setattr(CommandSandbox, "clear", away)
        assert (await site.run(writing())).cause is None
        assert "is not settled" in site.notes[-1]
        assert len(site.trees) == 1  # a gate may still run there
    async with site.engine(writing()):
        assert "what it left was settled" in site.notes[-1]
    assert site.subjects == ["Add it", "Begin"]


async def test_a_work_tree_that_cannot_be_deleted_is_said_and_holds_up_nothing(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command that can delete it does so."""
    site.make(PLAIN)

    async def kept(self: StepTrees, tree: StepTree) -> None:
        raise StepTreeUnwritable(tree.path, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(StepTrees, "discard", kept)
        assert (await site.run(writing())).cause is None
        (left,) = site.trees
        async with site.engine(writing()):
            assert site.notes[-1].startswith(left.removesuffix("-step-001"))
            assert "what it left is not settled" in site.notes[-1]
    async with site.engine(writing()):
        assert not site.trees
    assert site.subjects == ["Add it", "Begin"]


async def test_a_work_tree_that_was_being_made_is_gone_after_a_stop(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event had told of that work tree."""
    site.make(PLAIN)
    real = StepTrees.open

    async def slow(self: StepTrees, *args: Any, **more: Any) -> StepTree:
        tree = await real(self, *args, **more)
        await asyncio.sleep(60)
        return tree

    monkeypatch.setattr(StepTrees, "open", slow)
    async with site.engine(writing()) as engine:
        name = await begin(engine)
        while not site.trees:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        engine.stop("stopped by SIGINT")
        assert (await engine.wait(name)).cause is FailureCause.STOPPED
        assert not site.trees


async def test_a_commit_that_was_made_counts_though_its_child_was_killed(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git tells whether a step was applied; the end of the child does not."""
    site.make(PLAIN)
    real = StepTrees.apply

    async def broken(self: StepTrees, *args: object, **more: object) -> str:
        await real(self, *args, **more)  # type: ignore[arg-type]
        raise GitFailed(site.repository, "commit", "the disk has gone")

    monkeypatch.setattr(StepTrees, "apply", broken)
    end = await site.run(writing())
    assert end.cause is None
    assert site.of(StepCompleted)[0].commit == site.git("rev-parse", "HEAD").strip()
    assert not site.trees


async def test_a_step_of_which_git_tells_nothing_is_left_to_the_next_command(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event claims an unknown outcome."""
    site.make(PLAIN)

    async def broken(self: StepTrees, *args: object, **more: object) -> str:
        raise GitFailed(site.repository, "commit", "the disk has gone")

    monkeypatch.setattr(StepTrees, "apply", broken)
    with monkeypatch.context() as patch:
        patch.setattr(StepTrees, "settle", broken)
        end = await site.run(writing())
    assert end.cause is FailureCause.ERROR
    assert "the next command" in end.line
    assert not site.of(WorkflowFailed)
    async with site.engine(writing()):
        assert "its host died" in site.notes[-1]
    (row,) = (await site.rows("workflows")).values()
    assert row["status"] == "failed"
    assert site.subjects == ["Begin"]


async def test_nothing_of_a_workflow_is_left_when_it_has_ended(site: EngineSite) -> None:
    """No object, task, descriptor or process is left, after any number of workflows."""
    site.make()
    kinds = (EngineWorkflow, WorkflowMachine)
    async with (
        open_engine(site.settings, agents=Agents(writing())) as engine,
        otpy.start(SupervisorSpec("App", [engine.spec()])) as root,
    ):
        looks: list[tuple[int, int, int]] = []
        for turn in range(4):
            if turn:
                site.git("rm", "-q", "new.txt")
                site.commit("Again")
            assert (await engine.wait(await begin(engine))).cause is None
            await asyncio.sleep(0.2)
            loop: Any = asyncio.get_running_loop()
            # The loop keeps git's cancelled timers for minutes, but at most a hundred of them.
            loop._scheduled[:] = [one for one in loop._scheduled if not one.cancelled()]
            gc.collect()
            kept = sum(type(one) in kinds for one in gc.get_objects())  # asks no lazy object
            files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - nothing blocks there
            looks.append((kept, len(asyncio.all_tasks()), files))
        assert looks[1] == looks[3]
        assert looks[3][0] == 0
        assert not await children(root, "Engine", "Workflows")
    assert len(site.of(GatePassed)) == 4
