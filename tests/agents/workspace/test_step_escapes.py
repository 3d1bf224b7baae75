"""Attacks of a worker: nothing of it runs, leads out, or decides about itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otpy_agents.errors import ApplyBlocked, ChangesetError, StepTreeTaken
from otpy_agents.workspace import StepTree, StepTrees
from tests.agents.workspace.git_world import GitWorld

pytestmark = pytest.mark.real_time

GATES = ".supervisor/gates.yaml"


ATTRIBUTES = {".gitattributes": "* filter=evil diff=evil merge=evil\n"}


class Trap:
    """A program that leaves a trace when it runs."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace"
        self.program = folder / "trap"
        self.program.write_text(f'#!/bin/sh\necho "$0" >> {self.trace}\ncat\n')
        self.program.chmod(0o755)

    def check(self, git: GitWorld, where: Path) -> None:
        """Check that it has not run, and that it does run if git is called there by hand."""
        assert not self.trace.exists(), self.trace.read_text()
        git.write(where, {**ATTRIBUTES, "bait.txt": "bait\n"})
        for command in (("status",), ("add", "bait.txt")):
            with contextlib.suppress(subprocess.CalledProcessError):
                git.git(*command, cwd=where)
        assert self.trace.exists()


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    """A trap for each test."""
    return Trap(tmp_path)


@pytest.fixture
def trees(git: GitWorld) -> Iterator[StepTrees]:
    """The work trees of a host; there is a gate."""
    git.write(git.root, {GATES: "test: true\n"})
    git.commit(git.root)
    made = StepTrees(git.root)
    yield made
    made.close()


def arm(git: GitWorld, trap: Trap, folder: Path | None = None) -> None:
    """Put the trap wherever the configuration of a repository can name a program."""
    for name in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        *("diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "diff.external"),
        *("core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "gpg.program"),
        *("alias.status", "core.alternateRefsCommand", "credential.helper"),
    ):
        git.git("config", name, str(trap.program), cwd=folder)
    git.git("config", "filter.evil.required", "true", cwd=folder)
    git.git("config", "log.showSignature", "true", cwd=folder)
    hooks = (folder or git.root) / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in (
        *("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout"),
        *(
            "reference-transaction",
            "post-index-change",
            "post-merge",
            "pre-auto-gc",
            "post-rewrite",
        ),
    ):
        (hooks / hook).symlink_to(trap.program)


async def whole_life(git: GitWorld, trees: StepTrees) -> None:
    """Have a step go through all its operations."""
    tree = await trees.open("wf-1", "step-1")
    git.write(tree.path, {**ATTRIBUTES, "a.txt": "1\n2\n3\n", "new.txt": "new\n"})
    changes = await trees.changes(tree, isolated=True)
    assert "+new" in await trees.diff(changes)
    head = git.git("rev-parse", "HEAD").strip()
    user = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
    plain = git.git(*user, "commit-tree", "-p", head, "-m", "other", f"{head}^{{tree}}")
    git.git(*user, "update-ref", "HEAD", plain.strip())
    tree = await trees.rebase(tree, changes)
    changes = await trees.changes(tree, isolated=True)
    await trees.restore(changes)
    commit = await trees.apply(changes, "Apply")
    tree = await trees.open("wf-1", "step-2", reuse=tree)
    await trees.revert([commit], "Revert")
    await trees.show(commit, "a.txt")
    await trees.settle_apply()
    await trees.discard(tree)


async def test_nothing_of_the_repository_runs(
    git: GitWorld, trees: StepTrees, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hook, monitor, filter, driver, alias or signature runs, under any configuration."""
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    arm(git, trap)
    git.write(git.root, ATTRIBUTES)
    made = trees
    with pytest.raises(ApplyBlocked, match="a filter of yours"):
        await whole_life(git, made)
    for name in ("clean", "smudge", "process", "required"):
        git.git("-c", "core.fsmonitor=false", "config", "--unset", f"filter.evil.{name}")
    (git.root / ".gitattributes").unlink()
    await whole_life(git, made)
    trap.check(git, git.root)


async def test_a_worker_without_a_sandbox_changes_no_configuration(
    git: GitWorld, trees: StepTrees, trap: Trap
) -> None:
    """A change is reported, undone and put aside; what `git switch` writes there stays."""
    git.write(git.root / ".git/hooks", {"pre-push": "mine\n"})
    tree = await trees.open("wf-1", "step-1")
    git.git("config", "branch.main.remote", "origin")
    assert (await trees.changes(tree)).tampered == ()
    config = (git.root / ".git/config").read_text()
    arm(git, trap)
    (git.root / ".git/hooks/pre-push").write_text("theirs\n")
    (git.root / ".git/hooks/commit-msg").unlink()
    git.write(git.root / ".git", {"info/attributes": "* filter=evil\n"})
    changes = await trees.changes(tree)
    assert changes.tampered[:2] == (".git/config", ".git/hooks/post-checkout")
    assert {".git/info/attributes", ".git/hooks/pre-push"} <= {*changes.tampered}
    assert (git.root / ".git/config").read_text() == config
    assert (git.root / ".git/hooks/pre-push").read_text() == "mine\n"
    assert not (git.root / ".git/hooks/pre-commit").is_symlink()
    aside = git.root / ".git/otpy-steps/undone/1"
    assert (aside / "hooks/pre-push").read_text() == "theirs\n"
    assert "evil" in (aside / "config").read_text()
    assert (await trees.changes(tree)).tampered == ()
    arm(git, trap)
    trap.check(git, git.root)


async def test_the_user_changes_his_configuration_beside_an_isolated_worker(
    git: GitWorld, trees: StepTrees
) -> None:
    """It belongs to the user."""
    tree = await trees.open("wf-1", "step-1")
    git.git("remote", "add", "origin", "https://example.org/x")
    assert (await trees.changes(tree, isolated=True)).tampered == ()
    assert "origin" in git.git("remote")


def edited(tree: StepTree) -> None:
    (tree.path / GATES).write_text("test: 'false'\n")
    (tree.path / ".supervisor/approval.yaml").write_text("plans: auto\n")


def deleted(tree: StepTree) -> None:
    (tree.path / GATES).unlink()


def linked(tree: StepTree) -> None:
    (tree.path / GATES).unlink()
    (tree.path / ".supervisor").rmdir()
    (tree.path / ".supervisor").symlink_to("/etc")


@pytest.mark.parametrize("change", [edited, deleted, linked])
async def test_a_worker_does_not_change_its_gates(
    git: GitWorld, trees: StepTrees, change: Callable[[StepTree], None]
) -> None:
    """Other files that decide about it stay, too: changes are undone, the rest is applied."""
    tree = await trees.open("wf-1", "step-1")
    change(tree)
    git.write(tree.path, {"a.txt": "step\n"})
    changes = await trees.changes(tree)
    assert changes.tampered
    assert all(name.startswith(".supervisor") for name in changes.tampered)
    assert changes.files == ("a.txt",)
    folder = tree.path / ".supervisor"
    assert [path.name for path in folder.iterdir()] == ["gates.yaml"]
    assert (tree.path / GATES).read_text() == "test: true\n"
    assert await trees.show(tree.base, GATES) == "test: true\n"
    await trees.apply(changes, "the rest")
    assert git.status(git.root) == ""


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../../../x", "deep/../../x", ".git/config", "deep/../.GIT", "hop/../../x"],
)
async def test_links_that_lead_out_are_named_and_not_applied(
    git: GitWorld, trees: StepTrees, target: str
) -> None:
    """They are absolute, use `..`, lead into the git folder, or go by way of another link."""
    tree = await trees.open("wf-1", "step-1")
    (tree.path / "deep/er").mkdir()
    git.write(tree.path, {"deep/er/x.txt": "x\n"})
    (tree.path / "deep/er/hop").symlink_to("..")
    (tree.path / "deep/er/inside").symlink_to("../b.txt")
    out = target.replace("hop", "deep/er/hop")
    (tree.path / "out").symlink_to(out)
    changes = await trees.changes(tree)
    assert changes.links == ("out",)
    with pytest.raises(ApplyBlocked, match="lead out of the repository in out"):
        await trees.apply(changes, "no")
    assert "out" not in os.listdir(git.root)  # noqa: PTH208 - names, not paths


async def test_a_folder_that_became_a_link_is_not_followed(
    git: GitWorld, trees: StepTrees, tmp_path: Path
) -> None:
    """Neither a look nor a rebase, a reuse or a deletion of the work tree follows it."""
    outside = tmp_path / "outside"
    git.write(outside, {"b.txt": "secret\n", "keep/c.txt": "c\n"})
    tree = await trees.open("wf-1", "step-1")
    (tree.path / "deep/b.txt").unlink()
    (tree.path / "deep").rmdir()
    (tree.path / "deep").symlink_to(outside)
    changes = await trees.changes(tree)
    assert changes.files == ("deep", "deep/b.txt")
    assert changes.links == ("deep",)
    assert "secret" not in await trees.diff(changes)
    git.write(git.root, {"deep/b.txt": "theirs\n"})
    git.commit(git.root)
    with pytest.raises(ChangesetError):
        await trees.rebase(tree, changes)
    git.write(git.root, {"deep/b.txt": "b\n", "deep/n.txt": "n\n"})
    git.commit(git.root)
    with pytest.raises(ChangesetError):
        await trees.rebase(tree, changes)
    fresh = await trees.open("wf-1", "step-2", reuse=tree)
    assert git.files(fresh.path)["deep/b.txt"] == "b\n"
    (fresh.path / "deep/n.txt").unlink()
    (fresh.path / "deep/b.txt").unlink()
    (fresh.path / "deep").rmdir()
    (fresh.path / "deep").symlink_to(outside)
    await trees.discard(fresh)
    assert git.files(outside) == {"b.txt": "secret\n", "keep/c.txt": "c\n"}


async def test_repositories_inside_are_neither_entered_nor_applied(
    git: GitWorld, trees: StepTrees, trap: Trap
) -> None:
    """The worker made one, and filled a submodule; each has a trap."""
    git.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git.git("commit", "-q", "-m", "a submodule")
    tree = await trees.open("wf-1", "step-1")
    for name in ("nested", "module"):
        folder = tree.path / name
        folder.mkdir(exist_ok=True)
        git.git("init", "-q", cwd=folder)
        git.write(folder, {**ATTRIBUTES, "x.txt": "x\n"})
        git.git("add", "-A", cwd=folder)
        git.git("commit", "-q", "-m", "x", cwd=folder)
        git.write(folder, {"x.txt": "y\n"})
        arm(git, trap, folder)
    git.write(tree.path, {"a.txt": "step\n"})
    changes = await trees.changes(tree)
    assert changes.files == ("a.txt",)
    assert changes.repositories == ("nested/",)
    await trees.apply(changes, "the rest")
    (tree.path / "nested").rename(git.root / "nested")
    await trees.restore(changes)
    await trees.discard(tree)
    assert git.git("ls-files", "-s", "module").split()[1] == "1" * 40
    trap.check(git, git.root / "nested")


@pytest.mark.parametrize("spoil", ["delete", "folder", "link", "elsewhere"])
async def test_the_link_to_the_repository_is_mended(
    git: GitWorld, trees: StepTrees, spoil: str, trap: Trap, tmp_path: Path
) -> None:
    """Git never uses a repository of the worker."""
    tree = await trees.open("wf-1", "step-1")
    evil = tmp_path / "evil"
    evil.mkdir()
    git.git("init", "-q", cwd=evil)
    arm(git, trap, evil)
    link = tree.path / ".git"
    link.unlink()
    if spoil == "folder":
        (evil / ".git").rename(link)
    elif spoil == "link":
        link.symlink_to(evil / ".git")
    elif spoil == "elsewhere":
        link.write_text(f"gitdir: {evil}/.git\n")
    git.write(tree.path, {"a.txt": "step\n"})
    changes = await trees.changes(tree)
    assert changes.tampered == ("wf-1-step-1/.git",)
    await trees.apply(changes, "yes")
    assert git.status(tree.path) == " M a.txt\n"
    await trees.discard(tree)
    assert not tree.path.exists()
    if spoil != "folder":
        trap.check(git, evil)


async def test_a_work_tree_that_became_a_link_is_given_up(
    git: GitWorld, trees: StepTrees, tmp_path: Path
) -> None:
    """The target of the link stays as it is."""
    git.write(tmp_path / "outside", {"c.txt": "c\n"})
    tree = await trees.open("wf-1", "step-1")
    tree.path.rename(tmp_path / "moved")
    tree.path.symlink_to(tmp_path / "outside")
    with pytest.raises(StepTreeTaken):
        await trees.changes(tree)
    await trees.discard(tree)
    assert git.files(tmp_path / "outside") == {"c.txt": "c\n"}
    assert not tree.path.is_symlink()
    assert git.git("worktree", "list").count("\n") == 1


async def test_a_worker_in_bubblewrap_reads_the_repository_and_writes_none_of_it(
    git: GitWorld, trees: StepTrees
) -> None:
    """Its git works; the configuration it sees has no password; its gates are read-only."""
    git.git("config", "http.extraHeader", "Authorization: secret")
    tree = await trees.open("wf-1", "step-1")
    argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    argv += ["--bind", str(tree.path), str(tree.path)]
    for mount in await trees.worker_mounts(tree):
        argv += ["--bind" if mount.writable else "--ro-bind", str(mount.source), str(mount.place)]

    def sandboxed(script: str) -> subprocess.CompletedProcess[str]:
        command = [*argv, "--chdir", str(tree.path), "--", "sh", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    probe = sandboxed("true")
    if probe.returncode:
        pytest.skip(f"bwrap does not work here: {probe.stderr}")
    done = sandboxed("echo step > a.txt; git status --short; git log --format=%s; git diff --stat")
    assert done.stdout.startswith(" M a.txt\nwork\nwork\n"), done
    assert "secret" not in sandboxed(f"cat {git.root}/.git/config; git config --list").stdout
    for script in (
        f"echo x >> {git.root}/.git/config",
        f"echo x > {git.root}/.git/hooks/pre-commit",
        "git config core.fsmonitor evil",
        "git add a.txt",
        "echo x >> .git",
        "rm .git",
        f"echo x >> {GATES}",
        "mv .supervisor x",
        f"echo x > {git.root}/a.txt",
        f"rm -r {git.root}/.git/otpy-steps",
    ):
        assert sandboxed(script).returncode != 0, script
    changes = await trees.changes(tree)
    assert (changes.files, changes.tampered) == (("a.txt",), ())


# --- changesets, in which agents commit -----------------------------------------------------------


async def test_no_driver_runs_in_the_changeset_of_an_agent(git: GitWorld, trap: Trap) -> None:
    """No step of its life runs one, nor does a repository inside that the agent made."""
    arm(git, trap)
    quiet = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "filter.evil.required=false")
    blank = (f"filter.evil.{name}=" for name in ("clean", "smudge", "process"))
    calm = [part for setting in (*quiet, *blank) for part in ("-c", setting)]
    made = await git.changesets.open("zip")
    nested = made.path / "nested"
    nested.mkdir()
    git.git("init", "-q", cwd=nested)
    git.write(nested, {**ATTRIBUTES, "x.txt": "x\n"})
    git.git(*calm, "add", "-A", cwd=nested)
    git.git(*calm, "commit", "-q", "-m", "x", cwd=nested)
    git.git(*calm, "-c", "advice.addEmbeddedRepo=false", "add", "nested", cwd=made.path)
    git.git(*calm, "commit", "-q", "-m", "a repository inside", cwd=made.path)
    arm(git, trap, nested)
    assert not await git.changesets.dirty(made)
    git.write(nested, {"x.txt": "changed\n"})
    assert await git.changesets.dirty(made)
    git.write(made.path, {**ATTRIBUTES, "a.txt": "agent\n", "new.txt": "new\n"})
    (made.path / "deep/b.txt").unlink()
    await git.changesets.discard(made, "stall")
    assert "new\n" in git.everything()
    assert await git.host().open("zip") == made
    trap.check(git, made.path)
