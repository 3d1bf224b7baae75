"""Copies of the paths that gates write."""

from __future__ import annotations

import os
from pathlib import Path

from otpy_agents.engine.gates import Gate
from otpy_agents.engine.gates.scratch import Scratch


def gate(*writes: str) -> Gate:
    return Gate(name="a", command=("x",), allowed_writes=writes)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_what_is_there_is_copied_and_what_is_not_is_made(tmp_path: Path) -> None:
    """A missing path is made within the block: a folder, or a file if its name has an ending."""
    tree = tmp_path / "tree"
    (tree / "kept/deep").mkdir(parents=True)
    (tree / "kept/deep/a").write_text("a")
    (tree / "kept/out").symlink_to(tmp_path)
    (tree / "one.xml").write_text("1")
    (tree / "inside").symlink_to("kept")
    before = sorted(tree.rglob("*"))
    writes = ("kept/", "kept/deep", "one.xml", "new/deep/", "two.xml", ".coverage", "inside/x")
    wanting = gate(*writes)
    async with Scratch(tree, [wanting], whole=False) as scratch:
        assert scratch.folder == tree
        assert scratch.flaw_of(wanting) == ""
        mounts = {str(mount.place.relative_to(tree)): mount for mount in scratch.mounts_of(wanting)}
        assert sorted(mounts) == [".coverage", "kept", "new/deep", "one.xml", "two.xml"]
        assert all(mount.writable and mount.place.exists() for mount in mounts.values())
        kept = mounts["kept"].source
        assert ((kept / "deep/a").read_text(), (kept / "out").readlink()) == ("a", tmp_path)
        assert mounts["two.xml"].source.is_file()
        assert mounts["new/deep"].source.is_dir()
        copies = kept.parent
    assert sorted(tree.rglob("*")) == before
    assert not copies.exists()


async def test_what_somebody_put_there_meanwhile_stays(tmp_path: Path) -> None:
    """A person may work in the tree."""
    async with Scratch(tmp_path, [gate("new/deep/", "a.xml")], whole=False):
        (tmp_path / "new/mine").touch()
        (tmp_path / "a.xml").write_text("mine")
    assert names(tmp_path) == ["a.xml", "mine", "new"]


async def test_without_walls_the_tree_is_copied_but_for_what_is_ours(tmp_path: Path) -> None:
    """Pipes are left out, and links are copied as links."""
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "sub/.git").mkdir(parents=True)
    (tree / "sub/a").touch()
    (tree / "link").symlink_to("sub/a")
    os.mkfifo(tree / "pipe")
    async with Scratch(tree, [gate("sub/")], whole=True) as scratch:
        assert scratch.folder != tree
        assert scratch.mounts_of(gate("sub/")) == ()
        found = sorted(str(path.relative_to(scratch.folder)) for path in scratch.folder.rglob("*"))
        assert found == ["link", "sub", "sub/.git", "sub/a"]
        assert (scratch.folder / "link").is_symlink()
