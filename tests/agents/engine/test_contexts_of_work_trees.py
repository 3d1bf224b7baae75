"""Contexts of real work trees, by git and, where it is installed, by Repomix."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from otpy_agents.cli.engine_context import context
from otpy_agents.engine.context import (
    ContextPacker,
    ContextRequest,
    PackedContext,
    PartKind,
    Repomix,
    read_work_tree,
)
from otpy_agents.engine.context.values import FileText
from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles import ContextRules, WorkerRole
from otpy_agents.errors import TargetRefused

pytestmark = pytest.mark.real_time


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    top = tmp_path / "repo"
    top.mkdir()
    (top / "src").mkdir()
    (top / "src" / "app.py").write_text("import src.near\n")
    (top / "src" / "near.py").write_text("NEAR = 1\n")
    (top / ".gitignore").write_text("*.log\n")
    git(top, "init", "-q")
    commit(top)
    return top


def git(top: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=top, check=True, capture_output=True)


def commit(top: Path) -> None:
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one more")


def role(*include: str, budget: int = 25_000) -> WorkerRole:
    rules = ContextRules(include=include, token_budget=budget)
    return WorkerRole(
        name="mine",
        cli="codex",
        system_prompt="You work.",
        output=OutputKind.REVIEW,
        context=rules,
    )


async def packed(top: Path, *targets: str, include: str = "src/**") -> PackedContext:
    request = ContextRequest(role=role(include), task="Do it.", targets=targets)
    return await ContextPacker().pack(request, top)


async def test_what_git_ignores_is_not_shown(tree: Path) -> None:
    """New files count, ignored ones do not, and git's own folder never does."""
    (tree / "src" / "new.py").write_text("NEW = 1\n")
    (tree / "src" / "x.log").write_text("SECRET\n")
    found = await packed(tree, include="**")
    assert {part.name for part in found.parts if part.kind is PartKind.INCLUDED} == {
        *("src/app.py", "src/near.py", "src/new.py", ".gitignore")
    }
    assert (await read_work_tree(tree)).changed == ("src/new.py",)


async def test_the_latest_changes_are_those_of_now_or_of_the_last_commit(tree: Path) -> None:
    """Uncommitted changes count; without any, the last commit does; the first commit has none."""
    assert (await read_work_tree(tree)).diff == ""
    (tree / "src" / "a b.py").write_text("x\n")
    (tree / "src" / "near.py").unlink()
    commit(tree)
    source = await read_work_tree(tree)
    assert source.changed == ("src/a b.py", "src/near.py")
    (tree / "src" / "app.py").write_text("now\n")
    source = await read_work_tree(tree)
    assert source.changed == ("src/app.py",)
    assert "+now" in source.diff


async def test_a_repository_without_a_commit_has_a_context(tmp_path: Path) -> None:
    """Its files are all new."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("1\n")
    assert "## a.py" in (await packed(tmp_path, include="*")).prompt


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("../secret", "is outside of the repository"),
        ("/etc/passwd", "is outside of the repository"),
        ("link", "leads out of the repository by a link"),
        ("links/secret", "leads out of the repository by a link"),
        (".git/config", "is git's own"),
        ("git-link", "is git's own"),
        ("src", "is a folder"),
        ("pipe", "is not a regular file"),
    ],
)
async def test_a_target_that_is_no_file_of_the_tree_is_refused(
    tree: Path, target: str, why: str
) -> None:
    """Neither a path nor a link gets around the refusal."""
    (tree.parent / "secret").write_text("SECRET")
    (tree / "link").symlink_to("../secret")
    (tree / "links").symlink_to("..")
    (tree / "git-link").symlink_to(".git/config")
    os.mkfifo(tree / "pipe")
    with pytest.raises(TargetRefused) as caught:
        await packed(tree, target)
    assert (
        str(caught.value) == f"target: got {target!r}, which {why}, wanted a file of the work tree"
    )


async def test_what_a_glob_finds_is_left_out_with_its_reason(tree: Path) -> None:
    """A link out of the tree, a binary or a huge file is neither an error nor shown."""
    (tree.parent / "secret").write_text("SECRET")
    (tree / "src" / "out.py").symlink_to("../../secret")
    (tree / "src" / "in.py").symlink_to("near.py")
    (tree / "src" / "dir").symlink_to("..")
    (tree / "src" / "gone.py").symlink_to("nowhere")
    (tree / "src" / "a.bin").write_bytes(b"\0\1")
    (tree / "src" / "latin.txt").write_bytes("é".encode("latin-1"))
    (tree / "src" / "huge.txt").write_bytes(b"a" * (3 << 20))
    git(tree, "add", "-A")
    found = await packed(tree)
    assert "SECRET" not in found.prompt
    assert {
        part.name: part.why.partition(":")[0]
        for part in found.left_out
        if part.kind is PartKind.INCLUDED
    } == {
        "src/out.py": "leads out of the repository by a link",
        "src/dir": "is a folder",
        "src/a.bin": "is binary",
        "src/latin.txt": "is not UTF-8",
        "src/huge.txt": "no room",
    }
    assert "## src/in.py" in found.prompt


async def test_a_context_is_kept_as_long_as_the_content_is_the_same(tree: Path) -> None:
    """It is made again after each change of a file, and after a commit."""
    packer = ContextPacker()
    request = ContextRequest(role=role("src/**"), task="Do it.", targets=("x.log",))
    first = await packer.pack(request, tree)
    assert await packer.pack(request, tree) is first
    for change in (
        lambda: (tree / "src" / "app.py").write_text("changed\n"),
        lambda: (tree / "src" / "new.py").write_text("new\n"),
        lambda: (tree / "src" / "new.py").write_text("newer\n"),
        lambda: (tree / "x.log").write_text("a target that git ignores\n"),
        lambda: commit(tree),
    ):
        change()
        after = await packer.pack(request, tree)
        assert after is not first
        first = after
        assert await packer.pack(request, tree) is first


FAKE = """\
#!{python}
import json, pathlib, sys
words = sys.argv[1:]
answer = words[words.index("--output") + 1]
assert json.loads(pathlib.Path(words[words.index("--config") + 1]).read_text()) == {{}}
assert "--compress" in words and words[words.index("--style") + 1] == "json"
(folder,) = [w for w in words if w == "files"]
files = {{f.name: "outline of " + f.read_text()[:5] for f in pathlib.Path(folder).iterdir()}}
log = pathlib.Path({log!r})
log.write_text((log.read_text() if log.exists() else "") + "asked ")
{more}
pathlib.Path(answer).write_text(json.dumps({{"files": files}}))
"""


def fake_repomix(folder: Path, more: str = "") -> Repomix:
    program = folder / "repomix"
    log = str(folder / "log")
    program.write_text(FAKE.format(python=sys.executable, log=log, more=more))
    program.chmod(0o755)
    return Repomix(str(program), limit=5.0)


async def test_what_has_no_room_is_shown_by_its_outline(tree: Path, tmp_path: Path) -> None:
    """The packer asks Repomix once for each content."""
    (tree / "src" / "long.py").write_text("def f(): ...\n" * 2000)
    request = ContextRequest(role=role("src/**", budget=600), task="Do it.")
    packer = ContextPacker(repomix=fake_repomix(tmp_path))
    found = await packer.pack(request, tree)
    assert "## src/long.py (outline)\n\n```py\noutline of def f\n```" in found.prompt
    await packer.pack(ContextRequest(role=role("src/**", budget=601), task="Do it."), tree)
    assert (tmp_path / "log").read_text() == "asked "


@pytest.mark.parametrize(
    "more", ["sys.exit(1)", "files = 3", "pathlib.Path(answer).write_text('{'); sys.exit()"]
)
async def test_without_an_answer_of_repomix_packing_is_simple(
    tree: Path, tmp_path: Path, more: str
) -> None:
    """A failure of Repomix does not fail the packing."""
    (tree / "src" / "long.py").write_text("def f(): ...\n" * 2000)
    request = ContextRequest(role=role("src/**", budget=600), task="Do it.")
    found = await ContextPacker(repomix=fake_repomix(tmp_path, more)).pack(request, tree)
    assert [part.name for part in found.left_out] == ["src/long.py"]
    assert await Repomix(str(tmp_path / "none")).outlines({"a.py": "1"}) == {}


@pytest.mark.skipif(shutil.which("repomix") is None, reason="Repomix is not installed")
async def test_the_real_repomix_answers_as_the_fake_one() -> None:
    """ENG-22: the fake Repomix of the tests above does nothing that the real one cannot."""
    repomix = Repomix.installed()
    assert repomix is not None
    texts = {
        "src/a b.py": "def f(a: int) -> int:\n    b = a + 1\n    return b\n",
        "x": "",
        "y.md": "# A",
    }
    found = await repomix.outlines(texts)
    assert found["src/a b.py"].startswith("def f(a: int) -> int")
    assert "return b" not in found["src/a b.py"]
    assert set(found) <= set(texts)


def test_the_command_prints_prompt_and_costs(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt on standard output, its costs and what was left out on the error stream."""
    monkeypatch.chdir(tree / "src")
    words = ["implementer", "Add a login", "-t", "app.py", "-t", "new.py"]
    result = CliRunner().invoke(context, words)
    assert result.exit_code == 0
    assert result.stdout.startswith("You are a developer")
    assert "# Task\n\nAdd a login\n" in result.stdout
    assert "## src/app.py" in result.stdout
    assert '"files_modified"' in result.stdout
    lines = [" ".join(line.split()) for line in result.stderr.splitlines() if line]
    assert "11 target src/app.py target" in lines
    assert "11 target src/new.py target, to be made" in lines
    assert "9 related src/near.py imported by src/app.py" in lines
    assert lines[-1].endswith("of 25,000 tokens")
    assert asyncio.run(read_work_tree(tree)).read("src/app.py") == FileText("import src.near\n")


def test_the_command_tells_what_was_left_out(tree: Path) -> None:
    """Twenty are listed, and then the number of the rest."""
    for number in range(30):
        (tree / "src" / f"f{number}.py").write_text("x" * 20_000)
    result = CliRunner().invoke(context, ["implementer", "Do it", "--repo", str(tree)])
    assert result.exit_code == 0
    assert "left out: 26\n" in result.stderr
    assert "and 6 more" in result.stderr
    assert "These are not shown; read them in your folder" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["coder", "x"], "otpy-agents: role: got 'coder', wanted one of implementer, planner, rev"),
        (["planner", "x", "-t", "../../etc"], "otpy-agents: target: got '../../etc', which is ou"),
    ],
)
def test_the_command_refuses_with_one_line(tree: Path, words: list[str], message: str) -> None:
    """The exit status is 1."""
    result = CliRunner().invoke(context, [*words, "--repo", str(tree)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
