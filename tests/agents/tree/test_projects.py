"""Several projects at one workplace, each with its own Jake and its own pool (TREE-15, TREE-24)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import otpy
from otpy_agents.agent.workplace import Workplace
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.store import RunStore
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State
from otpy_agents.testing import Crash, Say, Script, ScriptedSandbox, memory_stores
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from tests.agents.world import QUICK, agent, path_of

SIGKILLED = 137


async def several(
    stack: AsyncExitStack,
    folder: Path,
    sandbox: ScriptedSandbox,
    texts: dict[str, str],
    told: list[tuple[str, str, str, Any]] | None = None,
) -> list[Project]:
    """Return projects at one workplace; what they tell goes into `told`, with their names."""
    stack.enter_context(memory_stores())
    store = await stack.enter_async_context(RunStore(folder / "state" / "runs.sqlite3"))
    workplace = Workplace(
        store,
        sandboxes={"scripted": sandbox},
        sandbox=SandboxChoice(name="scripted"),
        policy=QUICK,
    )
    projects: list[Project] = []
    for name, text in texts.items():
        work = parse(text, folder / f"{name}.toml")
        ledger = await stack.enter_async_context(Ledger(work.state))
        await ledger.declare({one.id: one.digest for one in work.assignments})

        def tell(event: str, id: str, detail: Any, project: str = name) -> None:
            if told is not None:
                told.append((project, event, id, detail))

        projects.append(Project(work, ledger, (), tell, workplace=workplace))
    return projects


async def ends(projects: list[Project]) -> dict[str, State]:
    found: dict[str, State] = {}
    for project in projects:
        await project.write_outcomes()
        for record in await project.desk.memory.ledger.summary():
            found[f"{project.key}/{record.id}"] = record.state
    return found


async def test_each_project_has_its_own_jake_and_pool(tmp_path: Path) -> None:
    """The tree ends when the last of them has nothing left to do; names may be the same."""
    sandbox = ScriptedSandbox({"a": [Script(Say(text="x", after=50.0))]})
    async with AsyncExitStack() as stack:
        texts = {"one": agent("a") + agent("b"), "two": agent("b") + agent("c")}
        projects = await several(stack, tmp_path, sandbox, texts)
        async with otpy.start(app_supervisor(*projects), hooks=()) as root:
            await asyncio.sleep(5)
            ids = [child.id for child in root.snapshot().children]
            assert ids == ["RunHost", "two", "JakeSupervisor", "MortalPool", "MonitorSupervisor"]
            assert path_of(root, "two", "JakeSupervisor", "Jake").alive
            assert projects[1].effort.at_rest
            await root.wait()
        assert await ends(projects) == dict.fromkeys(
            ["one/a", "one/b", "two/b", "two/c"], State.DONE
        )
    assert sorted(one.agent for one in sandbox.played) == ["a", "b", "b", "c"]


async def test_the_jake_of_one_does_not_disturb_the_other(tmp_path: Path) -> None:
    """Repeated kills cost its own project time, and the other project nothing."""
    scripts = {name: [Script(Say(text="x", after=30.0))] for name in "abcd"}
    scripts["b"] = [Script(Crash()), Script()]
    sandbox = ScriptedSandbox(scripts)
    async with AsyncExitStack() as stack:
        texts = {"one": agent("a") + agent("b", backoff=[1]), "two": agent("c") + agent("d")}
        projects = await several(stack, tmp_path, sandbox, texts)
        async with otpy.start(app_supervisor(*projects), hooks=()) as root:
            for _ in range(4):
                await asyncio.sleep(7)
                jake = path_of(root, "two", "JakeSupervisor")
                assert jake.supervisor is not None
                for child in jake.supervisor.snapshot().children:
                    if child.state == "running":
                        path_of(root, "two", "JakeSupervisor", child.id).kill()
            await root.wait()
        assert set((await ends(projects)).values()) == {State.DONE}
    assert sorted(one.agent for one in sandbox.played) == ["a", "b", "b", "c", "d"]


async def test_chaos_reaches_every_project(tmp_path: Path) -> None:
    """A kill may hit any attempt that runs."""
    sandbox = ScriptedSandbox({name: [Script(Say(text="x", after=20.0))] for name in "ab"})
    async with AsyncExitStack() as stack:
        keys: dict[str, Any] = {"restarts": 999, "backoff": [0]}
        texts = {"one": agent("a", **keys), "two": agent("b", **keys)}
        projects = await several(stack, tmp_path, sandbox, texts)
        async with otpy.start(app_supervisor(*projects, chaos=1.0), hooks=()) as root:
            async with asyncio.timeout(600):
                while {one.agent for one in sandbox.played if one.exit_code == SIGKILLED} != {  # noqa: ASYNC110 - it comes soon
                    "a",
                    "b",
                }:
                    await asyncio.sleep(1)
            await root.stop()


async def test_what_is_spawned_into_a_project_that_is_through_is_done_too(tmp_path: Path) -> None:
    """Its Jake is there as long as any project works."""
    sandbox = ScriptedSandbox({"a": [Script(Say(text="x", after=50.0))]})
    async with AsyncExitStack() as stack:
        projects = await several(stack, tmp_path, sandbox, {"one": agent("a"), "two": agent("b")})
        async with otpy.start(app_supervisor(*projects), hooks=()) as root:
            await asyncio.sleep(10)
            more = evolve(projects[1].assignments[0], id="more")
            await projects[1].pool.spawn(more)
            await root.wait()
        assert set((await ends(projects)).values()) == {State.DONE}
        assert len(await ends(projects)) == 3


async def test_two_projects_of_one_name_are_refused(tmp_path: Path) -> None:
    """Projects at different workplaces are refused, too."""
    async with AsyncExitStack() as stack:
        projects = await several(stack, tmp_path, ScriptedSandbox(), {"one": agent("a")})
        with pytest.raises(InvalidTreeSetting, match="'one' twice"):
            app_supervisor(projects[0], projects[0])
        ledger = projects[0].desk.memory.ledger
        work = parse(agent("a"), tmp_path / "other.toml")
        other = Project(work, ledger, (), lambda _name, _id, _detail: None)
        with pytest.raises(InvalidTreeSetting, match="several workplaces"):
            app_supervisor(projects[0], other)
