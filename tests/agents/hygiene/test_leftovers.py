"""The remains of agents that are gone, as hygiene finds them, with real git (TREE-45, TREE-46)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.errors import ChangesetError, SandboxUnavailable
from otpy_agents.hygiene.leftovers import (
    left_over_attempts,
    left_over_steps,
    old_changesets,
    orphaned_folders,
    orphaned_sessions,
    stale_worktrees,
)
from otpy_agents.sandbox import ContainerIdentity, Identity, LeftOver
from otpy_agents.store.sessions import FileSessions
from otpy_agents.workspace import StepTrees
from otpy_agents.workspace.git import Git
from otpy_monitors import Chore
from tests.agents.store.sessions.session_world import session
from tests.agents.workspace.git_world import START, GitWorld

pytestmark = pytest.mark.real_time

DAY = 86400.0
LATER = START + 30 * DAY

SHARES = 2
"""Of all steps each test cuts at every second one: all of them take long on a busy machine."""


async def swept(chore: Chore) -> list[str]:
    """Do a chore to its end, and return what it deleted."""
    done: list[str] = []
    async for deletion in chore():
        await deletion.perform()
        done.append(deletion.what)
    return done


async def dry(chore: Chore) -> list[str]:
    """Return what a chore would delete."""
    return [deletion.what async for deletion in chore()]


def age(path: Path, days: float) -> None:
    """Make a folder and everything in it look as if it was that old, seen from `LATER`."""
    then = LATER - days * DAY
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then), follow_symlinks=False)


class Site:
    """A project with remains of every kind."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.git = GitWorld(folder)
        self.sessions = FileSessions(folder / "sessions")
        self.root = folder / "artifacts"
        self.finished = {"clean", "dirty", "linked"}
        self.known = {"p/open", "open"}

    async def names(self) -> AbstractSet[str]:
        return self.finished

    async def agents(self) -> AbstractSet[str]:
        return self.known

    async def filled(self) -> Site:
        """Leave all these remains."""
        made = {name: await self.git.changesets.open(name) for name in ("clean", "dirty", "open")}
        self.git.write(made["clean"].path, {"a.txt": "changed\n", "noise.log": "noise\n"})
        await self.git.changesets.discard(made["clean"], "stall")
        self.git.write(made["clean"].path, {"a.txt": "done\n"})
        self.git.commit(made["clean"].path)
        self.git.write(made["dirty"].path, {"new.txt": "precious\n"})
        for agent, saved in (("p/gone", START), ("p/young", LATER - DAY), ("p/open", START)):
            await self.sessions.save(session(agent, saved_at=saved))
        for name in ("gone", "young", "open", "clone"):
            self.git.write(self.root / name, {"deep/x.txt": "x", "y.txt": "y"})
            age(self.root / name, 8)
        age(self.root / "young" / "deep", 6)
        self.git.git("init", "-q", cwd=self.root / "clone" / "deep")
        age(self.root / "clone", 8)
        return self

    def chores(self) -> list[Chore]:
        """Return the chores of a host, which may be another one."""
        changesets = self.git.host()

        def clock() -> float:
            return LATER

        return [
            old_changesets(changesets, clock=clock),
            stale_worktrees(changesets, self.names),
            orphaned_sessions(self.sessions, self.agents, clock=clock),
            orphaned_folders(self.root, self.agents, clock=clock),
        ]

    async def sweep(self) -> list[str]:
        return [what for chore in self.chores() for what in await swept(chore)]

    async def state(self) -> dict[str, object]:
        """Return everything that a chore could change."""
        trees = self.git.root / ".worktrees"
        return {
            "trees": {tree.name: self.git.files(tree) for tree in trees.iterdir() if tree.is_dir()},
            "known to git": self.git.git("worktree", "list").count("\n"),
            "branches": self.git.branches("otpy"),
            "sessions": [one.agent for one in await self.sessions.all()],
            "folders": {folder.name: self.git.files(folder) for folder in self.root.iterdir()},
        }


async def test_all_that_is_left_over_is_found_and_nothing_else(tmp_path: Path) -> None:
    """A dry run says what the sweep then deletes; a second round finds nothing."""
    site = await Site(tmp_path / "site").filled()
    before = await site.state()
    would = [what for chore in site.chores() for what in await dry(chore)]
    assert await site.state() == before
    done = await site.sweep()
    assert done == would
    assert done[0].startswith("otpy/discarded/p/clean/")
    assert done[1:] == [
        str(site.git.root / ".worktrees/p-clean"),
        "session of 'p/gone'",
        "gone",
    ]
    after = await site.state()
    assert after["branches"] == ["otpy/p/clean", "otpy/p/dirty", "otpy/p/open"]
    assert after["sessions"] == ["p/open", "p/young"]
    assert site.git.show("otpy/p/clean:a.txt") == "done\n"
    assert "precious\n" in site.git.everything()
    assert sorted(path.name for path in site.root.iterdir()) == ["clone", "open", "young"]
    assert await site.sweep() == []
    assert await site.state() == after


class Cut(BaseException):
    """Stands in for the end of the host."""


def steps(patch: pytest.MonkeyPatch, at: int) -> Callable[[], bool]:
    """Cut before the step number `at`; return a function that tells whether it was reached.

    A step is a git command, a renaming, a deleted session, and, of a folder that is being deleted,
    its beginning and the moment when only half of it is left.
    """
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == at:
            raise Cut

    def patched(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def replaced(*args: Any, **kwargs: Any) -> Any:
            step()
            return real(*args, **kwargs)

        patch.setattr(owner, name, replaced)

    patched(Git, "_once")
    patched(Path, "rename")
    patched(FileSessions, "forget")
    real_rmtree = shutil.rmtree

    def rmtree(folder: Path) -> None:
        step()
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in files[: len(files) // 2]:
            path.unlink()
        step()
        real_rmtree(folder)

    patch.setattr(shutil, "rmtree", rmtree)
    return lambda: count >= at


@pytest.mark.parametrize("share", range(SHARES))
async def test_cut_anywhere_and_run_again_the_end_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """A dirty work tree is never deleted (acceptance 19)."""
    reference = await Site(tmp_path / "reference").filled()
    await reference.sweep()
    wanted = await reference.state()
    template = await Site(tmp_path / "template").filled()
    at = share + 1 - SHARES
    came = True
    while came:
        at += SHARES
        site = copy(template, tmp_path / str(at))
        with monkeypatch.context() as patch:
            reached = steps(patch, at)
            with contextlib.suppress(Cut):
                await site.sweep()
            came = reached()
        assert "precious\n" in site.git.everything()
        await site.sweep()
        assert await site.state() == wanted
        assert await site.sweep() == []
    assert at > 15


def copy(template: Site, folder: Path) -> Site:
    """Return a copy of a site."""
    site = Site(folder)
    for part in ("repository", "sessions", "artifacts"):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(template.git.root.parent / part, folder / part, symlinks=True)
    # Git knows both ends of a work tree by their full paths.
    links = [
        *folder.glob("repository/.git/worktrees/*/gitdir"),
        *folder.glob("repository/.w*/p-*/.git"),
    ]
    for link in links:
        text = link.read_text()
        link.write_text(text.replace(str(template.git.root), str(site.git.root)))
    return site


async def test_steps_of_dead_hosts_are_ended_and_those_of_living_ones_stay(
    tmp_path: Path,
) -> None:
    """Hygiene knows a work tree of a step as long as anything is left of it."""
    git = GitWorld(tmp_path)
    dead, living = StepTrees(git.root), StepTrees(git.root)
    left = await dead.open("wf-1", "step-1")
    git.write(left.path, {"a.txt": "not applied\n"})
    works = await living.open("wf-2", "step-1")
    chore = left_over_steps(StepTrees(git.root))
    assert await dry(chore) == []
    dead.close()
    assert await dry(chore) == [str(left.path)]
    assert left.path.exists()
    assert await swept(chore) == [str(left.path)]
    assert not left.path.exists()
    assert git.files(git.root)["a.txt"] == "a\n"
    assert works.path.exists()
    living.close()
    assert await swept(chore) == [str(works.path)]
    assert git.git("worktree", "list").count("\n") == 1


async def test_what_comes_back_before_it_is_deleted_stays(tmp_path: Path) -> None:
    """Each deletion looks once more, as the state may have changed since the search."""
    site = await Site(tmp_path / "site").filled()
    before = await site.state()
    tree = site.git.root / ".worktrees/p-clean"

    async def late(chore: Chore, change: Callable[[], object]) -> None:
        async for deletion in chore():
            change()
            await deletion.perform()

    discarded, trees, sessions, folders = site.chores()
    (branch,) = site.git.branches("otpy/discarded")
    await late(discarded, lambda: site.git.git("branch", "-f", branch, "main"))
    await late(trees, partial(site.finished.discard, "clean"))
    site.finished.add("clean")
    await late(trees, lambda: site.git.write(tree, {"late.txt": "late\n"}))
    (tree / "late.txt").unlink()
    await late(sessions, partial(site.known.add, "p/gone"))
    await late(folders, (site.root / "gone" / "y.txt").touch)
    assert await site.state() == before


async def test_a_work_tree_that_somebody_locked_is_passed_over(tmp_path: Path) -> None:
    """The chore does not try to delete it again and again."""
    site = await Site(tmp_path / "site").filled()
    site.git.git("worktree", "lock", str(site.git.root / ".worktrees/p-clean"))
    assert await dry(site.chores()[1]) == []


async def test_a_broken_work_tree_does_not_keep_the_others(tmp_path: Path) -> None:
    """The chore deletes the others first; then it fails with the reason."""
    site = await Site(tmp_path / "site").filled()
    (site.git.root / ".git/worktrees/p-dirty/HEAD").write_text("rubbish\n")
    done: list[str] = []
    with pytest.raises(ChangesetError, match="p-dirty"):
        async for deletion in site.chores()[1]():
            await deletion.perform()
            done.append(deletion.what)
    assert done == [str(site.git.root / ".worktrees/p-clean")]


async def test_links_and_read_only_folders(tmp_path: Path) -> None:
    """A link and its target stay; a read-only folder is deleted."""
    site = Site(tmp_path / "site")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    site.git.write(site.root, {"gone/locked/x.txt": "x"})
    (site.root / "gone" / "link").symlink_to(tmp_path / "theirs")
    (site.root / "linked").symlink_to(tmp_path / "theirs")
    age(site.root / "gone", 9)
    (site.root / "gone" / "locked").chmod(0o555)
    assert await swept(site.chores()[3]) == ["gone"]
    assert (tmp_path / "theirs" / "file").exists()
    assert [path.name for path in site.root.iterdir()] == ["linked"]
    assert await swept(orphaned_folders(tmp_path / "nowhere", site.agents)) == []


class FakeSandbox:
    """The methods of a sandbox that a chore calls."""

    def __init__(self, found: Mapping[str, tuple[Identity, ...]]) -> None:
        self.found = dict(found)
        self.answers = True

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        if not self.answers:
            raise SandboxUnavailable("docker", "no container engine answers")
        return self.found.get(marker["OTPY_RUN"], ())

    async def clear(
        self, marker: Mapping[str, str], recorded: object = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        assert grace == 1.0
        return tuple(LeftOver("x", one) for one in self.found.pop(marker["OTPY_RUN"]))


async def test_what_attempts_have_left_running_is_ended(tmp_path: Path) -> None:
    """Only attempts that are over count; without an answer of the engine nothing is done."""
    over = {"run r1": {"OTPY_RUN": "r1"}, "run r2": {"OTPY_RUN": "r2"}}

    async def ended() -> dict[str, dict[str, str]]:
        return over

    found = (ContainerIdentity("c1"),)
    sandbox: Any = FakeSandbox({"r1": found, "r3": found})
    chore = left_over_attempts(sandbox, ended, 1.0)
    sandbox.answers = False
    assert await swept(chore) == []
    sandbox.answers = True
    (what,) = await dry(chore)
    assert what.startswith("run r1: ")
    async for deletion in chore():
        del over["run r1"]  # it was taken up again
        await deletion.perform()
    assert set(sandbox.found) == {"r1", "r3"}
    over["run r1"] = {"OTPY_RUN": "r1"}
    assert len(await swept(chore)) == 1
    assert set(sandbox.found) == {"r3"}
