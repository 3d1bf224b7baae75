"""A Jake that crashes too often gives up; a person is told, and the other projects work on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, final

import pytest

import otpy
from otpy import SupervisorFailed
from otpy_agents.errors import JakeGaveUp
from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Say, Script, ScriptedSandbox
from otpy_agents.tree import jake
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.project import Project
from tests.agents.tree.test_projects import ends, several
from tests.agents.world import agent, path_of

GONE = 1700.0
"""Seconds after which a Jake who always crashes has given up."""
LONG = 2000.0
NAMES = ("one", "two")


@final
class Ward:
    """Two projects, of which some have an ill Jake: it crashes as soon as it begins to work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = ScriptedSandbox()
        self.ill: set[str] = set()
        self.crashes: list[str] = []
        self.told: list[tuple[str, str, str, Any]] = []
        self.projects: list[Project] = []
        self.ends: dict[str, State] = {}
        self.took = 0.0

    @asynccontextmanager
    async def running(self, **texts: str) -> AsyncGenerator[otpy.Supervisor]:
        async with AsyncExitStack() as stack:
            self.projects = await several(stack, self.folder, self.sandbox, texts, self.told)
            clock = asyncio.get_running_loop().time
            began = clock()
            try:
                async with (
                    asyncio.timeout(9 * LONG),
                    otpy.start(app_supervisor(*self.projects), hooks=()) as root,
                ):
                    yield root
            finally:
                self.took = clock() - began
                self.ends = await ends(self.projects)

    def notified(self) -> list[tuple[str, str]]:
        """Return the notices to a person, each with its project."""
        return [
            (project, detail["detail"])
            for project, event, _, detail in self.told
            if event == "operator.notified"
        ]


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    """A world whose Jakes may be ill."""
    world = Ward(tmp_path)
    run: Callable[..., Any] = jake._run

    async def perhaps(project: Project) -> None:
        if project.key in world.ill:
            world.crashes.append(project.key)
            raise RuntimeError("Jake is ill")
        await run(project)

    monkeypatch.setattr(jake, "_run", perhaps)
    return world


def gave_up(caught: pytest.ExceptionInfo[SupervisorFailed]) -> JakeGaveUp:
    """Return the cause of the failure of a tree."""
    cause = caught.value.__cause__
    assert isinstance(cause, JakeGaveUp)
    return cause


def jake_of(root: otpy.Supervisor, project: str) -> otpy.Process:
    """Return the Jake of a project."""
    branch = () if project == "one" else (project,)
    return path_of(root, *branch, "JakeSupervisor", "Jake")


@pytest.mark.parametrize("ill", NAMES)
async def test_one_that_gives_up_is_told_of_and_the_other_works_on(ward: Ward, ill: str) -> None:
    """It gives up after ten restarts; the tree ends with the work of the other (TREE-24)."""
    ward.ill = {ill}
    ward.sandbox.scripts = {"long": [Script(Say(text="x", after=LONG))]}
    texts = {name: agent("short" if name == ill else "long") for name in NAMES}
    with pytest.raises(SupervisorFailed) as caught:
        async with ward.running(**texts) as root:
            await asyncio.sleep(GONE)
            ((project, said),) = ward.notified()
            assert project == ill
            assert f"'{ill}'" in said
            assert "RuntimeError: Jake is ill" in said
            assert jake_of(root, ill).incarnation == 1  # a Jake that only rests
            await root.wait()
    assert ward.crashes == [ill] * 11
    assert len(ward.notified()) == 1
    assert LONG <= ward.took < LONG + 60
    other = "two" if ill == "one" else "one"
    assert ward.ends[f"{other}/long"] is State.DONE
    assert not ward.ends[f"{ill}/short"].final
    assert gave_up(caught).projects == (ill,)
    assert f"'{ill}'" in str(caught.value)
    assert isinstance(gave_up(caught).__cause__, RuntimeError)


@pytest.mark.parametrize("ill", NAMES)
async def test_with_nothing_else_to_do_the_tree_ends_when_the_last_gives_up(
    ward: Ward, ill: str
) -> None:
    """The other project is through long before; that alone does not end the tree."""
    ward.ill = {ill}
    with pytest.raises(SupervisorFailed) as caught:
        async with ward.running(**{name: agent("a") for name in NAMES}) as root:
            await root.wait()
    assert ward.crashes == [ill] * 11
    assert 1200 < ward.took < GONE
    assert gave_up(caught).projects == (ill,)


async def test_the_exit_of_the_tree_names_everyone_who_gave_up(ward: Ward) -> None:
    """They come in the order of the projects, each with the error of its Jake."""
    ward.ill = set(NAMES)
    with pytest.raises(SupervisorFailed) as caught:
        async with ward.running(**{name: agent("a") for name in NAMES}) as root:
            await root.wait()
    assert gave_up(caught).projects == NAMES
    assert str(gave_up(caught)).count("RuntimeError: Jake is ill") == 2
    assert sorted(project for project, _ in ward.notified()) == ["one", "two"]


@pytest.mark.parametrize("ill", NAMES)
async def test_the_mortals_of_a_project_that_is_given_up_are_stopped(ward: Ward, ill: str) -> None:
    """They are interrupted, not reaped: the next host resumes them."""
    ward.sandbox.scripts = {name: [Script(Say(text="x"), Hang())] for name in NAMES}
    with pytest.raises(SupervisorFailed):
        async with ward.running(**{name: agent(name) for name in NAMES}) as root:
            await asyncio.sleep(10)
            ward.ill = {ill}
            jake_of(root, ill).kill()
            await asyncio.sleep(GONE)
            (alive,) = ward.sandbox.alive
            assert alive.agent != ill
            assert len(ward.notified()) == 1
            ward.projects[1 - NAMES.index(ill)].pool.reap(alive.agent, "enough")
            await root.wait()
    assert not ward.ends[f"{ill}/{ill}"].final


async def test_who_has_given_up_stays_so_whatever_is_killed(ward: Ward) -> None:
    """A restart of its branch neither tells a person again nor begins work again."""
    ward.ill = {"two"}
    ward.sandbox.scripts = {"long": [Script(Say(text="x", after=LONG))]}
    with pytest.raises(SupervisorFailed) as caught:
        async with ward.running(one=agent("long"), two=agent("a")) as root:
            await asyncio.sleep(GONE)
            ward.ill.clear()
            root.child("two").kill()
            await asyncio.sleep(60)
            assert jake_of(root, "two").incarnation == 1
            path_of(root, "two", "JakeSupervisor").kill()
            await root.wait()
    assert len(ward.notified()) == 1
    assert {one.agent for one in ward.sandbox.played} == {"long"}
    assert gave_up(caught).projects == ("two",)


async def test_a_jake_who_is_killed_again_and_again_gives_up_too(ward: Ward) -> None:
    """Every restart counts, whatever its reason (TREE-16)."""
    ward.sandbox.scripts = {"a": [Script(Say(text="x", after=9 * LONG))]}
    with pytest.raises(SupervisorFailed) as caught:
        async with ward.running(one=agent("a")) as root:
            while not root.ended:
                await asyncio.sleep(10)
                branch = root.child("JakeSupervisor").supervisor
                if branch is not None and branch.snapshot().children[0].state == "running":
                    branch.child("Jake").kill()
    assert ward.took < LONG
    assert "killed" in str(gave_up(caught))


async def test_a_list_may_let_its_jake_crash_without_a_limit(ward: Ward) -> None:
    """Jake comes back every five minutes for ever, and works once it is well (C-13)."""
    ward.ill = {"one"}
    async with ward.running(one='[list]\njake_restarts = "unlimited"\n' + agent("a")) as root:
        await asyncio.sleep(6000)
        assert len(ward.crashes) > 20
        ward.ill.clear()
        await root.wait()
    assert ward.ends == {"one/a": State.DONE}
    assert ward.notified() == []


async def test_a_list_may_let_its_jake_crash_less(ward: Ward) -> None:
    """Without a restart the first crash is the last (C-13)."""
    ward.ill = {"one"}
    with pytest.raises(SupervisorFailed):
        async with ward.running(one="[list]\njake_restarts = 0\n" + agent("a")) as root:
            await root.wait()
    assert ward.crashes == ["one"]
