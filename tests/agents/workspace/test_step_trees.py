"""Work trees of steps: opened, looked at, applied, rebased, discarded, taken back (ENG-16)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.errors import (
    ApplyBlocked,
    ApplyConflict,
    HeadMoved,
    InvalidChangeset,
    NotARepository,
    StepTreeTaken,
    StepTreeUnwritable,
    SymlinkInPath,
    WorktreeLocked,
)
from otpy_agents.workspace import StepTrees, publication, step_trees
from otpy_agents.workspace.removal import remove_tree
from tests.agents.workspace.git_world import GitWorld

pytestmark = pytest.mark.real_time

FRESH = {"a.txt": "a\n", "deep/b.txt": "b\n", ".gitignore": "*.log\n"}


@pytest.fixture
def trees(git: GitWorld) -> Iterator[StepTrees]:
    """The work trees of a host."""
    made = StepTrees(git.root)
    yield made
    made.close()


def head(git: GitWorld) -> str:
    return git.git("rev-parse", "HEAD").strip()


def own_files(git: GitWorld) -> dict[str, str]:
    found = git.files(git.root)
    return {name: text for name, text in found.items() if not name.startswith(".worktrees")}


async def test_a_step_is_one_commit_with_its_trailers(git: GitWorld, trees: StepTrees) -> None:
    """We are the author, the user is the committer; the branch, index and files are up to date."""
    git.git("config", "user.name", "Ann")
    git.git("config", "user.email", "ann@example.org")
    tree = await trees.open("wf-1", "step-1")
    assert tree.path == git.root / ".worktrees/wf-1-step-1"
    assert tree.base == head(git)
    assert git.files(tree.path) == FRESH
    assert git.status(tree.path) == git.status(git.root) == ""
    assert git.git("branch", "--show-current", cwd=tree.path) == ""
    git.write(tree.path, {"a.txt": "changed\n", "new/ünd\tso.txt": "new\n", "x.log": "ignored\n"})
    (tree.path / "deep/b.txt").unlink()
    (tree.path / "new/ünd\tso.txt").chmod(0o755)
    changes = await trees.changes(tree)
    assert changes.files == ("a.txt", "deep/b.txt", "new/ünd\tso.txt")
    assert changes.summary == "3 files changed, +2 -2 lines"
    assert changes.tampered == changes.links == changes.filtered == changes.repositories == ()
    assert "+changed\n" in await trees.diff(changes)
    commit = await trees.apply(changes, "Change a\n\nMore.", trailers={"Cost": "1\nUSD"})
    assert commit == head(git)
    said = git.git("log", "-1", "--format=%an %cn <%ce> %P%n%B")
    assert said.strip() == (
        f"otpy Ann <ann@example.org> {tree.base}\n"
        "Change a\n\nMore.\n\nCost: 1 USD\nOtpy-Workflow: wf-1\nOtpy-Step: step-1"
    )
    wanted = {".gitignore": "*.log\n", "a.txt": "changed\n", "new/ünd\tso.txt": "new\n"}
    assert own_files(git) == wanted
    assert git.status(git.root) == ""
    assert git.git("branch", "--show-current").strip() == "main"
    assert "otpy: wf-1 step-1" in git.git("reflog", "main")
    assert await trees.applied("wf-1", "step-1") == commit
    assert await trees.applied("wf-1", "step") is await trees.applied("wf", "step-1") is None
    await trees.discard(tree)
    assert await trees.applied("wf-1", "step-1", since=tree.base) == commit
    assert list(git.root.glob(".worktrees/*/")) == list(git.root.glob(".git/worktrees/*")) == []


async def test_what_is_changed_after_the_look_is_not_applied(
    git: GitWorld, trees: StepTrees
) -> None:
    """Files that a gate writes are thus not applied; a second look begins at the base."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"first.txt": "first\n", "a.txt": "changed\n"})
    first = await trees.changes(tree)
    (tree.path / "first.txt").unlink()
    git.write(tree.path, {"second.txt": "second\n", "a.txt": "a\n"})
    assert (await trees.changes(tree)).files == ("second.txt",)
    await trees.apply(first, "first")
    assert own_files(git) == {**FRESH, "first.txt": "first\n", "a.txt": "changed\n"}
    tree = await trees.open("wf-1", "step-2", reuse=tree)
    git.git("commit", "-q", "--allow-empty", "-m", "its own", cwd=tree.path)
    git.write(tree.path, {"c.txt": "c\n"})
    git.git("add", "c.txt", cwd=tree.path)
    await trees.apply(await trees.changes(tree), "what is committed or staged counts as it lies")
    assert own_files(git)["c.txt"] == "c\n"
    assert "its own" not in git.git("log", "--format=%s")


async def test_without_a_change_there_is_no_commit(git: GitWorld, trees: StepTrees) -> None:
    """The answer is the base."""
    tree = await trees.open("wf-1", "step-1")
    (tree.path / "a.txt").touch()
    assert await trees.apply(await trees.changes(tree), "nothing") == tree.base == head(git)


async def test_files_may_become_folders_and_links(git: GitWorld, trees: StepTrees) -> None:
    """A folder may become a link, too."""
    tree = await trees.open("wf-1", "step-1")
    (tree.path / "a.txt").unlink()
    git.write(tree.path, {"a.txt/inside.txt": "inside\n"})
    (tree.path / "deep/b.txt").unlink()
    (tree.path / "deep").rmdir()
    (tree.path / "deep").symlink_to("a.txt/inside.txt")
    changes = await trees.changes(tree)
    assert changes.files == ("a.txt", "a.txt/inside.txt", "deep", "deep/b.txt")
    assert changes.links == ()
    await trees.apply(changes, "turn around")
    assert (git.root / "deep").readlink() == Path("a.txt/inside.txt")
    assert git.status(git.root) == ""


async def test_a_file_of_the_user_in_its_way_refuses_and_is_named(
    git: GitWorld, trees: StepTrees
) -> None:
    """The file is changed, staged, untracked or ignored; the user's other changes stay."""
    git.write(git.root, {"touched.txt": "t\n", "free.txt": "free\n", "staged.txt": "s\n"})
    git.commit(git.root)
    tree = await trees.open("wf-1", "step-1")
    names = ("a.txt", "staged.txt", "touched.txt", "new.txt", "some.log", "way/x.txt")
    git.write(tree.path, {**dict.fromkeys(names, "step\n"), ".gitignore": ""})
    (tree.path / "deep/b.txt").unlink()
    changes = await trees.changes(tree)
    theirs = {"a.txt": "mine\n", "staged.txt": "mine\n", "new.txt": "mine\n", "way": "mine\n"}
    git.write(git.root, {**theirs, "some.log": "log\n", "deep/b.txt": "mine\n", "free.txt": "m\n"})
    git.git("add", "staged.txt")
    (git.root / "touched.txt").touch()
    before = own_files(git), git.status(git.root), head(git)
    with pytest.raises(
        ApplyBlocked, match=r"a change of yours that is not committed in a\.txt, de"
    ):
        await trees.apply(changes, "no")
    with pytest.raises(ApplyBlocked) as caught:
        await trees.apply(changes, "no")
    blocked = ("a.txt", "deep/b.txt", "new.txt", "some.log", "staged.txt", "way/x.txt")
    assert caught.value.files == blocked
    assert (own_files(git), git.status(git.root), head(git)) == before
    git.git("reset", "-q")
    git.git("checkout", "-q", "a.txt", "staged.txt", "deep/b.txt")
    for name in ("new.txt", "some.log", "way"):
        (git.root / name).unlink()
    await trees.apply(changes, "now")
    assert git.status(git.root) == " M free.txt\n"


async def test_head_is_checked_and_a_step_can_be_rebased(git: GitWorld, trees: StepTrees) -> None:
    """It then has its own changes and those of HEAD, and is looked at once more."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n", "new.txt": "new\n"})
    (tree.path / "deep/b.txt").unlink()
    changes = await trees.changes(tree)
    git.write(git.root, {"other.txt": "other\n"})
    git.commit(git.root)
    with pytest.raises(HeadMoved) as caught:
        await trees.apply(changes, "no")
    assert (caught.value.base, caught.value.now) == (tree.base, head(git))
    git.write(tree.path, {"gate.txt": "left by a gate\n"})
    moved = await trees.rebase(tree, changes)
    assert moved.base == head(git)
    assert git.status(tree.path) == " M a.txt\n D deep/b.txt\n?? new.txt\n"
    changes = await trees.changes(moved)
    assert changes.files == ("a.txt", "deep/b.txt", "new.txt")
    await trees.apply(changes, "yes")
    wanted = {
        "a.txt": "step\n",
        "new.txt": "new\n",
        "other.txt": "other\n",
        ".gitignore": "*.log\n",
    }
    assert own_files(git) == wanted
    again = await trees.rebase(moved)
    assert again.base == head(git)
    assert (await trees.changes(again)).files == ()


async def test_what_gates_leave_behind_can_be_deleted(git: GitWorld, trees: StepTrees) -> None:
    """The work of the step stays, and so do the files that git ignores."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n", "new.txt": "new\n"})
    (tree.path / "deep/b.txt").unlink()
    changes = await trees.changes(tree)
    git.write(tree.path, {"a.txt": "gate\n", "deep/b.txt": "gate\n", "more/x": "", "x.log": "x\n"})
    (tree.path / "new.txt").unlink()
    await trees.restore(changes)
    wanted = {"a.txt": "step\n", "new.txt": "new\n", ".gitignore": "*.log\n", "x.log": "x\n"}
    assert git.files(tree.path) == wanted
    assert (await trees.changes(tree)).snapshot == changes.snapshot


async def test_a_pruned_work_tree_has_what_is_applied_and_nothing_else(
    git: GitWorld, trees: StepTrees, tmp_path: Path
) -> None:
    """The rest is named: ignored files, repositories, FIFOs, what is in submodules."""
    outside = tmp_path / "outside"
    git.write(outside, {"theirs.txt": "theirs\n"})
    for name in ("module", "deep/module", "linked", "way.log/module"):
        git.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")
    git.git("commit", "-q", "-m", "submodules")
    tree = await trees.open("wf-1", "step-1")
    work = {"a.txt": "step\n", "new/c.txt": "new\n"}
    git.write(tree.path, {**work, "x.log": "", "new/x.log": "", "module/x.txt": "", "b/y.log": ""})
    git.git("init", "-q", "nested", cwd=tree.path)
    git.write(tree.path, {"nested/x": "", "deep/.git/HEAD": ""})
    (tree.path / "new/empty/deeper").mkdir(parents=True)
    (tree.path / "links.log").symlink_to(outside)
    for name in ("deep/pipe", "pipe"):
        os.mkfifo(tree.path / name)
    (tree.path / "linked").rmdir()
    (tree.path / "linked").symlink_to(outside)
    remove_tree(tree.path / "way.log")
    (tree.path / "way.log").symlink_to(outside)
    for folder in (tree.path / "b", tree.path / "new", outside):
        folder.chmod(0o500)
    changes = await trees.changes(tree)
    rest = ("b", "deep/.git", "deep/pipe", "linked", "links.log", "module", "nested", "new/empty")
    assert await trees.prune(changes) == (*rest, "new/x.log", "pipe", "way.log", "x.log")
    assert git.files(tree.path) == {"deep/b.txt": "b\n", ".gitignore": "*.log\n", **work}
    folders = {path.relative_to(tree.path) for path in tree.path.rglob("*") if path.is_dir()}
    modules = {"deep/module", "linked", "module", "way.log/module"}
    assert set(map(str, folders)) == {"deep", "new", "way.log", *modules}
    assert git.files(outside) == {"theirs.txt": "theirs\n"}
    assert outside.stat().st_mode & 0o777 == 0o500
    assert await trees.prune(changes) == ()
    assert (await trees.changes(tree)).snapshot == changes.snapshot


async def test_a_folder_that_git_cannot_list_hides_nothing(git: GitWorld, trees: StepTrees) -> None:
    """A gate could read the files in it, whose names it knows."""
    tree = await trees.open("wf-1", "step-1")
    changes = await trees.changes(tree)
    git.write(tree.path, {"deep/x.log": "", "deep/more.txt": ""})
    (tree.path / "deep").chmod(0o100)
    assert await trees.prune(changes) == ("deep/more.txt", "deep/x.log")
    assert (tree.path / "deep").stat().st_mode & 0o700 == 0o700


async def test_a_conflict_is_told_with_its_files_and_changes_nothing(
    git: GitWorld, trees: StepTrees
) -> None:
    """The work tree of the step stays as it was."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n", "c.txt": "step\n", "d.txt": "step\n"})
    before = git.files(tree.path), git.status(tree.path)
    git.write(git.root, {"a.txt": "mine\n", "c.txt": "mine\n"})
    git.commit(git.root)
    with pytest.raises(ApplyConflict, match=r"conflicts in a\.txt, c\.txt, wanted"):
        await trees.rebase(tree)
    assert (git.files(tree.path), git.status(tree.path)) == before


async def test_a_reused_work_tree_is_as_fresh_as_a_new_one(git: GitWorld, trees: StepTrees) -> None:
    """ENG-19: it is at the new HEAD, with nothing of the last step, not even ignored files."""
    old = await trees.open("wf-1", "step-1")
    git.write(old.path, {"a.txt": "step\n", "x.log": "log\n", "nested/.git/HEAD": "no\n"})
    changes = await trees.changes(old)
    await trees.apply(changes, "first")
    git.write(git.root, {"other.txt": "other\n"})
    git.commit(git.root)
    git.write(old.path, {"deep/b.txt": "spoilt\n", "junk.txt": "junk\n"})
    new = await trees.open("wf-1", "step-2", reuse=old)
    assert not old.path.exists()
    assert git.files(new.path) == {**FRESH, "a.txt": "step\n", "other.txt": "other\n"}
    assert git.status(new.path) == ""
    git.write(new.path, {"other.txt": "step\n"})
    await trees.apply(await trees.changes(new), "second")
    assert git.git("log", "--format=%s").split("\n")[:3] == ["second", "work", "first"]
    assert await trees.find("wf-1", "step-1") is None
    assert await trees.find("wf-1", "step-2") == new
    await trees.discard(new)
    assert git.git("worktree", "list").count("\n") == 1


async def test_a_work_tree_that_cannot_be_handed_on_is_made_new(
    git: GitWorld, trees: StepTrees
) -> None:
    """For example, git does not move a work tree with submodules."""
    git.git("update-index", "--add", "--cacheinfo", f"160000,{head(git)},module")
    git.git("commit", "-q", "-m", "a submodule")
    old = await trees.open("wf-1", "step-1")
    git.write(old.path, {"a.txt": "step\n"})
    changes = await trees.changes(old)
    assert changes.files == ("a.txt",)
    await trees.apply(changes, "beside a submodule")
    new = await trees.open("wf-1", "step-2", reuse=old)
    assert git.files(new.path) == {**FRESH, "a.txt": "step\n"}
    assert not old.path.exists()
    assert git.git("ls-files", "-s", "module").startswith("160000")


async def test_it_works_on_a_detached_head_and_in_a_linked_work_tree(
    git: GitWorld, tmp_path: Path
) -> None:
    """The commit comes after HEAD in both."""
    git.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    trees = StepTrees(linked / "deep")
    tree = await trees.open("wf-1", "step-1")
    assert tree.path == linked / ".worktrees/wf-1-step-1"
    git.write(tree.path, {"a.txt": "step\n"})
    commit = await trees.apply(await trees.changes(tree), "detached")
    assert git.git("rev-parse", "HEAD", cwd=linked).strip() == commit
    assert git.status(linked) == ""
    assert head(git) == tree.base
    assert await trees.settle(tree) == commit
    trees.close()


async def test_what_was_applied_is_taken_back_by_a_commit(git: GitWorld, trees: StepTrees) -> None:
    """Rollback never rewrites, and what the user did meanwhile stays (C-45)."""
    commits: list[str] = []
    start = head(git)
    for number in (1, 2):
        tree = await trees.open("wf-1", f"step-{number}")
        git.write(tree.path, {"a.txt": f"{number}\n", f"{number}.txt": "new\n"})
        commits.append(await trees.apply(await trees.changes(tree), f"Step {number}"))
        await trees.discard(tree)
        git.write(git.root, {f"mine-{number}.txt": "mine\n"})
        git.commit(git.root, "mine")
    applied = await trees.commits_since(start)
    assert [(one.commit, one.step) for one in applied] == [
        (commits[1], "step-2"),
        (commits[0], "step-1"),
    ]
    git.write(git.root, {"2.txt": "in the way\n"})
    with pytest.raises(ApplyBlocked, match=r"2\.txt"):
        await trees.revert([one.commit for one in applied], "Roll back")
    git.git("checkout", "-q", "2.txt")
    last = head(git)
    made = await trees.revert([one.commit for one in applied], "Roll back")
    assert git.git("rev-parse", "HEAD^").strip() == last
    assert git.git("log", "-1", "--format=%B").count("This reverts commit") == 2
    assert own_files(git) == {**FRESH, "mine-1.txt": "mine\n", "mine-2.txt": "mine\n"}
    assert git.status(git.root) == ""
    assert await trees.commits_since(made) == ()
    with pytest.raises(ApplyConflict, match=r"1\.txt"):
        git.write(git.root, {"1.txt": "later\n"})
        git.commit(git.root)
        await trees.revert([commits[0]], "again")


async def test_files_of_a_commit_can_be_read(git: GitWorld, trees: StepTrees) -> None:
    """The files of the base decide about gates, not those of the work tree."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "worker\n"})
    assert await trees.show(tree.base, "a.txt") == "a\n"
    assert await trees.show(tree.base, "deep") is await trees.show(tree.base, "none") is None


async def test_a_step_belongs_to_one_process(git: GitWorld, trees: StepTrees) -> None:
    """Another process may have it once the first is gone, and finds no step that is at work."""
    tree = await trees.open("wf-1", "step-1")
    other = StepTrees(git.root)
    assert await other.leftovers() == ()
    for call in (other.open("wf-1", "step-1"), other.settle(tree), other.discard(tree)):
        with pytest.raises(StepTreeTaken, match=r"process \d+ works on"):
            await call
    trees.close()
    assert await other.leftovers() == (tree,)
    fresh = await other.open("wf-1", "step-1")
    assert fresh == tree
    assert await other.leftovers() == ()
    assert await other.settle(tree) is None
    assert await other.find("wf-1", "step-1") is None


async def test_what_is_not_ours_is_left_alone(git: GitWorld, trees: StepTrees) -> None:
    """A folder in its place, the changeset of a list, another step of the same name."""
    git.write(git.root, {".worktrees/wf-1-x/mine.txt": "mine\n"})
    with pytest.raises(StepTreeTaken, match="something else"):
        await trees.open("wf-1", "x")
    changeset = await git.changesets.open("zip")
    with pytest.raises(StepTreeTaken, match="something else"):
        await trees.open("p", "zip")
    assert git.files(changeset.path) == FRESH
    await trees.open("wf-1-a", "b")
    with pytest.raises(StepTreeTaken, match="of wf-1-a b"):
        await trees.open("wf-1", "a-b")
    assert [one.assignment for one in await git.changesets.all()] == ["zip"]
    assert (git.root / ".worktrees/wf-1-x/mine.txt").exists()


async def test_names_links_and_folders_that_cannot_be_are_refused(
    git: GitWorld, trees: StepTrees, tmp_path: Path
) -> None:
    """ENG-17: `..` in an id, a link in the path, no repository."""
    for workflow, step in (("..", "x"), ("wf/../..", "x"), ("wf", "../x"), ("wf", "")):
        with pytest.raises(InvalidChangeset):
            await trees.open(workflow, step)
    (tmp_path / "elsewhere").mkdir()
    (git.root / ".worktrees").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SymlinkInPath):
        await trees.open("wf-1", "step-1")
    with pytest.raises(NotARepository):
        await StepTrees(tmp_path / "elsewhere").open("wf-1", "step-1")


async def test_a_merge_that_the_user_has_not_finished_refuses(
    git: GitWorld, trees: StepTrees
) -> None:
    """HEAD must not move during a merge."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n"})
    changes = await trees.changes(tree)
    (git.root / ".git/MERGE_HEAD").write_text(f"{tree.base}\n")
    with pytest.raises(ApplyBlocked, match="MERGE_HEAD"):
        await trees.apply(changes, "no")
    assert not (git.root / ".git/index.lock").exists()


async def test_a_git_of_the_user_at_work_is_waited_for_and_told(
    git: GitWorld, trees: StepTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is never taken away."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n"})
    changes = await trees.changes(tree)
    lock = git.root / ".git/index.lock"
    lock.touch()
    monkeypatch.setattr(publication, "PATIENCE", 0.05)
    with pytest.raises(WorktreeLocked, match=r"index\.lock"):
        await trees.apply(changes, "no")
    assert lock.exists()
    monkeypatch.setattr(publication, "PATIENCE", 5.0)
    asyncio.get_running_loop().call_later(0.1, lock.unlink)
    assert await trees.apply(changes, "yes") == head(git)


async def test_a_cancelled_apply_has_happened_as_a_whole(git: GitWorld, trees: StepTrees) -> None:
    """Once it has begun it is carried to its end."""
    for turn in range(4):
        tree = await trees.open("wf-1", f"step-{turn}")
        git.write(tree.path, {"a.txt": f"{turn}\n"})
        changes = await trees.changes(tree)
        task = asyncio.ensure_future(trees.apply(changes, "cancelled"))
        await asyncio.sleep(turn * 0.015)
        task.cancel()
        await asyncio.wait({task})
        assert git.status(git.root) == ""
        done = await trees.settle(tree)
        assert (done == head(git)) is (own_files(git)["a.txt"] == f"{turn}\n")


@pytest.mark.parametrize("settings", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
async def test_files_look_as_the_user_has_set_it(tmp_path: Path, settings: tuple[str, ...]) -> None:
    """Line endings are those of the user, for any form of index and objects."""
    git = GitWorld(tmp_path, settings)
    git.write(git.root, {".gitattributes": "*.txt text eol=crlf\n"})
    git.commit(git.root)
    for name, value in (("core.splitIndex", "true"), ("splitIndex.maxPercentChange", "0")):
        git.git("config", name, value)
    git.git("update-index", "--split-index", "--untracked-cache", "--force-write-index")
    trees = StepTrees(git.root)
    tree = await trees.open("wf-1", "step-1")
    assert (tree.path / "a.txt").read_bytes() == b"a\r\n"
    (tree.path / "a.txt").write_bytes(b"step\r\n")
    changes = await trees.changes(tree)
    assert changes.files == ("a.txt",)
    git.git("commit", "-q", "--allow-empty", "-m", "other")
    tree = await trees.rebase(tree, changes)
    commit = await trees.apply(await trees.changes(tree), "text")
    assert git.show(f"{commit}:a.txt") == "step\n"
    assert (git.root / "a.txt").read_bytes() == b"step\r\n"
    assert git.status(git.root) == git.status(tree.path).replace(" M a.txt\n", "") == ""
    trees.close()


async def test_a_work_tree_whose_rebase_was_cut_is_not_looked_at(
    git: GitWorld, trees: StepTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the work could be missing in it."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"a.txt": "step\n"})
    git.git("commit", "-q", "--allow-empty", "-m", "other")

    async def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step_trees, "move_head", cut)
        with pytest.raises(KeyboardInterrupt):
            await trees.rebase(tree)
    with pytest.raises(StepTreeTaken, match="half rebased"):
        await trees.changes(tree)
    assert await trees.settle(tree) is None


async def test_a_large_file_is_applied_and_not_shown(git: GitWorld, trees: StepTrees) -> None:
    """A patch is read by people and models."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {"large.txt": "x" * 2_000_000, "small.txt": "small\n"})
    changes = await trees.changes(tree)
    shown = await trees.diff(changes)
    assert "+small" in shown
    assert len(shown) < 1000
    await trees.apply(changes, "large")
    assert (git.root / "large.txt").stat().st_size == 2_000_000


# --- what the system refuses ----------------------------------------------------------------------


async def test_a_file_in_the_place_of_the_work_trees_is_named(
    git: GitWorld, trees: StepTrees
) -> None:
    """What was begun for the step can be discarded all the same."""
    (git.root / ".worktrees").write_text("x")
    with pytest.raises(StepTreeUnwritable, match=r"/\.worktrees: got 'File exists', wanted a file"):
        await trees.open("wf-1", "step-1")
    tree = await trees.find("wf-1", "step-1")
    assert tree is not None
    await trees.discard(tree)
    assert await trees.find("wf-1", "step-1") is None


@pytest.mark.parametrize(
    ("names", "named"),
    [((), "repository"), (("/a",), "/a"), (("/a", None, "/b"), "/b")],
)
async def test_a_full_disk_is_one_line_that_names_the_file_which_finds_no_room(
    git: GitWorld, trees: StepTrees, monkeypatch: pytest.MonkeyPatch, names: tuple[str], named: str
) -> None:
    """A copy names two files, a write names none."""
    tree = await trees.open("wf-1", "step-1")

    async def full(*args: object) -> None:
        raise OSError(28, "No space left on device", *names)

    monkeypatch.setattr(step_trees, "snapshot", full)
    with pytest.raises(StepTreeUnwritable, match=f"{named}: got 'No space left on device', wanted"):
        await trees.changes(tree)


async def test_what_cannot_be_deleted_is_named_by_its_work_tree(
    git: GitWorld, trees: StepTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone of a file somewhere inside would tell nobody where it is."""
    tree = await trees.open("wf-1", "step-1")

    def kept(*args: object, **more: object) -> None:
        raise PermissionError(1, "Operation not permitted", "x")

    (tree.path / ".git").unlink()  # so that git does not delete it
    monkeypatch.setattr("shutil.rmtree", kept)
    with pytest.raises(StepTreeUnwritable, match=f"^{tree.path}: got 'Operation not permitted'"):
        await trees.discard(tree)
