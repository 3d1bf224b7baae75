"""An apply that was cut after it was decided is completed, and nothing of the user is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.workspace import StepTrees
from otpy_agents.workspace.git import Git, GitAnswer
from tests.agents.workspace.git_world import GitWorld

pytestmark = pytest.mark.real_time

LONG = "line\n" * 3000
WANTED = {
    ".gitignore": "*.log\n",
    "a.txt": "step\n",
    "deep/b.txt": "step\n",
    "long.txt": LONG,
    "new/c.txt": "step\n",
}


class Cut(BaseException):
    """Stands in for the end of the host."""


@pytest.fixture
async def cut(git: GitWorld, monkeypatch: pytest.MonkeyPatch) -> GitWorld:
    """A repository whose branch was moved on, but whose index and files were not."""
    git.write(git.root, {"long.txt": "short\n", "gone.txt": "gone\n"})
    git.commit(git.root)
    trees = StepTrees(git.root)
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, WANTED)
    (tree.path / "gone.txt").unlink()
    changes = await trees.changes(tree)
    real = Git._communicate

    async def communicate(
        self: Git, where: Path, args: tuple[str, ...], *rest: object
    ) -> GitAnswer:
        answer = await real(self, where, args, *rest)  # type: ignore[arg-type]
        if args[0] == "update-ref":
            raise Cut
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Git, "_communicate", communicate)
        with pytest.raises(Cut):
            await trees.apply(changes, "cut")
    trees.close()
    assert git.status(git.root) != ""
    assert (git.root / ".git/index.lock").exists()
    return git


@pytest.fixture
def host(cut: GitWorld) -> Iterator[StepTrees]:
    """The next host."""
    made = StepTrees(cut.root)
    yield made
    made.close()


def own_files(git: GitWorld) -> dict[str, str]:
    found = git.files(git.root)
    return {name: text for name, text in found.items() if not name.startswith(".worktrees")}


async def test_the_files_are_brought_along(cut: GitWorld, host: StepTrees) -> None:
    """The first call does it; for the second nothing is left to do."""
    for _ in range(2):
        await host.settle_apply()
        assert own_files(cut) == WANTED
        assert cut.status(cut.root) == ""
        assert not (cut.root / ".git/index.lock").exists()


async def test_half_of_the_files_may_be_there_already(cut: GitWorld, host: StepTrees) -> None:
    """Some are written, some are deleted, and one was left half written by a killed git."""
    half = {"a.txt": "step\n", "new/c.txt": "step\n", "long.txt": LONG[:1000]}
    cut.write(cut.root, half)
    (cut.root / "gone.txt").unlink()
    (cut.root / "deep/b.txt").unlink()
    await host.settle_apply()
    assert own_files(cut) == WANTED
    assert cut.status(cut.root) == ""


async def test_what_the_user_wrote_meanwhile_stays(cut: GitWorld, host: StepTrees) -> None:
    """It becomes a change of the user to the applied files."""
    cut.write(cut.root, {"a.txt": "mine\n", "new/c.txt": "mine\n", "gone.txt": "mine\n"})
    await host.settle_apply()
    theirs = {"a.txt": "mine\n", "new/c.txt": "mine\n", "gone.txt": "mine\n"}
    assert own_files(cut) == {**WANTED, **theirs}
    assert set(cut.status(cut.root).splitlines()) == {" M a.txt", " M new/c.txt", "?? gone.txt"}


async def test_the_next_apply_completes_the_last(cut: GitWorld, host: StepTrees) -> None:
    """The caller need not know of it."""
    tree = await host.open("wf-2", "step-1")
    cut.write(tree.path, {"a.txt": "next\n"})
    await host.apply(await host.changes(tree), "next")
    assert own_files(cut) == {**WANTED, "a.txt": "next\n"}
    assert cut.status(cut.root) == ""
    (left,) = [one for one in await host.leftovers() if one.workflow == "wf-1"]
    assert await host.settle(left) == tree.base


async def test_a_branch_that_went_on_keeps_what_was_applied(cut: GitWorld, host: StepTrees) -> None:
    """For example, a push from elsewhere moves it without a lock."""
    made = cut.git("commit-tree", "-p", "HEAD", "-m", "later", "HEAD^{tree}").strip()
    cut.git("update-ref", "HEAD", made)
    await host.settle_apply()
    assert own_files(cut) == WANTED
    assert cut.status(cut.root) == ""
