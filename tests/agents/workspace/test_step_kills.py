"""A step has exactly one outcome, whenever its process is killed: applied whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.workspace import StepTrees
from tests.agents.workspace.git_world import GitWorld
from tests.agents.workspace.step_host import GONE, KILLED, WORK, StepHosts
from tests.examples import some

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(240)]

MOMENTS = ("before", "during", "after")
OURS = {"deep/b.txt": "mine\n", "staged.txt": "staged\n", "untracked.txt": "untracked\n"}
STATUS = {" M deep/b.txt", "A  staged.txt", "?? untracked.txt"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[StepHosts]:
    """One program for all tests."""
    with StepHosts() as made:
        yield made


class StepWorld:
    """A repository in which its user is at work too."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.git = GitWorld(folder)
        self.root = self.git.root
        self.git.write(self.root, {GONE: "gone\n"})
        self.git.commit(self.root)
        self.git.write(self.root, OURS)
        self.git.git("add", "staged.txt")
        self.base = self.head()

    def head(self) -> str:
        return self.git.git("rev-parse", "HEAD").strip()

    def check(self, settled: dict[str, str | None]) -> bool:
        """Check that nothing is left over or lost; return whether the step was applied."""
        git = self.git.git
        committed = git("log", "--format=%B").count("Otpy-Step: step-1")
        commits = git("rev-list", f"{self.base}..HEAD", "--grep=Otpy-Step").split()
        assert committed == len(commits) <= 1
        files = self.git.files(self.root)
        files = {name: text for name, text in files.items() if not name.startswith(".worktrees")}
        assert OURS.items() <= files.items()
        assert set(self.git.status(self.root).splitlines()) == STATUS
        assert (WORK.items() <= files.items()) is (GONE not in files) is bool(commits)
        if "step-1" in settled:
            assert settled["step-1"] == (commits[0] if commits else None)
        assert git("worktree", "list", "--porcelain").count("worktree ") == 1
        assert [path.name for path in self.root.glob(".worktrees/*")] in ([], [".gitignore"])
        assert [path.name for path in self.root.glob(".git/worktrees/*")] == []
        assert [path.name for path in self.root.glob(".git/otpy-steps/trees/*")] == []
        assert not (self.root / ".git/index.lock").exists()
        assert git("fsck", "--strict", "--no-dangling") == ""
        return bool(commits)


def settle(world: StepWorld) -> dict[str, str | None]:
    """Do what the next host does first."""

    async def all_of_them() -> dict[str, str | None]:
        trees = StepTrees(world.root)
        await trees.settle_apply()
        return {tree.step: await trees.settle(tree) for tree in await trees.leftovers()}

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("when", some(MOMENTS, rest=pytest.mark.long))
@pytest.mark.parametrize("order", ["open", "rebase", "discard"])
def test_a_step_killed_before_it_is_applied_was_not(
    tmp_path: Path, hosts: StepHosts, order: str, when: str
) -> None:
    """It is killed at every git command; `during` does not touch the command itself."""
    at, status = 0, KILLED
    while status == KILLED:
        at += 1
        world = StepWorld(tmp_path / str(at))
        status = hosts.order(order, world.root, at, when)
        assert not world.check(settle(world))
    assert status == 0
    assert at > (1 if order == "discard" else 4)


@pytest.mark.parametrize("when", some(MOMENTS, rest=pytest.mark.long))
def test_an_apply_that_is_killed_has_happened_or_not(
    tmp_path: Path, hosts: StepHosts, when: str
) -> None:
    """The first commands leave it undone, the later ones done, and there is nothing between."""
    at, status = 0, KILLED
    outcomes: list[bool] = []
    while status == KILLED:
        at += 1
        world = StepWorld(tmp_path / str(at))
        status = hosts.order("apply", world.root, at, when)
        outcomes.append(world.check(settle(world)))
    assert status == 0
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) >= 4
    assert outcomes.count(True) >= 2


@pytest.mark.parametrize("when", some(MOMENTS, rest=pytest.mark.long))
def test_a_work_tree_that_is_handed_on_may_be_killed(
    tmp_path: Path, hosts: StepHosts, when: str
) -> None:
    """Its first step stays applied; nothing of the second is left."""
    at, status = 0, KILLED
    while status == KILLED:
        at += 1
        world = StepWorld(tmp_path / str(at))
        status = hosts.order("reuse", world.root, at, when)
        assert world.check(settle(world))
    assert status == 0
    assert at > 6


@pytest.mark.parametrize("when", some(MOMENTS, rest=pytest.mark.long))
def test_settling_may_be_killed_too(tmp_path: Path, hosts: StepHosts, when: str) -> None:
    """The apply was cut before its files were brought along, or before it was decided."""
    for first, applied in ((6, False), (7, True)):
        at, status = 0, KILLED
        while status == KILLED:
            at += 1
            world = StepWorld(tmp_path / f"{first}-{at}")
            assert hosts.order("apply", world.root, first, "before") == KILLED
            assert (world.head() != world.base) is applied
            status = hosts.order("settle", world.root, at, when)
            assert world.check(settle(world)) is applied
        assert status == 0
        assert at > 3
