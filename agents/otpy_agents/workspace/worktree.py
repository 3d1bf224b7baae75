"""The questions to git about one work tree: does it hold work, and where does that work go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.errors import ChangesetDirty
from otpy_agents.workspace.drivers import disarmed
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.index import changed_files, stage
from otpy_agents.workspace.place import Admin, entries

__all__ = ["WorkTree", "open_work_tree"]

_REPOSITORY: Final = "160000 "
"""How git lists another repository inside."""


async def open_work_tree(git: Git, path: Path, admin: Admin | None) -> WorkTree:
    """Return a work tree for which git runs no driver of the repository."""
    there = entries(path) is not None
    return WorkTree(await disarmed(git, path) if there else git, path, admin)


@frozen
class WorkTree:
    """One work tree of a repository.

    Attributes:
        git: What runs git in it.
        path: Where it lies now.
        admin: What git keeps about it; None if it is of another project.
    """

    git: Git
    path: Path
    admin: Admin | None

    async def unsaved(self) -> str:
        """Say what work there is in it that no branch has; empty if there is none."""
        if self.admin is not None and self.admin.unfinished:
            return self.admin.unfinished
        if changes := await _uncommitted(self.git, self.path):
            return f"{len(changes)} uncommitted changes, the first {changes[0]!r}"
        attached = await self.git.ask(self.path, "symbolic-ref", "--quiet", "HEAD")
        if attached.code == 0:
            return ""
        refs = ("--count=1", "--contains=HEAD", "refs/heads")
        on = await self.git.run(self.path, "for-each-ref", *refs)
        return "" if on.out else "commits on no branch"

    async def refuse_dirty(self) -> None:
        """Do nothing if there is no such work.

        Raises:
            ChangesetDirty: There is.
        """
        found = await self.unsaved()
        if found:
            raise ChangesetDirty(self.path, found)

    async def commit_all(self, reason: str, branch: str, target: str, at: float) -> str:
        """Make a commit of everything, which is on no branch yet, and return it.

        It comes after all that the work tree and `branch` have, and after what is being merged.

        Args:
            reason: Its message.
            branch: Branch of the changeset, on which there may be more than the agent is on now.
            target: Commit that is to come next. If it has everything already, none is made.
            at: Time of the commit, in Unix seconds.

        Returns:
            The commit; empty if there is nothing to be put away.
        """
        tips = [
            tip
            for name in ("HEAD", f"refs/heads/{branch}", "MERGE_HEAD")
            if (tip := await self.git.commit(self.path, name))
        ]
        if not await self.unsaved() and not await self._lacking(target, tips):
            return ""
        # Not by `git add`, which would have git look into the repositories inside.
        changed = await changed_files(self.git, self.path, submodules="dirty")
        others = await self.git.run(self.path, "ls-files", "--others", "--exclude-standard", "-z")
        # A repository inside is named with a slash; only a link to it could be committed.
        names = os.fsdecode(others.out).split("\0")
        files = [name for name in names if name and not name.endswith("/")]
        await stage(self.git, self.path, changed, files)
        tree = (await self.git.run(self.path, "write-tree")).text
        parents = tips[:1] + await self._lacking(tips[0], tips) if tips else []
        options = [part for parent in dict.fromkeys(parents) for part in ("-p", parent)]
        message = f"{reason}\n\nAll of {self.path}\n".encode(errors="replace")
        made = await self.git.run(self.path, "commit-tree", tree, *options, stdin=message, at=at)
        return made.text

    async def move_to(self, branch: str, commit: str) -> None:
        """Make a branch, full name, of a commit that has all of the work tree; go on on it."""
        zero = "0" * len(commit)
        await self.git.run(self.path, "update-ref", branch, commit, zero)
        await self.git.run(self.path, "symbolic-ref", "-m", "otpy: discarded", "HEAD", branch)

    async def switch(self, branch: str, target: str) -> None:
        """Switch to `branch`, which begins at `target` from now on; nothing is overwritten."""
        if self.admin is not None and self.admin.unfinished:
            for begun in ("rebase", "cherry-pick", "revert"):
                await self.git.ask(self.path, begun, "--quit")
            await self.git.ask(self.path, "bisect", "reset", "HEAD")
        flags = ("--quiet", "--no-overwrite-ignore")
        await self.git.run(self.path, "checkout", *flags, "-B", branch, target)

    async def _lacking(self, commit: str, others: list[str]) -> list[str]:
        """Return those of `others` that do not come before `commit`."""
        asked = ("merge-base", "--is-ancestor")
        return [
            other for other in others if (await self.git.ask(self.path, *asked, other, commit)).code
        ]


async def _uncommitted(git: Git, path: Path) -> list[str]:
    """Return what git would commit, also in repositories inside that are tracked.

    Git would look into those with their own configuration, and so with their own programs.
    """
    flags = ("--untracked-files=all", "--ignore-submodules=dirty")
    status = await git.run(path, "status", "--porcelain", "-z", *flags)
    changes = [part for part in os.fsdecode(status.out).split("\0") if part]
    listed = await git.run(path, "ls-files", "--stage", "-z")
    for entry in os.fsdecode(listed.out).split("\0"):
        name = entry.partition("\t")[2]
        if entry.startswith(_REPOSITORY) and ".git" in (entries(path / name) or ()):
            inside = await disarmed(git, path / name)
            changes += [f"{name}: {one}" for one in await _uncommitted(inside, path / name)]
    return changes
