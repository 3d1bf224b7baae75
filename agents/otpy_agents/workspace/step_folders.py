"""Making and deleting the work trees of steps."""

from __future__ import annotations

import asyncio
import os
import shutil

from attrs import frozen

from otpy_agents.errors import GitFailed, StepTreeTaken
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.removal import remove_any
from otpy_agents.workspace.sealed_git import Settings
from otpy_agents.workspace.step_place import StepPlace, StepRecord, StepTree
from otpy_agents.workspace.step_repository import StepRepository

__all__ = ["StepFolders"]


@frozen
class StepFolders:
    """The work trees of steps that are ours.

    Attributes:
        repository: The repository, in which they are held.
    """

    repository: StepRepository

    async def make(self, tree: StepTree, record: StepRecord, settings: Settings) -> None:
        """Make a work tree at its base, and fill it."""
        place = await self.repository.where()
        keeps = self.repository.keeps(record)
        add = ("worktree", "add", "--quiet", "--no-checkout", "--detach")
        await _git(keeps).run(place.root, *add, str(tree.path), tree.base)
        files = place.sealed.git(settings, tree=tree.path, index=record.base_index, keeps=keeps)
        await files.run(tree.path, "read-tree", "-m", "-u", tree.base)
        show_base(place, tree, record)

    async def take_over(
        self, old: StepTree, tree: StepTree, record: StepRecord, settings: Settings
    ) -> bool:
        """Make the work tree of another step that of this one; tell whether it could be done.

        Whatever is in it and not in the base is deleted.
        """
        place = await self.repository.where()
        before = place.record(old)
        if not self.repository.holds(before) or before.name == record.name:
            return False
        if mended_link(place, old) or not before.filled:
            return False
        keeps = self.repository.keeps(record, before)
        move = ("worktree", "move", str(old.path), str(tree.path))
        if (await _git(keeps).ask(place.root, *move)).code:  # not where there are submodules
            return False
        shutil.copy2(before.base_index, record.index)
        await self.forget(before)
        keeps = self.repository.keeps(record)
        files = place.sealed.git(settings, tree=tree.path, index=record.index, keeps=keeps)
        await files.run(tree.path, "clean", "-ffdxq")
        await files.run(tree.path, "read-tree", "--reset", "-u", tree.base)
        await move_head(tree, tree.base, keeps)
        record.index.replace(record.base_index)
        show_base(place, tree, record)
        return True

    async def remove(self, record: StepRecord, tree: StepTree) -> None:
        """Delete a work tree and what git keeps about it, however it was left."""
        place = await self.repository.where()
        admin = place.admin(tree.path)
        if admin is not None and not tree.path.is_symlink() and tree.path.is_dir():
            # Faster than we are; what it does not take is deleted next.
            git = Git(keeps=self.repository.keeps(record))
            command = ("worktree", "remove", "--force", "--force", str(tree.path))
            await git.ask(place.root, *command)
        await asyncio.to_thread(remove_any, tree.path)
        if admin is not None:
            await asyncio.to_thread(remove_any, admin.folder)

    async def forget(self, record: StepRecord) -> None:
        """Delete the record of a step, and release it."""
        await asyncio.to_thread(remove_any, record.folder)
        self.repository.release(record)


def _git(keeps: tuple[int, ...]) -> Git:
    # Else the links are not what `mended_link` takes them for.
    return Git(settings=("worktree.useRelativePaths=false",), keeps=keeps)


async def move_head(tree: StepTree, commit: str, keeps: tuple[int, ...]) -> None:
    """Tell the worker's own git that its work tree is at another commit."""
    here = Git(tree.path.parent, keeps=keeps)
    await here.run(tree.path, "update-ref", "--no-deref", "HEAD", commit)


def show_base(place: StepPlace, tree: StepTree, record: StepRecord) -> None:
    """Give the worker's own git an index, so that it sees the changes."""
    admin = place.admin(tree.path)
    if admin is None:
        raise GitFailed(tree.path, "worktree add", "a work tree that is nowhere")
    shutil.copy2(record.base_index, admin.folder / "index")


def mended_link(place: StepPlace, tree: StepTree) -> list[str]:
    """Restore a work tree's link to the repository, and return the undone changes.

    Raises:
        StepTreeTaken: There is no work tree any more.
    """
    admin = place.admin(tree.path)
    if admin is None or tree.path.is_symlink() or not tree.path.is_dir():
        raise StepTreeTaken(tree.path, "something that is not a work tree")
    undone: list[str] = []
    for file, wanted in (
        (tree.path / ".git", f"gitdir: {admin.folder}\n"),
        (admin.folder / "commondir", "../..\n"),
        (admin.folder / "config.worktree", None),
    ):
        plain = file.is_file() and not file.is_symlink()
        said = file.read_text(errors="replace") if plain else None
        if said == wanted and (plain or not os.path.lexists(file)):
            continue
        undone.append(f"{tree.path.name}/{file.name}")
        remove_any(file)
        if wanted is not None:
            file.write_text(wanted)
    return undone
