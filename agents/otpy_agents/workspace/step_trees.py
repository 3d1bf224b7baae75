"""The work trees of steps: opened at `HEAD`, looked at, applied as one commit, discarded.

What is killed at any point leaves a record (`StepRecord`), by which `leftovers` finds it and
`settle` decides from git alone: it was applied if a commit says so, and its files are brought along
if they were not; then its work tree is discarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, final

from attrs import evolve

from otpy_agents.completion import to_completion
from otpy_agents.errors import ApplyBlocked, HeadMoved, StepTreeTaken, StepTreeUnwritable
from otpy_agents.workspace.config_guard import ConfigGuard
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.mounts import mounts_of_step
from otpy_agents.workspace.prune import prune
from otpy_agents.workspace.publication import Publication
from otpy_agents.workspace.snapshot import StepChanges, snapshot
from otpy_agents.workspace.step_folders import StepFolders, mended_link, move_head, show_base
from otpy_agents.workspace.step_place import StepTree
from otpy_agents.workspace.step_repository import STEP, WORKFLOW, AppliedStep, StepRepository
from otpy_agents.workspace.three_way import merged, message_of, one_line

if TYPE_CHECKING:
    from otpy_agents.sandbox import Mount

__all__ = ["StepTrees"]

P = ParamSpec("P")
T = TypeVar("T")


def _writes(
    work: Callable[Concatenate[StepTrees, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[StepTrees, P], Coroutine[Any, Any, T]]:
    """Have a method raise `StepTreeUnwritable` where the system refuses a file."""

    @wraps(work)
    async def named(trees: StepTrees, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await work(trees, *args, **kwargs)
        except OSError as error:
            # A copy that finds no room names its source first; a write names nothing.
            path = Path(error.filename2 or error.filename or trees.repository)
            raise StepTreeUnwritable(path, error.strerror or str(error)) from error

    return named


@final
class StepTrees:
    """The work trees of the steps of all workflows in one repository.

    One object for all who work on steps in this process. What it has opened is its own until it is
    discarded or settled, or the process ends; other processes are kept off by locks that die with
    their holder. Any call may raise `GitMissing`, `NotARepository`, `WorktreeLocked`, `GitFailed`
    or `StepTreeUnwritable`. A call that is cancelled may have done a part, which `settle`
    completes; but `apply` and `revert` are never cut by cancellation.

    Source: ENG-16 to ENG-19, C-26, C-27, C-45.

    Args:
        repository: A folder in the work tree of a git repository that has a commit.
    """

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self._repository = StepRepository(repository)
        self._folders = StepFolders(self._repository)

    # --- making -----------------------------------------------------------------------------------

    @_writes
    async def open(self, workflow: str, step: str, *, reuse: StepTree | None = None) -> StepTree:
        """Return a fresh work tree for a step, at the commit that `HEAD` is on.

        What an earlier life of the same step left there is discarded.

        Args:
            workflow: Id of the workflow.
            step: Id of the step.
            reuse: An earlier step of this object that is over. Its work tree becomes that of the
                new one, which takes less time; whatever is in it and not in `HEAD` is deleted,
                files that git ignores included.

        Raises:
            InvalidChangeset: The ids cannot be a part of the name of a folder.
            SymlinkInPath: A part of the path is a link.
            StepTreeTaken: Another process works on the step, or something is in its place.
        """
        place = await self._repository.where()
        tree = place.tree(workflow, step, await self._repository.head())
        settings = await self._repository.settings()
        record = await self._repository.hold(tree)
        earlier = record.read()
        if earlier is None and (place.admin(tree.path) or os.path.lexists(tree.path)):  # noqa: ASYNC240
            await self._folders.forget(record)
            raise StepTreeTaken(tree.path, "something else in its place")
        if earlier is not None and (earlier.workflow, earlier.step) != (workflow, step):
            raise StepTreeTaken(tree.path, f"the work tree of {earlier.workflow} {earlier.step}")
        async with self._repository.turn():
            guard = ConfigGuard(place)
            # While others are at work, what is there may be what a worker has just changed.
            if len(place.records()) == 1 or not guard.taken:
                await asyncio.to_thread(guard.take)
        if earlier is not None:
            await self._folders.remove(record, earlier)
        record.write(tree)
        place.prepare()
        if reuse is not None and await self._folders.take_over(reuse, tree, record, settings):
            return tree
        await self._folders.make(tree, record, settings)
        if reuse is not None:
            await self.discard(reuse)
        return tree

    # --- looking ----------------------------------------------------------------------------------

    @_writes
    async def changes(self, tree: StepTree, *, isolated: bool = False) -> StepChanges:
        """Collect and keep the worker's changes: later ones are not applied.

        Nothing may run in the work tree meanwhile. Commits of the worker and files that git ignores
        do not count; the other files as they are do. What he must not change is made as it was: the
        files in `.supervisor`, the link to the repository, and its settings and hooks.

        Args:
            tree: The step.
            isolated: Whether the worker could not write into the git folder of the repository. Its
                settings and hooks are not compared then: the user alone can have changed them.

        Raises:
            StepTreeTaken: It is not a work tree any more.
        """
        place = await self._repository.where()
        record = await self._repository.hold(tree)
        undone = mended_link(place, tree)
        if not record.filled:
            raise StepTreeTaken(tree.path, "a work tree that was never filled, or half rebased")
        if not isolated:
            async with self._repository.turn():
                undone += await ConfigGuard(place).undo()
        settings = await self._repository.settings()
        keeps = self._repository.keeps(record)
        git = place.sealed.git(settings, tree=tree.path, index=record.index, keeps=keeps)
        found = await snapshot(git, record, tree, settings, place.common / "info/exclude")
        return evolve(found, tampered=(*undone, *found.tampered))

    @_writes
    async def prune(self, changes: StepChanges) -> tuple[str, ...]:
        """Delete what lies in a work tree and is never applied, so that gates judge what is.

        These are files that git ignores, repositories inside, what is in submodules, and empty
        folders. Nothing may run in the work tree meanwhile.

        Args:
            changes: The last from `changes`.

        Returns:
            What was deleted, by its path in the repository; a folder stands for all that was in it.
        """
        tree, place = changes.tree, await self._repository.where()
        record = await self._repository.hold(tree)
        settings, keeps = await self._repository.settings(), self._repository.keeps(record)
        git = place.sealed.git(settings, tree=tree.path, index=record.index, keeps=keeps)
        return await prune(git, tree.path, changes.snapshot)

    @_writes
    async def restore(self, changes: StepChanges) -> None:
        """Make a work tree as it was when it was looked at, but for files that git ignores.

        So that what gates left behind is not taken for work of the next attempt.

        Args:
            changes: From `changes`.
        """
        tree, place = changes.tree, await self._repository.where()
        record = await self._repository.hold(tree)
        settings, keeps = await self._repository.settings(), self._repository.keeps(record)
        files = place.sealed.git(settings, tree=tree.path, index=record.index, keeps=keeps)
        await files.run(tree.path, "read-tree", "--reset", "-u", changes.snapshot)
        await files.run(tree.path, "clean", "-ffdq")

    @_writes
    async def diff(self, changes: StepChanges) -> str:
        """Return the changes as a patch, as `git diff` shows them."""
        git, place = await self._repository.sealed(), await self._repository.where()
        # What is larger than that is named, and not shown.
        large = ("-c", "core.bigFileThreshold=1m")
        flags = ("-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color")
        shown = (*large, "diff-tree", *flags, changes.tree.base, changes.snapshot)
        answer = await git.run(place.root, *shown)
        return answer.out.decode(errors="replace")

    @_writes
    async def show(self, commit: str, path: str) -> str | None:
        """Return the text of a file as a commit has it; None if it has none there.

        Args:
            commit: The commit.
            path: Path in the repository.
        """
        git, place = await self._repository.sealed(), await self._repository.where()
        answer = await git.ask(place.root, "cat-file", "blob", f"{commit}:{path}")
        return answer.out.decode(errors="replace") if answer.code == 0 else None

    @_writes
    async def texts_below(self, commit: str, folder: str) -> dict[str, str]:
        """Return the texts of the files in a folder as a commit has them, by their path in it.

        Args:
            commit: The commit.
            folder: Path in the repository.
        """
        git, root = await self._repository.sealed(), (await self._repository.where()).root
        listed = await git.run(root, "ls-tree", "-r", "-z", "--name-only", commit, f"{folder}/")
        names = [os.fsdecode(name) for name in listed.out.split(b"\0") if name]
        texts = {name.removeprefix(f"{folder}/"): await self.show(commit, name) for name in names}
        return {name: text for name, text in texts.items() if text is not None}

    async def head(self) -> str:
        """Return the commit that `HEAD` is on."""
        return await self._repository.head()

    async def git_folder(self) -> Path:
        """Return the git folder that all work trees of the repository share."""
        return (await self._repository.where()).common

    async def overlook(self, path: str) -> None:
        """Have git ignore a file of ours in the work trees of the repository.

        Nothing happens where git's list of those files is a link, or cannot be written.

        Args:
            path: Path in the repository.
        """
        exclude = (await self._repository.where()).common / "info/exclude"
        if exclude.is_symlink():  # a person has one list for several repositories
            return
        with contextlib.suppress(OSError):
            text = exclude.read_text(errors="replace") if exclude.is_file() else ""
            if f"/{path}" not in text.splitlines():
                exclude.parent.mkdir(exist_ok=True)
                gap = "\n" if text and not text.endswith("\n") else ""
                with exclude.open("a") as file:
                    file.write(f"{gap}/{path}\n")

    @_writes
    async def worker_mounts(self, tree: StepTree) -> tuple[Mount, ...]:
        """Return the mounts of a sandbox beside the work tree; see `mounts_of_step`."""
        place, settings = await self._repository.where(), await self._repository.settings()
        return mounts_of_step(place, tree, plain="refstorage" not in settings.formats)

    # --- applying ---------------------------------------------------------------------------------

    @_writes
    async def apply(
        self, changes: StepChanges, message: str, *, trailers: Mapping[str, str] | None = None
    ) -> str:
        """Commit changes to the branch of the user, whole or not at all, and return the commit.

        One commit comes after `HEAD`, with the trailers `Otpy-Workflow` and `Otpy-Step`; the files
        of the user's work tree follow. A file that he changed himself stays, and refuses if it is
        one of `changes.files`. Without a changed file nothing is committed, and the base returned.

        Args:
            changes: From `changes`.
            message: Of the commit.
            trailers: More lines for the end of the message, by their names.

        Raises:
            HeadMoved: `HEAD` is not the commit the step began at.
            ApplyBlocked: Files are in the way, or cannot be applied; they are named.
        """
        if not changes.files:
            return changes.tree.base
        tree, root = changes.tree, (await self._repository.where()).root
        for files, why in (
            (changes.links, "links that lead out of the repository"),
            (changes.filtered, "contents that a filter of yours stores in another form"),
        ):
            if files:
                raise ApplyBlocked(root, files, why)
        ours = {WORKFLOW: tree.workflow, STEP: tree.step}
        text = message_of(message, {**(trailers or {}), **ours})
        async with self._repository.turn() as keeps:
            return await to_completion(self._apply(changes, text, keeps))

    async def _apply(self, changes: StepChanges, message: bytes, keeps: tuple[int, ...]) -> str:
        tree, place = changes.tree, await self._repository.where()
        settings = await self._repository.settings()
        if (head := await self._repository.head()) != tree.base:
            raise HeadMoved(place.root, tree.base, head)
        commit = await self._repository.commit(settings, changes.snapshot, (tree.base,), message)
        publication = Publication(place, settings, keeps)
        await publication.publish(tree.base, commit, f"otpy: {tree.workflow} {tree.step}")
        return commit

    @_writes
    async def rebase(self, tree: StepTree, changes: StepChanges | None = None) -> StepTree:
        """Move a step and its changes to the commit that `HEAD` is on now.

        What it changed has to be looked at, and judged, once more.

        Args:
            tree: The step.
            changes: From `changes`, what came later is deleted; None to take everything that is in
                the work tree.

        Raises:
            ApplyConflict: Both changed the same; nothing was changed.
        """
        place = await self._repository.where()
        record = await self._repository.hold(tree)
        changes = changes or await self.changes(tree)
        head = await self._repository.head()
        if head == tree.base:
            return tree
        settings = await self._repository.settings()
        keeps = self._repository.keeps(record)
        ours = await self._repository.commit(
            settings, changes.snapshot, (tree.base,), b"changes of a step\n"
        )
        git = place.sealed.git(settings, keeps=keeps)
        result = await merged(git, tree.path, head, ours)
        moved = evolve(tree, base=head)
        # Cut from here on it is a work tree that nobody can look at any more, until it is settled.
        record.base_index.replace(record.index)
        files = place.sealed.git(settings, tree=tree.path, index=record.index, keeps=keeps)
        # First what is in HEAD, which is the base from now on; then what the step adds to it.
        await files.run(tree.path, "read-tree", "--reset", "-u", head)
        shutil.copy2(record.index, record.next_index)
        await files.run(tree.path, "read-tree", "--reset", "-u", result)
        await files.run(tree.path, "clean", "-ffdq")
        await move_head(tree, head, keeps)
        record.write(moved)
        record.next_index.replace(record.base_index)
        show_base(place, moved, record)
        return moved

    @_writes
    async def revert(self, commits: Sequence[str], message: str) -> str:
        """Take back what commits did, by one commit after `HEAD`, and return that.

        Args:
            commits: Commits with one parent each, newest first.
            message: Of the new commit.

        Raises:
            ApplyConflict: Later commits changed the same.
            ApplyBlocked: Files of the user are in the way.
            HeadMoved: Somebody committed meanwhile.
        """
        async with self._repository.turn() as keeps:
            return await to_completion(self._revert(tuple(commits), message, keeps))

    async def _revert(self, commits: tuple[str, ...], message: str, keeps: tuple[int, ...]) -> str:
        place = await self._repository.where()
        settings = await self._repository.settings()
        commit = self._repository.commit
        head = tip = await self._repository.head()
        git = place.sealed.git(settings, keeps=keeps)
        result = ""
        for one in commits:
            # Undoing it is a commit after it, which is merged with what is there now.
            before = (await git.run(place.root, "rev-parse", f"{one}^1^{{tree}}")).text
            undone = await commit(settings, before, (one,), b"undone\n")
            result = await merged(git, place.root, tip, undone)
            tip = await commit(settings, result, (tip,), b"reverted\n")
        if not result:
            return head
        named = "\n".join(f"This reverts commit {one}." for one in commits)
        text = f"{message.strip()}\n\n{named}\n".encode(errors="replace")
        made = await commit(settings, result, (head,), text)
        publication = Publication(place, settings, keeps)
        await publication.publish(head, made, f"otpy: {one_line(message)}")
        return made

    async def applied(self, workflow: str, step: str, *, since: str = "") -> str | None:
        """Return the commit by which a step was applied, as the branches say; None if it was not.

        Args:
            workflow: Id of the workflow.
            step: Id of the step.
            since: A commit before it, which saves looking at all; for example its base.
        """
        found = await self._repository.log(since, f"{STEP}: {step}", ("HEAD", "--branches"))
        wanted = (workflow, step)
        return next((one.commit for one in found if (one.workflow, one.step) == wanted), None)

    async def commits_since(self, commit: str) -> tuple[AppliedStep, ...]:
        """Return the steps applied after a commit, newest first.

        Args:
            commit: The commit, of which `HEAD` is a descendant.
        """
        return tuple(await self._repository.log(commit, f"{STEP}: ", ("HEAD",)))

    async def is_past(self, commit: str) -> bool:
        """Return whether `HEAD` is a commit or comes after it."""
        root = (await self._repository.where()).root
        return (await Git().ask(root, "merge-base", "--is-ancestor", commit, "HEAD")).code == 0

    async def messages_since(self, commit: str) -> tuple[tuple[str, str], ...]:
        """Return the commits after one and their messages, oldest first.

        Args:
            commit: The commit, of which `HEAD` is a descendant.
        """
        root = (await self._repository.where()).root
        form = ("-z", "--reverse", "--topo-order", "--format=%H%n%B")
        told = await Git().run(root, "log", *form, f"{commit}..HEAD")
        lines = (one.partition("\n") for one in told.out.decode(errors="replace").split("\0"))
        return tuple((name, message) for name, _, message in lines if name)

    # --- ending -----------------------------------------------------------------------------------

    @_writes
    async def discard(self, tree: StepTree) -> None:
        """Delete the work tree of a step and everything in it; nothing happens if there is none.

        Raises:
            StepTreeTaken: Another process works on it.
        """
        record = await self._repository.hold(tree)
        await self._folders.remove(record, record.read() or tree)
        await self._folders.forget(record)

    async def find(self, workflow: str, step: str) -> StepTree | None:
        """Return the work tree of a step, in whatever state; None if there is none."""
        place = await self._repository.where()
        return place.record(place.tree(workflow, step, "")).read()

    @_writes
    async def leftovers(self) -> tuple[StepTree, ...]:
        """Return the steps that no living process works on; they need `settle`."""
        place = await self._repository.where()
        left = [one for one in place.records() if await self._repository.is_left_over(one)]
        return tuple(tree for record in left if (tree := record.read()) is not None)

    @_writes
    async def settle(self, tree: StepTree) -> str | None:
        """End the remains of a step from an earlier life: applied whole, or not at all.

        Returns:
            The commit by which it was applied; None if it was not. Its work tree is gone.

        Raises:
            StepTreeTaken: A living process works on it.
        """
        await self._repository.hold(tree)
        await self.settle_apply()
        commit = await self.applied(tree.workflow, tree.step, since=tree.base)
        await self.discard(tree)
        return commit

    @_writes
    async def settle_apply(self) -> None:
        """Complete an `apply` or `revert` that was cut after it was decided."""
        place, settings = await self._repository.where(), await self._repository.settings()
        async with self._repository.turn() as keeps:
            await to_completion(Publication(place, settings, keeps).complete())

    def close(self) -> None:
        """Leave everything that is open to be settled."""
        self._repository.release_all()
