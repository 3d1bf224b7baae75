"""A real git repository, and agents that work in it."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path

from otpy_agents.workspace import Changesets

START = 1_700_000_000.0


class GitWorld:
    """A repository with one commit, and changesets in it.

    Attributes:
        root: The repository.
        changesets: Those of the project `p`.
    """

    def __init__(self, folder: Path, settings: tuple[str, ...] = ()) -> None:
        self.root = folder / "repository"
        self.root.mkdir()
        self._clock = count(int(START))
        self.git("init", "-q", "-b", "main", *settings)
        self.write(self.root, {"a.txt": "a\n", "deep/b.txt": "b\n", ".gitignore": "*.log\n"})
        self.commit(self.root)
        self.changesets = self.host()

    def host(self, project: str = "p", folder: Path | None = None) -> Changesets:
        """Return the changesets of another host."""
        return Changesets(self.root, project=project, folder=folder, clock=self.now)

    def now(self) -> float:
        """Return a time one second after the last."""
        return float(next(self._clock))

    def git(self, *args: str, cwd: Path | None = None) -> str:
        """Run git as a person does."""
        people = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
        done = subprocess.run(
            ["git", *people, *args],
            cwd=cwd or self.root,
            env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def commit(self, tree: Path, message: str = "work") -> None:
        """Commit everything in a work tree."""
        self.git("add", "-A", cwd=tree)
        self.git("commit", "-q", "-m", message, cwd=tree)

    def write(self, tree: Path, files: dict[str, str]) -> None:
        """Write files into a work tree."""
        for name, text in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def files(self, tree: Path) -> dict[str, str]:
        """Return the files of a work tree, but not what git keeps in it."""
        return {
            str(path.relative_to(tree)): path.read_text(encoding="utf-8")
            for path in sorted(tree.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(tree).parts
        }

    def status(self, tree: Path) -> str:
        """Return git's status of a work tree."""
        return self.git("status", "--porcelain", "--untracked-files=all", cwd=tree)

    def branches(self, below: str = "otpy") -> list[str]:
        """Return the branches of the tool."""
        return self.git("for-each-ref", "--format=%(refname:short)", f"refs/heads/{below}").split()

    def show(self, name: str) -> str:
        """Return a file of a branch: `branch:path`."""
        return self.git("show", name)

    def commits(self) -> set[str]:
        """Return every commit that a branch or the head of a work tree has."""
        return set(self.git("rev-list", "--all").split())

    def everything(self) -> set[str]:
        """Return the content of every file that can be recovered from a work tree or a branch."""
        found: set[str] = set()
        folder = self.root / ".worktrees"
        for tree in folder.iterdir() if folder.is_dir() else ():
            if tree.is_dir():
                found.update(self.files(tree).values())
        names = self.git("rev-list", "--objects", "--all", "--no-object-names")
        batch = subprocess.run(
            ["git", "cat-file", "--batch"],
            cwd=self.root,
            input=names.encode(),
            check=True,
            capture_output=True,
        ).stdout
        while batch:
            head, _, batch = batch.partition(b"\n")
            _, kind, size = head.split()
            if kind == b"blob":
                found.add(batch[: int(size)].decode())
            batch = batch[int(size) + 1 :]
        return found


def worked(world: GitWorld, tree: Path) -> set[str]:
    """Leave work of every kind in a work tree, and return its contents."""
    world.write(tree, {"committed.txt": "committed\n"})
    world.commit(tree)
    world.write(tree, {"staged.txt": "staged\n"})
    world.git("add", "staged.txt", cwd=tree)
    world.write(tree, {"a.txt": "changed\n", "sub/new.txt": "untracked\n", "ünd\tso": "odd name\n"})
    (tree / "deep" / "b.txt").unlink()
    return {"committed\n", "staged\n", "changed\n", "untracked\n", "odd name\n"}
