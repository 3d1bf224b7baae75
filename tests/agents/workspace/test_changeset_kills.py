"""No work of an agent is lost, whenever the host of a changeset or its git is killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.errors import ChangesetError, WorktreeLocked
from otpy_agents.workspace import Changeset, Changesets, git
from otpy_agents.workspace.git import Git, GitAnswer
from otpy_agents.workspace.place import Place
from tests.agents.workspace.git_world import GitWorld, worked
from tests.examples import some

pytestmark = pytest.mark.real_time

SHARES = 3
"""Of all commands each test cuts at every third one: all of them take long on a busy machine."""

shared = pytest.mark.parametrize("share", range(SHARES))

FRESH = {"a.txt": "a\n", "deep/b.txt": "b\n", ".gitignore": "*.log\n"}


class Cut(BaseException):
    """Stands in for the end of the host."""


class Scissors:
    """Cuts before or after the n-th git command; `count` is how many there were."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.count = 0
        real = Git._once

        async def once(self_: Git, where: Path, args: tuple[str, ...], *rest: Any) -> GitAnswer:
            self.count += 1
            if self.count == at and not after:
                raise Cut
            answer = await real(self_, where, args, *rest)
            if self.count == at:
                raise Cut
            return answer

        patch.setattr(Git, "_once", once)


Step = Callable[[Changesets, Changeset], Awaitable[object]]


async def opening(changesets: Changesets, changeset: Changeset) -> None:
    await changesets.open(changeset.assignment)


async def discarding(changesets: Changesets, changeset: Changeset) -> None:
    await changesets.discard(changeset, "stall")


async def removing(changesets: Changesets, changeset: Changeset) -> None:
    await changesets.remove(changeset)


async def check(world: GitWorld, made: Changeset, contents: set[str]) -> None:
    """Check that the next host finds all contents, can work, and can discard."""
    assert contents <= world.everything()
    assert await world.host().open("zip") == made
    assert contents <= world.everything()
    assert world.git("rev-parse", "--show-toplevel", cwd=made.path).strip() == str(made.path)
    world.write(made.path, {"later.txt": "later\n"})
    await world.host().discard(made, "stall")
    assert world.files(made.path) == FRESH
    assert world.status(made.path) == world.status(world.root) == ""
    assert contents | {"later\n"} <= world.everything()
    await world.host().remove(made)
    assert not made.path.exists()


@shared
async def test_a_discard_may_be_cut_at_any_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """The next host finds it begun and completes it, or not begun; all its effects are commands."""
    at = share + 1 - SHARES
    cut = True
    while cut:
        at += SHARES
        (tmp_path / str(at)).mkdir()
        world = GitWorld(tmp_path / str(at))
        made = await world.changesets.open("zip")
        contents = worked(world, made.path)
        with monkeypatch.context() as patch:
            Scissors(patch, at, after=False)
            try:
                await world.host().discard(made, "stall")
            except Cut:
                pass
            else:
                cut = False
        await check(world, made, contents)
    assert at > 10


@pytest.mark.parametrize("after", some([True, False], rest=pytest.mark.long))
@shared
async def test_making_one_may_be_cut_at_any_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, share: int
) -> None:
    """The changeset is new to the host, but its branch has work already."""
    at = share + 1 - SHARES
    cut = True
    while cut:
        at += SHARES
        (tmp_path / str(at)).mkdir()
        world = GitWorld(tmp_path / str(at))
        made = await world.changesets.open("zip")
        world.write(made.path, {"one.txt": "one\n"})
        world.commit(made.path)
        await world.changesets.remove(made)
        with monkeypatch.context() as patch:
            Scissors(patch, at, after=after)
            try:
                await world.host().open("zip")
            except Cut:
                pass
            else:
                cut = False
        await check(world, made, {"one\n"})
    assert at > 3


@pytest.mark.parametrize("after", some([True, False], rest=pytest.mark.long))
@shared
async def test_removing_one_may_be_cut_at_any_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, share: int
) -> None:
    """An open brings it back; a second removal leaves nothing over."""
    at = share + 1 - SHARES
    cut = True
    while cut:
        at += SHARES
        for then in ("open", "remove"):
            folder = tmp_path / f"{at}{then}"
            folder.mkdir()
            world = GitWorld(folder)
            made = await world.changesets.open("zip")
            world.write(made.path, {"one.txt": "one\n"})
            world.commit(made.path)
            with monkeypatch.context() as patch:
                Scissors(patch, at, after=after)
                try:
                    await world.host().remove(made)
                except Cut:
                    pass
                else:
                    cut = False
            if then == "open":
                await check(world, made, {"one\n"})
            else:
                await world.host().remove(made)
                assert await world.host().half_removed() == ()
                assert not made.path.exists()
                assert "one\n" in world.everything()
    assert at > 3


async def test_work_that_appears_while_one_is_removed_brings_it_back(
    git: GitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at once more when it can no longer be reached by its name."""
    made = await git.changesets.open("zip")
    real = Place.put_aside

    def late(self: Place, path: Path, stamp: str) -> None:
        git.write(path, {"late.txt": "late\n"})
        real(self, path, stamp)

    monkeypatch.setattr(Place, "put_aside", late)
    with pytest.raises(ChangesetError, match=r"late\.txt"):
        await git.changesets.remove(made)
    assert git.files(made.path) == {**FRESH, "late.txt": "late\n"}
    assert git.status(made.path) == "?? late.txt\n"


@pytest.mark.parametrize("seed", [7, 8, 9])
async def test_git_itself_may_be_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """SIGKILL at a random moment of a random command; locks it leaves behind are no obstacle."""
    monkeypatch.setattr(git, "LOCK_AGE", 0.0)
    chance = random.Random(seed)
    real = asyncio.create_subprocess_exec
    left = 0

    async def killed(*args: Any, **kwargs: Any) -> asyncio.subprocess.Process:
        nonlocal left
        process = await real(*args, **kwargs)
        left -= 1
        if left == 0:
            # Half of them at once: a fast machine may be done with a command in a millisecond.
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * 0.004)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", killed)
    turns = failed = 0
    world = GitWorld(tmp_path)
    while turns < 4 or failed < 2:  # a fast machine may be done with a command before the kill
        turns += 1
        assert turns < 30, failed
        left = 0
        made = await world.changesets.open("zip")
        contents = worked(world, made.path)
        world.write(made.path, {f"{turn}.txt": "x" * 10_000 for turn in range(20)})
        for step in (discarding, opening, removing):
            left = chance.randint(1, 14)
            try:
                await step(world.host(), made)
            except ChangesetError:
                failed += 1
            assert contents <= world.everything()
        left = 0
        await check(world, made, contents)


async def test_a_cancelled_call_leaves_a_state_to_go_on_from(tmp_path: Path) -> None:
    """A discard is cancelled at any moment; git is not cut in the middle."""
    world = GitWorld(tmp_path)
    for turn in range(12):
        made = await world.changesets.open("zip")
        contents = worked(world, made.path)
        task = asyncio.ensure_future(world.changesets.discard(made, "stall"))
        await asyncio.sleep(turn * 0.008)
        task.cancel()
        await asyncio.wait({task})
        await check(world, made, contents)


async def test_a_lock_that_is_held_is_waited_for_and_told(
    git: GitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that a program may hold is left alone; one that no program can hold is removed."""
    made = await git.changesets.open("zip")
    worked(git, made.path)
    shared = git.root / ".git/refs/heads/otpy/p/zip.lock"
    shared.touch()
    monkeypatch.setattr("otpy_agents.workspace.git._PAUSE", 0.001)
    with pytest.raises(WorktreeLocked, match=r"zip\.lock"):
        await git.changesets.discard(made, "stall")
    shared.unlink()
    private = git.root / ".git/worktrees/p-zip/index.lock"
    private.touch()
    await git.changesets.discard(made, "stall")
    assert not private.exists()
    assert git.files(made.path) == FRESH
