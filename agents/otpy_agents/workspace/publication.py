"""Moving the branch of the user and his work tree to a commit that follows, whole or not at all.

One git operation decides: `update-ref` from the commit we know to the new one. Whatever is killed
before leaves everything as it was. Whatever is killed after is completed by the next who comes:
the files are brought along from one commit to the other, which may be done as often as one likes.

Meanwhile we hold the lock of the user's index, as git itself would. No commit, switch or merge can
come between; and if we are killed, none does until the files are complete. What the lock says is
from which commit to which, so that nothing else has to be remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, cast

from attrs import frozen

from otpy_agents.errors import ApplyBlocked, GitFailed, HeadMoved, WorktreeLocked
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.index import joined
from otpy_agents.workspace.place import Admin
from otpy_agents.workspace.sealed_git import Settings
from otpy_agents.workspace.snapshot import FileDifference, differences
from otpy_agents.workspace.step_place import StepPlace

__all__ = ["Publication"]

PATIENCE: Final = 5.0
"""Seconds that the index of the user may be in use until we give up."""

_PAUSE: Final = 0.02
_NONE: Final = "000000"
_MARK: Final = "otpy-apply"
_FOREIGN: Final = "a change of yours that is not committed"


@frozen
class Publication:
    """Moves one work tree of the user; only one process may do so at a time.

    Attributes:
        place: Where everything lies.
        settings: Of the repository.
        keeps: Descriptors of the lock, for the commands.
    """

    place: StepPlace
    settings: Settings
    keeps: tuple[int, ...]

    async def publish(self, base: str, new: str, note: str) -> None:
        """Move the branch and the work tree from one commit to the next.

        Args:
            base: Where they have to be.
            new: A commit after it.
            note: For the reflog.

        Raises:
            HeadMoved: They are elsewhere.
            ApplyBlocked: A file of the user is in the way.
            WorktreeLocked: A git of the user has the index locked.
        """
        await self.complete()
        await self._lock(base, new)
        open_end = False
        try:
            await self._check(base, new)
            open_end = True  # whatever is raised now, only git can tell whether it was decided
            refused = await self._move(base, new, note)
            if refused is None:
                await self._bring_along(base, new)
            open_end = False
            if refused is not None:
                raise refused
        finally:
            if not open_end:  # else it stays, and the next process completes it
                self._unlock()

    async def complete(self) -> None:
        """Complete an interrupted publication that was decided; forget one that was not."""
        said = self._locked()
        if said is None:
            return
        base, new = said
        follows = ("merge-base", "--is-ancestor", new, "HEAD")
        if (await Git(keeps=self.keeps).ask(self.place.root, *follows)).code == 0:
            await self._bring_along(base, new)
        self._unlock()

    # --- the lock of the user's index -------------------------------------------------------------

    @property
    def _lock_file(self) -> Path:
        return self.place.git_dir / "index.lock"

    async def _lock(self, base: str, new: str) -> None:
        fresh = self.place.steps / "applying"
        fresh.write_text(json.dumps({_MARK: [base, new]}))
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while True:
            try:
                os.link(fresh, self._lock_file)  # with all that it says, or not at all
            except FileExistsError:
                if loop.time() >= end:
                    raise WorktreeLocked(self.place.root, str(self._lock_file)) from None
            else:
                fresh.unlink()
                return
            await asyncio.sleep(_PAUSE)

    def _locked(self) -> tuple[str, str] | None:
        """Return what our lock says; None if it is not there, or not ours."""
        with contextlib.suppress(OSError, ValueError):
            match cast("object", json.loads(self._lock_file.read_bytes())):
                case {"otpy-apply": [str(base), str(new)]}:
                    return base, new
                case _:
                    pass
        return None

    def _unlock(self) -> None:
        self._lock_file.unlink(missing_ok=True)

    # --- before the decision ----------------------------------------------------------------------

    async def _head(self) -> str:
        return await Git(keeps=self.keeps).commit(self.place.root, "HEAD")

    async def _check(self, base: str, new: str) -> None:
        if (head := await self._head()) != base:
            raise HeadMoved(self.place.root, base, head)
        if unfinished := Admin(self.place.git_dir, self.place.root).unfinished:
            raise ApplyBlocked(self.place.root, (), f"{unfinished}, of what you have not finished")
        git = self._index()
        move = ("read-tree", "-m", "-u", base, new)
        dry = (move[0], "-n", *move[1:])
        if (await git.ask(self.place.root, *dry)).code == 0:
            return
        await git.ask(self.place.root, "update-index", "-q", "--refresh")  # only touched?
        answer = await git.ask(self.place.root, *dry)
        if answer.code:
            files, _ = await self._obstacles(git, base, new)
            if not files and "unmerged" in answer.error:
                raise ApplyBlocked(self.place.root, (), "files you have not merged")
            if not files:
                raise GitFailed(self.place.root, "read-tree", answer.error)
            raise ApplyBlocked(self.place.root, files, _FOREIGN)

    async def _move(self, base: str, new: str, note: str) -> Exception | None:
        """Decide; return why it was not, if that is certain."""
        git = Git(keeps=self.keeps)
        try:
            await git.run(self.place.root, "update-ref", "-m", note, "HEAD", new, base)
        except (GitFailed, WorktreeLocked) as error:
            head = await self._head()
            if head == new:
                return None
            return error if head == base else HeadMoved(self.place.root, base, head)
        return None

    # --- after the decision -----------------------------------------------------------------------

    async def _bring_along(self, base: str, new: str) -> None:
        """Bring index and files from one commit to the next; the user's changes stay."""
        root, git = self.place.root, self._index()
        move = ("read-tree", "-m", "-u", base, new)
        if (await git.ask(root, *move)).code:
            before = await self._give_way(git, base, new)
            await git.run(root, "read-tree", "-m", "-u", before, new)
            await git.ask(root, "update-index", "-q", "--refresh")
        self._copy.replace(self.place.git_dir / "index")

    async def _give_way(self, git: Git, base: str, new: str) -> str:
        """Update the index for files that already match, or cannot be updated.

        Returns:
            The tree from which the rest can be brought along.
        """
        root = self.place.root
        await git.ask(root, "update-index", "-q", "--refresh")
        files, found = await self._obstacles(git, base, new)
        zero = "0" * len(base)
        lines = [
            f"0 {zero}\t{name}\0"
            if found[name].mode == _NONE
            else f"{found[name].mode} {found[name].blob}\t{name}\0"
            for name in files
        ]
        stdin = os.fsencode("".join(lines))
        await git.run(root, "update-index", "-z", "--index-info", stdin=stdin)
        cut = [name for name in files if await self._is_cut(git, name, found[name])]
        await git.run(root, "checkout-index", "-f", "-u", "-z", "--stdin", stdin=joined(cut))
        kept = [name for name in files if found[name].mode == _NONE]
        return await self._without(base, kept) if kept else base

    async def _without(self, base: str, names: Sequence[str]) -> str:
        """Return the tree of a commit without some files, so that git has none to delete."""
        index = self.place.steps / "base-index"
        index.unlink(missing_ok=True)
        git = self.place.sealed.git(self.settings, index=index, keeps=self.keeps)
        await git.run(self.place.steps, "read-tree", base)
        remove = ("update-index", "-z", "--force-remove", "--stdin")
        await git.run(self.place.steps, *remove, stdin=joined(names))
        return (await git.run(self.place.steps, "write-tree")).text

    async def _is_cut(self, git: Git, name: str, wanted: FileDifference) -> bool:
        """Tell whether a file is only half written, as a killed git leaves it."""
        if not wanted.mode.startswith("100"):
            return False
        there = await asyncio.to_thread(_content, self.place.root / name)
        if there is None:
            return False
        blob = (await git.run(self.place.root, "cat-file", "blob", wanted.blob)).out
        return len(there) < len(blob) and blob.startswith(there)

    async def _obstacles(
        self, git: Git, base: str, new: str
    ) -> tuple[tuple[str, ...], dict[str, FileDifference]]:
        """Return the files of the way from one commit to the next that are not as in the first."""
        root = self.place.root
        found, _, _ = await differences(git, root, base, new)
        flags = ("-z", "--name-only", "--ignore-submodules=all")
        staged = await git.run(root, "diff-index", "--cached", *flags, base)
        dirty = await git.run(root, "diff-files", *flags)
        theirs = {*os.fsdecode(staged.out + dirty.out).split("\0")}
        made = {name for name, one in found.items() if one.made}
        tracked = {*os.fsdecode((await git.run(root, "ls-files", "-z")).out).split("\0")}
        blocked = (theirs & {*found}) | {
            name for name in made if name not in tracked and self._in_the_way(name, found)
        }
        return tuple(sorted(blocked)), found

    def _in_the_way(self, name: str, found: Iterable[str]) -> bool:
        """Tell whether there is something where a new file is to be."""
        root = self.place.root
        if os.path.lexists(root / name) and not (root / name).is_dir():
            return True
        if (root / name).is_dir() and not any(one.startswith(f"{name}/") for one in found):
            return True
        above = [str(part) for part in Path(name).parents][:-1]
        return any(
            os.path.lexists(root / part)
            and ((root / part).is_symlink() or not (root / part).is_dir())
            and part not in found
            for part in above
        )

    # --- the copy of the user's index -------------------------------------------------------------

    @property
    def _copy(self) -> Path:
        return self.place.steps / "user-index"

    def _index(self) -> Git:
        """Return a git that works on a fresh copy of the user's index."""
        with contextlib.suppress(FileNotFoundError):
            self._copy.unlink()
        with contextlib.suppress(FileNotFoundError):  # he may have none
            shutil.copy2(self.place.git_dir / "index", self._copy)
        for shared in self.place.git_dir.glob("sharedindex.*"):  # of an index that is split
            shutil.copy2(shared, self.place.sealed.folder / shared.name)
        self._copy.with_name("user-index.lock").unlink(missing_ok=True)
        return self.place.sealed.git(
            self.settings, tree=self.place.root, index=self._copy, keeps=self.keeps
        )


def _content(path: Path) -> bytes | None:
    """Return the content of a file, empty without a file; None if it is something else."""
    if not os.path.lexists(path):
        return b""
    return None if path.is_symlink() or not path.is_file() else path.read_bytes()
