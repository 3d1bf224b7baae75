"""Changesets in a real repository: opened, kept, discarded, removed (TREE-38, C-26)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from otpy_agents.errors import (
    ChangesetDirty,
    ChangesetTaken,
    GitFailed,
    GitMissing,
    InvalidChangeset,
    NotARepository,
    SymlinkInPath,
    WorktreeLocked,
)
from otpy_agents.workspace import Changesets, Fate, FateRule, Fates
from tests.agents.workspace.git_world import START, GitWorld, worked

pytestmark = pytest.mark.real_time

FRESH = {"a.txt": "a\n", "deep/b.txt": "b\n", ".gitignore": "*.log\n"}


async def test_a_changeset_is_a_work_tree_on_a_branch_of_its_own(git: GitWorld) -> None:
    """It is below `.worktrees`, which the repository does not see (C-26)."""
    made = await git.changesets.open("zip")
    assert (made.path, made.branch) == (git.root / ".worktrees/p-zip", "otpy/p/zip")
    assert git.files(made.path) == FRESH
    assert git.git("branch", "--show-current", cwd=made.path).strip() == "otpy/p/zip"
    assert git.status(made.path) == git.status(git.root) == ""
    assert not await git.changesets.dirty(made)
    assert await git.changesets.all() == (made,)


async def test_opened_again_it_is_as_it_was_left(git: GitWorld) -> None:
    """Another host also finds work in every stage, and the files that git ignores."""
    made = await git.changesets.open("zip")
    worked(git, made.path)
    git.write(made.path, {"noise.log": "ignored\n"})
    before, status = git.files(made.path), git.status(made.path)
    assert await git.host().open("zip") == made
    assert await git.host().keep(made) == made
    assert (git.files(made.path), git.status(made.path)) == (before, status)
    assert await git.changesets.dirty(made)


async def test_discarded_work_is_on_a_branch_and_the_work_tree_is_fresh(git: GitWorld) -> None:
    """The branch has everything: commits, staged, changed, deleted and untracked files."""
    made = await git.changesets.open("zip")
    worked(git, made.path)
    before = git.files(made.path)
    assert await git.changesets.discard(made, "stall") == made
    assert git.files(made.path) == FRESH
    assert git.status(made.path) == ""
    assert git.git("branch", "--show-current", cwd=made.path).strip() == "otpy/p/zip"
    (branch,) = git.branches("otpy/discarded")
    assert branch.startswith("otpy/discarded/p/zip/20231114T22132")
    assert git.git("log", "--format=%s", f"main..{branch}").split() == ["stall", "work"]
    git.git("checkout", "-q", branch)
    assert {k: v for k, v in git.files(git.root).items() if ".worktrees" not in k} == before


async def test_a_fresh_work_tree_begins_where_the_repository_is_now(git: GitWorld) -> None:
    """It does not begin where the discarded one began."""
    made = await git.changesets.open("zip")
    git.write(git.root, {"a.txt": "second\n"})
    git.commit(git.root)
    await git.changesets.discard(made, "stall")
    assert git.files(made.path)["a.txt"] == "second\n"


async def test_without_work_there_is_nothing_to_put_away(git: GitWorld) -> None:
    """A discard of nothing makes no branch; files that git ignores stay."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"noise.log": "ignored\n"})
    await git.changesets.discard(made, "stall")
    assert git.branches() == ["otpy/p/zip"]
    assert git.files(made.path) == {**FRESH, "noise.log": "ignored\n"}


async def test_each_discard_has_a_branch_of_its_own(git: GitWorld) -> None:
    """This includes discards in the same instant."""
    frozen_clock = Changesets(git.root, project="p", clock=lambda: START)
    made = await frozen_clock.open("zip")
    for number in range(3):
        git.write(made.path, {"a.txt": f"{number}\n"})
        await frozen_clock.discard(made, "stall")
    assert [git.show(f"{one}:a.txt") for one in git.branches("otpy/discarded")] == [
        "0\n",
        "1\n",
        "2\n",
    ]


async def test_what_only_the_agents_own_rules_ignored_is_put_away_too(git: GitWorld) -> None:
    """An agent that has told git to ignore everything does not leave its files behind."""
    made = await git.changesets.open("zip")
    git.write(made.path, {".gitignore": "*\n", "hidden.txt": "hidden\n"})
    await git.changesets.discard(made, "stall")
    assert git.files(made.path) == FRESH
    assert "hidden\n" in git.everything()


async def test_repositories_inside_are_left_alone(git: GitWorld) -> None:
    """With and without a commit: they could not be committed, so they are not touched."""
    made = await git.changesets.open("zip")
    for name in ("clone", "empty"):
        git.write(made.path, {f"{name}/x.txt": name, "y.txt": "y"})
        git.git("init", "-q", cwd=made.path / name)
    git.commit(made.path / "clone")
    await git.changesets.discard(made, "stall")
    assert git.files(made.path) == {**FRESH, "clone/x.txt": "clone", "empty/x.txt": "empty"}
    assert await git.changesets.dirty(made)
    with pytest.raises(ChangesetDirty):
        await git.changesets.remove(made)


def on_another_branch(git: GitWorld, tree: Path) -> None:
    git.write(tree, {"one.txt": "one\n"})
    git.commit(tree)
    git.git("checkout", "-q", "-b", "feature", "HEAD~1", cwd=tree)
    git.write(tree, {"two.txt": "two\n"})


def on_no_branch(git: GitWorld, tree: Path) -> None:
    git.write(tree, {"one.txt": "one\n"})
    git.commit(tree)
    git.git("checkout", "-q", "--detach", "HEAD~1", cwd=tree)
    git.write(tree, {"two.txt": "two\n"})
    git.commit(tree)


def on_an_unborn_branch(git: GitWorld, tree: Path) -> None:
    git.write(tree, {"one.txt": "one\n"})
    git.commit(tree)
    git.git("checkout", "-q", "--orphan", "new", cwd=tree)
    git.write(tree, {"two.txt": "two\n"})


def in_a_conflict(git: GitWorld, tree: Path, command: str) -> None:
    git.write(tree, {"a.txt": "two\n"})
    git.commit(tree)
    git.git("checkout", "-q", "-b", "other", "HEAD~1", cwd=tree)
    git.write(tree, {"a.txt": "one\n"})
    git.commit(tree)
    git.git("checkout", "-q", "otpy/p/zip", cwd=tree)
    with pytest.raises(Exception, match="non-zero exit status"):
        git.git(command, "other", cwd=tree)


def in_a_merge(git: GitWorld, tree: Path) -> None:
    in_a_conflict(git, tree, "merge")


def in_a_rebase(git: GitWorld, tree: Path) -> None:
    in_a_conflict(git, tree, "rebase")


def in_a_cherry_pick(git: GitWorld, tree: Path) -> None:
    in_a_conflict(git, tree, "cherry-pick")


def in_a_bisection(git: GitWorld, tree: Path) -> None:
    git.write(tree, {"one.txt": "one\n", "two.txt": "two\n"})
    git.commit(tree)
    git.git("bisect", "start", cwd=tree)
    git.git("bisect", "bad", cwd=tree)
    git.git("bisect", "good", "main", cwd=tree)


@pytest.mark.parametrize(
    "leave",
    [
        on_another_branch,
        on_no_branch,
        on_an_unborn_branch,
        in_a_merge,
        in_a_rebase,
        in_a_cherry_pick,
        in_a_bisection,
    ],
)
async def test_however_an_agent_leaves_it_nothing_is_lost(
    git: GitWorld, leave: Callable[[GitWorld, Path], None]
) -> None:
    """On any branch or none, even in a merge: kept work stays, and discarded work is put away."""
    made = await git.changesets.open("zip")
    leave(git, made.path)
    files = git.everything()
    commits = git.commits()
    await git.host().open("zip")
    assert await git.changesets.dirty(made)
    with pytest.raises(ChangesetDirty):
        await git.changesets.remove(made)
    await git.host().discard(made, "stall")
    assert git.files(made.path) == FRESH
    assert git.status(made.path) == ""
    assert not await git.changesets.dirty(made)
    assert files <= git.everything()
    assert commits <= git.commits()
    await git.changesets.remove(made)
    assert commits <= git.commits()


async def test_the_table_decides_what_a_restart_finds(git: GitWorld) -> None:
    """Budget keeps and stall discards (TREE-38); an unknown reason keeps."""
    made = await git.changesets.open("zip")
    for reason in ("budget", "crash", "no such reason"):
        git.write(made.path, {"a.txt": reason})
        await git.changesets.settle("zip", reason)
        assert git.files(made.path)["a.txt"] == reason
    await git.changesets.settle("zip", "stall")
    assert git.files(made.path) == FRESH
    fates = Fates().extended(FateRule("crash", Fate.DISCARD, "ours is fragile"))
    others = Changesets(git.root, project="p", fates=fates)
    git.write(made.path, {"a.txt": "changed"})
    await others.settle("zip", "crash")
    assert git.files(made.path) == FRESH


def test_the_table_can_be_printed_and_extended() -> None:
    """A rule takes the place of the one for the same reason."""
    fates = Fates().extended(
        FateRule("stall", Fate.KEEP, "we look at it"), FateRule("mood", Fate.DISCARD, "so there")
    )
    assert (fates.of("stall"), fates.of("mood")) == (Fate.KEEP, Fate.DISCARD)
    lines = fates.table().splitlines()
    assert lines[0].split() == ["reason", "work", "because"]
    assert lines[1] == "budget        keep     the work is good as far as it goes"
    assert lines[-1] == "any other     keep     keeping can be undone"
    assert sum(line.startswith("stall") for line in lines) == 1


async def test_discarded_work_expires_by_its_age(git: GitWorld) -> None:
    """The oldest goes first; a branch that has changed since is left alone."""
    made = await git.changesets.open("zip")
    for number in range(3):
        git.write(made.path, {"a.txt": f"{number}\n"})
        await git.changesets.discard(made, "stall")
    assert await git.changesets.expired(START) == ()
    found = await git.changesets.expired(START + 1000)
    assert [one.branch for one in found] == git.branches("otpy/discarded")
    assert [one.assignment for one in found] == ["zip"] * 3
    assert len(await git.changesets.expired(found[1].at)) == 1
    git.git("branch", "-f", found[1].branch, "main")
    for one in found:
        await git.changesets.expire(one)
        await git.changesets.expire(one)
    assert git.branches("otpy/discarded") == [found[1].branch]


async def test_a_clean_work_tree_is_removed_and_its_branch_stays(git: GitWorld) -> None:
    """A second removal is no error; opened again, it is on the same branch."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"a.txt": "done\n", "noise.log": "ignored\n"})
    git.commit(made.path)
    (made.path / "deep").chmod(0o555)
    await git.changesets.remove(made)
    await git.changesets.remove(made)
    assert not made.path.exists()
    assert git.branches() == ["otpy/p/zip"]
    assert await git.changesets.all() == ()
    assert git.git("worktree", "list").count("\n") == 1
    assert await git.changesets.open("zip") == made
    assert git.files(made.path)["a.txt"] == "done\n"


async def test_a_dirty_work_tree_is_never_removed(git: GitWorld) -> None:
    """One untracked file is enough."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"new.txt": "new\n"})
    with pytest.raises(ChangesetDirty, match=r"1 uncommitted changes, the first '\?\? new.txt'"):
        await git.changesets.remove(made)
    assert git.files(made.path) == {**FRESH, "new.txt": "new\n"}


async def test_a_work_tree_that_somebody_locked_is_not_removed(git: GitWorld) -> None:
    """An agent can work in it all the same."""
    made = await git.changesets.open("zip")
    git.git("worktree", "lock", "--reason", "mine", str(made.path))
    with pytest.raises(WorktreeLocked, match="mine"):
        await git.changesets.remove(made)
    assert await git.host().open("zip") == made
    await git.changesets.discard(made, "stall")


async def test_a_work_tree_that_a_person_deleted_is_made_again(git: GitWorld) -> None:
    """It has its branch and its commits; commits on no branch get one."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"a.txt": "first\n"})
    git.commit(made.path)
    git.git("checkout", "-q", "--detach", cwd=made.path)
    git.write(made.path, {"a.txt": "second\n"})
    git.commit(made.path)
    shutil.rmtree(made.path)
    assert await git.host().open("zip") == made
    assert git.files(made.path)["a.txt"] == "first\n"
    (branch,) = git.branches("otpy/discarded")
    assert git.show(f"{branch}:a.txt") == "second\n"


@pytest.mark.parametrize("spoil", ["", "rubbish\n"])
async def test_a_work_tree_whose_link_is_spoilt_is_mended(git: GitWorld, spoil: str) -> None:
    """Without it git would take the work tree for a part of the repository around it."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"new.txt": "new\n"})
    (made.path / ".git").unlink()
    if spoil:
        (made.path / ".git").write_text(spoil)
    await git.host().open("zip")
    assert git.status(made.path) == "?? new.txt\n"
    await git.changesets.discard(made, "stall")
    assert git.files(made.path) == FRESH
    assert git.status(git.root) == ""


async def test_hooks_and_settings_of_the_repository_do_not_get_in_the_way(git: GitWorld) -> None:
    """A hook that refuses, a commit that must be signed, a person without a name."""
    for hook in ("pre-commit", "post-checkout", "reference-transaction"):
        path = git.root / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    git.git("config", "commit.gpgSign", "true")
    git.git("config", "user.useConfigOnly", "true")
    made = await git.changesets.open("zip")
    git.write(made.path, {"a.txt": "changed\n"})
    await git.changesets.discard(made, "stall")
    assert git.files(made.path) == FRESH


async def test_many_at_once_take_turns(git: GitWorld) -> None:
    """Changesets of one repository, opened and discarded at the same time."""
    names = [f"a{number}" for number in range(6)]
    made = await asyncio.gather(*map(git.changesets.open, names))
    for one in made:
        git.write(one.path, {"a.txt": one.assignment})
    await asyncio.gather(*(git.changesets.discard(one, "stall") for one in made))
    assert {git.files(one.path)["a.txt"] for one in made} == {"a\n"}
    assert len(git.branches("otpy/discarded")) == 6


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", ".a", "a.", "a..b", "a.lock", "a b", "discarded"]
)
async def test_a_name_that_git_does_not_take_is_refused(git: GitWorld, name: str) -> None:
    """An assignment of that name is refused, and so is a project."""
    with pytest.raises(InvalidChangeset):
        await git.changesets.open(name)
    with pytest.raises(InvalidChangeset):
        Changesets(git.root, project=name)
    assert git.branches() == []


async def test_what_is_no_repository_is_one_clear_error(tmp_path: Path, git: GitWorld) -> None:
    """A folder without one, no folder, a file, a repository without a commit or a work tree."""
    for name in ("plain", "empty", "bare"):
        (tmp_path / name).mkdir()
    git.git("init", "-q", cwd=tmp_path / "empty")
    git.git("init", "-q", "--bare", cwd=tmp_path / "bare")
    (tmp_path / "file").touch()
    for name in ("plain", "none", "file", "empty", "bare"):
        with pytest.raises(NotARepository, match="wanted a git repository with a commit"):
            await Changesets(tmp_path / name, project="p").check("zip")
        with pytest.raises(NotARepository, match="wanted a git repository with a commit"):
            await Changesets(tmp_path / name, project="p").open("zip")


async def test_without_git_it_says_so(git: GitWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error does not blame the repository."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitMissing, match="install it"):
        await git.changesets.open("zip")


@pytest.mark.parametrize("link", [".worktrees", ".worktrees/p-zip"])
async def test_a_link_in_the_path_is_refused(git: GitWorld, tmp_path: Path, link: str) -> None:
    """A link could lead anywhere."""
    (tmp_path / "elsewhere").mkdir()
    (git.root / link).parent.mkdir(exist_ok=True)
    (git.root / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SymlinkInPath, match=link):
        await git.changesets.open("zip")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_folder_of_its_own_may_be_anywhere(git: GitWorld, tmp_path: Path) -> None:
    """The path to it may have a link; the folder itself must not be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = await git.host(folder=tmp_path / "link/trees").open("zip")
    assert made.path == tmp_path / "real/trees/p-zip"
    assert git.files(made.path) == FRESH
    with pytest.raises(SymlinkInPath):
        await git.host(folder=tmp_path / "link").open("zap")


async def test_two_projects_do_not_share_an_assignment(git: GitWorld) -> None:
    """Each has its own branch; where the names run together in a folder, the second is refused."""
    made = await git.changesets.open("zip")
    other = await git.host("q").open("zip")
    assert (made.branch, other.branch) == ("otpy/p/zip", "otpy/q/zip")
    await git.host("p-x").open("y")
    with pytest.raises(ChangesetTaken):
        await git.changesets.open("x-y")
    assert await git.changesets.all() == (made,)


async def test_a_folder_in_the_place_of_a_work_tree_is_left_alone(git: GitWorld) -> None:
    """Its files are not ours; an empty folder does not matter."""
    git.write(git.root, {".worktrees/p-zip/theirs.txt": "theirs\n"})
    with pytest.raises(ChangesetTaken, match="got a folder in its place"):
        await git.changesets.open("zip")
    (git.root / ".worktrees/p-zap").mkdir()
    await git.changesets.open("zap")


@pytest.mark.parametrize("branch", ["otpy", "otpy/p", "otpy/p/zip/deeper"])
async def test_a_branch_beside_which_git_cannot_make_ours_is_named(
    git: GitWorld, branch: str
) -> None:
    """The error has the command that takes it out of the way; nothing is made."""
    git.git("branch", branch)
    with pytest.raises(
        ChangesetTaken, match=f"branch {branch} in the way of otpy/p/zip.*branch -m"
    ):
        await git.changesets.open("zip")
    assert not (git.root / ".worktrees").exists()


async def test_what_git_says_is_told(git: GitWorld) -> None:
    """The failure is unforeseen: here a file is in the place of git's folder of work trees."""
    (git.root / ".git/worktrees").touch()
    with pytest.raises(GitFailed, match=r"git worktree add: got "):
        await git.changesets.open("zip")
