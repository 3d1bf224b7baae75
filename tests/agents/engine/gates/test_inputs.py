"""The hash of a gate's inputs, and the passes that are kept under it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from otpy_agents.engine.gates import Gate, GateCache, cache_folder
from otpy_agents.engine.gates import inputs as inputs_module
from otpy_agents.engine.gates import kept as kept_module
from otpy_agents.engine.gates.cache import CachedPass
from otpy_agents.engine.gates.inputs import inputs_digest
from otpy_agents.engine.gates.keys import gate_keys


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree."""
    for name in ("a.py", "src/b.py", "src/deep/c.txt", ".git/HEAD", ".worktrees/w/a.py"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "tree/link").symlink_to("a.py")
    (tmp_path / "tree/folder").symlink_to("src")
    (tmp_path / "tree/nowhere").symlink_to("none")
    return tmp_path / "tree"


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a text": lambda tree: (tree / "a.py").write_text("A.py"),
    "a file that is ignored": lambda tree: (tree / "src/b.pyc").write_text("x"),
    "a name": lambda tree: (tree / "a.py").rename(tree / "z.py"),
    "a file less": lambda tree: (tree / "src/deep/c.txt").unlink(),
    "the right to run it": lambda tree: (tree / "a.py").chmod(0o755),
    "where a link leads": lambda tree: relink(tree / "link", "src/b.py"),
    "where a link to a folder leads": lambda tree: relink(tree / "folder", "src/deep"),
    "a link that leads nowhere": lambda tree: relink(tree / "nowhere", "none2"),
    "a text moved to another file": lambda tree: (
        (tree / "a.py").write_text(""),
        (tree / "src/b.py").write_text("a.pysrc/b.py"),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_a_gate_could_read_changes_the_hash(
    tree: Path, change: Callable[[Path], object]
) -> None:
    """ENG-31: each change changes the hash; without a change it stays the same."""
    before = inputs_digest(tree)
    assert before is not None
    assert inputs_digest(tree) == before
    change(tree)
    assert inputs_digest(tree) != before


def test_what_is_ours_and_what_no_glob_names_changes_nothing(tree: Path) -> None:
    """`.git` and other work trees do not count; nor do files outside `cache_inputs`."""
    before, narrow = inputs_digest(tree), inputs_digest(tree, ("*.py", "!src/"))
    (tree / ".git/HEAD").write_text("x")
    (tree / ".worktrees/w/a.py").write_text("x")
    assert inputs_digest(tree) == before
    (tree / "src/b.py").write_text("x")
    assert inputs_digest(tree) != before
    assert inputs_digest(tree, ("*.py", "!src/")) == narrow
    (tree / "a.py").write_text("x")
    assert inputs_digest(tree, ("*.py", "!src/")) != narrow


def test_what_lies_outside_counts_by_its_time(tree: Path) -> None:
    """For example, an interpreter of a virtual environment."""
    outside = tree.parent / "python"
    outside.write_text("1")
    (tree / "python").symlink_to(outside)
    before = inputs_digest(tree)
    os.utime(outside, (1, 1))
    assert inputs_digest(tree) != before
    relink(tree / "python", str(tree.parent))
    assert inputs_digest(tree) is None


@pytest.mark.parametrize("kind", ["pipe", "many", "much"])
def test_what_nobody_can_tell_has_no_hash(
    tree: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Such a gate always runs, and the look at its inputs never blocks."""
    if kind == "pipe":
        os.mkfifo(tree / "pipe")
    monkeypatch.setattr(inputs_module, "FILES_LIMIT", 3 if kind == "many" else 100)
    monkeypatch.setattr(inputs_module, "TOTAL_LIMIT", 10 if kind == "much" else 1000)
    assert inputs_digest(tree) is None
    assert gate_keys({"a": Gate(name="a", command=("x",))}, tree, "here", {}) == {}


def test_all_that_decides_about_a_pass_is_in_its_key(tree: Path, tmp_path: Path) -> None:
    """The description, the time limit and `parallel_safe` are not."""
    program = tmp_path / "bin/lint"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def key(sandbox: str = "here", **more: object) -> str:
        fields: dict[str, object] = {"name": "a", "command": ("lint",), **more}
        variables = {"PATH": str(program.parent)}
        return gate_keys({"a": Gate(**fields)}, tree, sandbox, variables)["a"]  # type: ignore[arg-type]

    keys = [key(), key("there"), key(command=("lint", "-x")), key(env={"A": "1"})]
    keys += [key(working_dir="src"), key(allowed_writes=("x/",)), key(cache_inputs=("*.py",))]
    assert len(set(keys)) == len(keys)
    assert key(description="Lint", timeout=1.0, parallel_safe=True) == keys[0]
    program.write_text("#!/bin/sh\nexit 1\n")
    assert key() != keys[0]


# --- passes that are kept -------------------------------------------------------------------------


def test_a_pass_that_cannot_be_read_or_kept_is_not_there(tmp_path: Path) -> None:
    """A full disk or a cut file runs a gate again, and fails nothing."""
    cache = GateCache(tmp_path / "cache")
    assert cache.get("k") is None
    cache.put("k", CachedPass("said", 1.5))
    assert cache.get("k") == CachedPass("said", 1.5)
    for broken in ("", "{", "[]", '{"output": "x"}', '{"output": "x", "seconds": "y"}', "3"):
        (tmp_path / "cache/k").write_text(broken)
        assert cache.get("k") is None, broken
    (tmp_path / "file").touch()
    GateCache(tmp_path / "file/below").put("k", CachedPass("", 0.0))


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """On a full disk each gate would leave a temporary file."""
    files = kept_module.KeptFiles(tmp_path)
    (tmp_path / "taken").mkdir()
    assert files.put("taken", "text") is None
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_file_is_found_by_the_name_it_was_kept_by(tmp_path: Path) -> None:
    """Characters that do not fit in a file name are replaced."""
    files = kept_module.KeptFiles(tmp_path)
    assert files.put("wf/step 1", "text") == tmp_path / "wf_step_1"
    assert files.get("wf/step 1") == "text"


def test_passes_that_are_old_or_too_much_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes that were used last stay."""
    monkeypatch.setattr(kept_module, "KEPT_BYTES", 500)
    cache = GateCache(tmp_path)
    for number in range(4):
        cache.put(f"k{number}", CachedPass("x" * 150, 0.0))
        before = (tmp_path / f"k{number}").stat().st_mtime + number - 1000
        os.utime(tmp_path / f"k{number}", (before, before))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k2", "k3"]
    os.utime(tmp_path / "k2", (1, 1))
    cache.put("new", CachedPass("", 0.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k3", "new"]


def test_each_repository_has_its_own_folder_in_the_state_of_the_user(tmp_path: Path) -> None:
    """Its git folder names it, so that its work trees share it."""
    here = {"XDG_STATE_HOME": str(tmp_path / "state")}
    one, other = (cache_folder(tmp_path / name, here) for name in ("one", "other"))
    assert one.parent == other.parent == tmp_path / "state/otpy/gates"
    assert one != other
    (tmp_path / "link").symlink_to("one")
    assert cache_folder(tmp_path / "link", here) == one
