"""A changeset has an owner on disk and a lock: no other list takes it or puts it away."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from otpy_agents.errors import ChangesetError, ChangesetTaken, WorktreeLocked
from otpy_agents.workspace import ChangesetOwner, Changesets
from otpy_agents.workspace.claims import Claim, claim_file, is_ours
from tests.agents.workspace.git_world import GitWorld

pytestmark = pytest.mark.real_time

OLD = "otpy/zip"


def list_of(git: GitWorld, folder: str, identity: str) -> Changesets:
    """Return the changesets of the work list in a folder, and make its ledger."""
    ledger = git.root.parent / folder / "nightly.sqlite"
    ledger.parent.mkdir(exist_ok=True)
    ledger.touch()
    owner = ChangesetOwner(identity, str(ledger))
    return Changesets(git.root, project="nightly", owner=owner, clock=git.now)


@pytest.mark.parametrize(
    ("identity", "ledger", "left", "ours"),
    [
        ("one", "/a", False, True),
        ("two", "/a", False, True),  # the ledger was deleted, and made again
        ("one", "/b", True, True),  # the list was moved
        ("one", "/b", False, False),  # the list was copied
        ("two", "/b", True, False),
        ("two", "/b", False, False),
        ("", "", False, False),
    ],
)
def test_a_list_is_known_by_its_ledger_and_where_that_lies(
    identity: str, ledger: str, left: bool, ours: bool
) -> None:
    """A list that was moved stays the owner; a copy of it, which has its identity, is another."""
    claim = Claim(identity=identity, ledger=ledger, assignment="zip")
    assert is_ours(claim, ChangesetOwner("one", "/a"), left=left) is ours
    assert not is_ours(
        Claim(identity="", ledger="/a", assignment="zip"), ChangesetOwner(), left=True
    )
    assert is_ours(Claim(identity="", ledger="", assignment="zip"), ChangesetOwner(), left=False)


async def test_the_owner_is_written_down_beside_the_repository(git: GitWorld) -> None:
    """The record has list, assignment and digest; the work tree does not see it."""
    ours = list_of(git, "a", "one")
    async with ours.hold("fix", digest="d1"):
        made = await ours.open("fix")
    assert made.branch == "otpy/nightly/fix"
    said = json.loads(claim_file(git.root / ".git", "nightly", "fix").read_text())
    ledger = str(git.root.parent / "a/nightly.sqlite")
    assert said == {"identity": "one", "ledger": ledger, "assignment": "fix", "digest": "d1"}
    assert git.status(made.path) == git.status(git.root) == ""


async def opened(changesets: Changesets) -> None:
    await changesets.open("fix")


async def checked(changesets: Changesets) -> None:
    await changesets.check("fix")


async def held(changesets: Changesets) -> None:
    async with changesets.hold("fix"):
        pytest.fail("held")


@pytest.mark.parametrize("ask", [opened, checked, held])
async def test_a_second_list_of_the_same_name_is_refused_whenever_it_comes(
    git: GitWorld, ask: Callable[[Changesets], Awaitable[None]]
) -> None:
    """It is refused during the work, afterwards, and after the removal; nothing changes."""
    first, second = list_of(git, "a", "one"), list_of(git, "b", "two")
    made = await first.open("fix")
    git.write(made.path, {"a.txt": "first\n"})
    before = (git.everything(), git.branches())

    async def refused(of: str) -> None:
        with pytest.raises(ChangesetTaken, match=rf"{of}.*a/nightly\.sqlite"):
            await ask(second)

    async with first.hold("fix"):
        with pytest.raises(ChangesetTaken, match=r"that process \d+ works on"):
            await ask(second)
    await refused("a work tree of")
    assert (git.everything(), git.branches()) == before
    assert await second.all() == ()
    assert not await second.removable(made)
    for take in (second.remove(made), second.put_away(made, "begun anew")):
        with pytest.raises(ChangesetTaken):
            await take
    git.commit(made.path)
    await first.remove(made)
    await refused("the branch otpy/nightly/fix of")
    git.git("branch", "-D", "otpy/nightly/fix")
    await second.open("fix")


async def test_a_changeset_is_held_by_one_at_a_time(git: GitWorld) -> None:
    """Another host with the same ledger, as after a copy of a whole machine, is kept out."""
    first, again = list_of(git, "a", "one"), list_of(git, "a", "one")
    async with first.hold("fix"):
        await first.open("fix")
        for ask in (opened, checked, held):
            with pytest.raises(ChangesetTaken, match="wanted one that nobody works on"):
                await ask(again)
        await again.open("other")
    async with again.hold("fix"):
        await again.open("fix")


async def test_a_list_that_moved_or_lost_its_ledger_keeps_its_work(git: GitWorld) -> None:
    """The moved list is known by its identity, the other one by its place."""
    made = await list_of(git, "a", "one").open("fix")
    git.write(made.path, {"a.txt": "ours\n"})
    assert await list_of(git, "a", "made anew").open("fix") == made
    shutil.rmtree(git.root.parent / "a")
    assert await list_of(git, "b", "made anew").open("fix") == made
    assert git.files(made.path)["a.txt"] == "ours\n"


async def test_discarded_work_of_another_list_is_left_to_it(git: GitWorld) -> None:
    """Work of earlier versions does not name its list: every list deletes it by its age."""
    made = await git.changesets.open("zip")
    git.write(made.path, {"a.txt": "work\n"})
    await git.changesets.discard(made, "stall")
    git.git("branch", "otpy/discarded/zip/20231114T221320-000000")
    later = float("inf")
    assert [one.assignment for one in await git.changesets.expired(later)] == ["zip", "zip"]
    (old,) = await git.host("q").expired(later)
    assert (old.assignment, old.branch.count("/")) == ("zip", 3)


async def test_what_nobody_can_read_is_refused_by_name(git: GitWorld) -> None:
    """A record that is spoilt does not free its changeset."""
    made = await git.changesets.open("zip")
    file = claim_file(git.root / ".git", "p", "zip")
    file.write_text("[]")
    with pytest.raises(ChangesetTaken, match="delete that file if the changeset is yours"):
        await git.host().open("zip")
    assert await git.host().all() == ()
    file.unlink()
    assert await git.host().open("zip") == made


async def test_a_folder_that_takes_no_record_is_one_error(git: GitWorld) -> None:
    """For example, a file is in its place."""
    (git.root / ".git/otpy-owners").touch()
    with pytest.raises(ChangesetError, match="got no lock"):
        await git.changesets.open("zip")


# --- what is in the way is found by `check` as by `open` ------------------------------------------


def branch_elsewhere(git: GitWorld) -> str:
    git.git("branch", "-m", "otpy/p/zip", "mine")
    git.git("checkout", "-q", "-b", "otpy/p/zip")
    return "its branch in use at"


def hand_made(git: GitWorld) -> str:
    git.git("worktree", "remove", ".worktrees/p-zip")
    shutil.rmtree(git.root / ".git/otpy-owners")
    git.git("branch", "-D", "otpy/p/zip")
    git.git("worktree", "add", "-q", "-b", "mine", ".worktrees/p-zip")
    return "a work tree without an owner"


def unknown_branch(git: GitWorld) -> str:
    git.git("worktree", "remove", ".worktrees/p-zip")
    shutil.rmtree(git.root / ".git/otpy-owners")
    return "the branch otpy/p/zip without an owner"


def another_repository(git: GitWorld) -> str:
    tree = git.root / ".worktrees/p-zip"
    (tree / ".git").unlink()
    git.git("init", "-q", cwd=tree)
    return "a work tree of .*p-zip/.git"


def another_link(git: GitWorld) -> str:
    tree = git.root / ".worktrees/p-zip"
    (tree / ".git").write_text(f"gitdir: {git.root}/.git\n")
    return "a work tree of .*/.git, wanted one of"


@pytest.mark.parametrize(
    "spoil", [branch_elsewhere, hand_made, unknown_branch, another_repository, another_link]
)
async def test_a_check_refuses_what_open_would(
    git: GitWorld, spoil: Callable[[GitWorld], str]
) -> None:
    """Both use the same words, and both leave everything as it is."""
    await git.changesets.open("zip")
    words = spoil(git)
    before = (git.everything(), git.branches(), git.git("worktree", "list"))
    for ask in (git.host().check, git.host().open):
        with pytest.raises(ChangesetTaken, match=words):
            await ask("zip")
    assert (git.everything(), git.branches(), git.git("worktree", "list")) == before


async def test_a_locked_work_tree_that_is_gone_is_found_by_the_check(git: GitWorld) -> None:
    """It is on a disk that is not mounted: git must remember it."""
    made = await git.changesets.open("zip")
    git.git("worktree", "lock", "--reason", "usb", str(made.path))
    shutil.rmtree(made.path)
    for ask in (git.host().check, git.host().open):
        with pytest.raises(WorktreeLocked, match="usb"):
            await ask("zip")


# --- what earlier versions left -------------------------------------------------------------------


async def earlier_version(git: GitWorld, project: str = "nightly") -> Path:
    """Leave the state of an earlier version: no record of an owner, and a branch without a list."""
    changesets = Changesets(git.root, project=project, clock=git.now)
    made = await changesets.open("zip")
    git.write(made.path, {"a.txt": "committed\n"})
    git.commit(made.path)
    git.write(made.path, {"new.txt": "new\n"})
    shutil.rmtree(git.root / ".git/otpy-owners")
    git.git("branch", "-m", made.branch, OLD)
    return made.path


async def test_work_of_an_earlier_version_is_adopted_by_the_list_that_began_it(
    git: GitWorld,
) -> None:
    """Its branch gets the new name; nothing of it is lost."""
    tree = await earlier_version(git)
    ours = list_of(git, "a", "one")
    async with ours.hold("zip", begun=True):
        made = await ours.open("zip")
    assert (made.path, git.branches()) == (tree, ["otpy/nightly/zip"])
    assert git.files(tree)["new.txt"] == "new\n"
    assert git.show("otpy/nightly/zip:a.txt") == "committed\n"
    with pytest.raises(ChangesetTaken, match=r"a/nightly\.sqlite"):
        await list_of(git, "b", "two").check("zip")


@pytest.mark.parametrize("emptied", [False, True])
async def test_work_of_an_earlier_version_is_refused_to_a_list_that_did_not_begin_it(
    git: GitWorld, emptied: bool
) -> None:
    """It may be that of another list of this name; the error says how to move it away."""
    tree = await earlier_version(git)
    for path in [one for one in tree.rglob("*") if one.is_file() and emptied]:
        if path.name != ".git":
            path.unlink()
    before = (git.everything(), git.branches())
    ours = list_of(git, "a", "one")
    for ask in (ours.check("zip", begun=False), ours.hold("zip", begun=False).__aenter__()):
        with pytest.raises(ChangesetTaken, match="take it away with `git worktree move`"):
            await ask
    assert await ours.all() == ()
    assert (git.everything(), git.branches()) == before
    git.git("worktree", "move", str(tree), str(tree.with_name("mine")))
    await ours.open("zip")


async def test_an_earlier_branch_named_as_the_list_gives_way(git: GitWorld) -> None:
    """A list `zip` with an assignment `zip`: its old branch is in the way of its new one."""
    await earlier_version(git, "zip")
    ours = Changesets(git.root, project="zip", clock=git.now)
    await ours.check("zip")
    await ours.open("zip")
    assert git.branches() == ["otpy/zip/zip"]


# --- behind walls ---------------------------------------------------------------------------------


async def test_an_agent_behind_walls_may_write_little_of_the_repository(git: GitWorld) -> None:
    """It may write objects, the branches of its list, and its work tree's records but its links."""
    made = await git.changesets.open("zip")
    git.git("pack-refs", "--all")  # which deletes the folders of branches
    mounts = await git.changesets.mounts("zip")
    common = git.root / ".git"
    own = common / "worktrees/p-zip"
    writable = {mount.source for mount in mounts if mount.writable}
    branches = {common / "refs/heads/otpy/p", common / "logs/refs/heads/otpy/p"}
    assert writable == {common / "objects", *branches, own}
    sealed = {mount.source for mount in mounts if not mount.writable} - {common}
    names = ("commondir", "config.worktree", "gitdir", "otpy")
    assert sealed == {*(own / name for name in names), made.path / ".git"}
    assert all(mount.source.exists() for mount in mounts)
    assert await git.changesets.mounts("zap") == ()
