"""Changesets: the work of each assignment in a git work tree of its own (C-26, TREE-38).

Rules of this file: work is never deleted. What is put away is committed to a branch first, git is
never told to force anything that has files in it, and each step leaves a state from which `open`
goes on. What git has been told to do is told to it again after a kill, in this order:

| `open` finds | it |
|---|---|
| nothing | adds the work tree without files, fills it, marks it ready |
| a work tree that is not ready and empty | removes what git keeps about it, and adds it again |
| one that is not ready and half filled | commits that to a branch and fills it again |
| one on a branch of discarded work | the discard was cut: commits what changed, switches back |
| one that is ready | leaves it as it is |

And nothing is touched that is not ours: whose a changeset is was written down before it was made
(`claims`), and `Rights` looks at that, and at all else that could be in the way, for `check` and
`open` alike.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

import anyio.to_thread
from attrs import frozen

from otpy_agents.clock import CLOCK
from otpy_agents.errors import (
    ChangesetDirty,
    ChangesetError,
    ChangesetTaken,
    GitFailed,
    NotARepository,
    WorktreeLocked,
)
from otpy_agents.workspace.claims import (
    ChangesetOwner,
    Claim,
    locked,
    write_claim,
)
from otpy_agents.workspace.drivers import disarmed
from otpy_agents.workspace.fates import Fate, Fates
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.mounts import mounts_of
from otpy_agents.workspace.place import (
    Admin,
    Changeset,
    Place,
    branch_of,
    checked,
    discarded_prefix,
    earlier_branch_of,
    entries,
    locate,
)
from otpy_agents.workspace.removal import remove_tree
from otpy_agents.workspace.rights import Rights
from otpy_agents.workspace.worktree import WorkTree, open_work_tree

if TYPE_CHECKING:
    from otpy_agents.sandbox import Mount

__all__ = ["Changesets", "Discarded"]


@frozen(order=True)
class Discarded:
    """Work that was discarded: a branch that waits to be deleted.

    Attributes:
        at: When it was discarded, in Unix seconds.
        assignment: Whose it was.
        branch: `otpy/discarded/<project>/<assignment>/<stamp>`; earlier versions left the project
            out.
        commit: Its last commit, with everything that was in the work tree.
    """

    at: float
    assignment: str
    branch: str
    commit: str


@final
class Changesets:
    """The changesets of one project in one repository.

    One object for all who work on them: its calls take turns. A call that is cancelled may have
    done a part; the next `open` goes on with it. Any call may raise `GitMissing`, `NotARepository`,
    `WorktreeLocked` or `GitFailed`.

    Args:
        repository: A folder in the work tree of a git repository that has a commit.
        project: Name of the project; with the assignment it names a work tree and its branch.
        owner: The list that works on them, to tell projects of the same name apart; None for all
            callers that use this name without a list.
        folder: Where the work trees lie; None for `.worktrees` in the repository, which git is made
            to overlook.
        fates: What `settle` goes by.
        clock: Unix seconds, for the stamps of discarded work.
    """

    def __init__(
        self,
        repository: Path,
        *,
        project: str,
        owner: ChangesetOwner | None = None,
        folder: Path | None = None,
        fates: Fates | None = None,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self._repository = repository
        self._project = checked(project, repository)
        self._owner = owner or ChangesetOwner()
        self._held: set[str] = set()
        self._folder = folder
        self._fates = Fates() if fates is None else fates
        self._clock = clock
        self._turn = asyncio.Lock()
        self._place: Place | None = None
        self._git = Git()

    async def check(self, assignment: str, *, begun: bool = True) -> None:
        """Look whether `open` would be refused; make nothing.

        Args:
            assignment: Its id.
            begun: Whether we know of work on it. What an earlier version left, which did not write
                down whose it is, is taken for ours only then.

        Raises:
            InvalidChangeset: The assignment cannot be the name of a branch.
            GitMissing: There is no git.
            NotARepository: The folder is in no repository, or in one without a commit.
            SymlinkInPath: A part of the path is a link.
            ChangesetTaken: The path or the branch is used for something else, or by somebody else.
            WorktreeLocked: Somebody has locked a work tree whose folder is gone.
        """
        async with self._turn:
            checked(assignment, self._repository)
            await self._head()
            place = await self._where()
            changeset = place.changeset(assignment)
            file = place.claim_file(assignment)
            if assignment not in self._held and file.exists():
                with locked(file, changeset.path):
                    pass
            await (await self._rights()).refuse(changeset, begun=begun)

    @contextlib.asynccontextmanager
    async def hold(
        self, assignment: str, *, digest: str = "", begun: bool = True
    ) -> AsyncGenerator[None]:
        """Lock a changeset for the length of a block.

        That it is ours is written down, and stays so afterwards; a work tree is not made yet.

        Args:
            assignment: Its id.
            digest: Fingerprint of its definition, for people.
            begun: As for `check`.

        Raises:
            ChangesetError: As `check`.
        """
        async with contextlib.AsyncExitStack() as stack:
            async with self._turn:
                await stack.enter_async_context(self._ours(assignment, digest, begun=begun))
                self._held.add(assignment)
                stack.callback(self._held.discard, assignment)
            yield

    async def open(self, assignment: str) -> Changeset:
        """Return the changeset of an assignment, ready to be worked in.

        A new one begins at the commit the repository's `HEAD` is on. One that is there is left as
        it is, whatever branch the agent has switched it to; if making or discarding it was cut,
        that is completed.

        Raises:
            ChangesetError: As `check`.
        """
        async with self._turn, self._ours(assignment) as changeset:
            return await self._open(changeset)

    async def mounts(self, assignment: str) -> tuple[Mount, ...]:
        """Return what of the repository a sandbox has to let the agent see beside its work tree.

        It can commit then, on branches of its list; see `mounts_of`.

        Args:
            assignment: Its id; its changeset is open.
        """
        async with self._turn:
            place = await self._where()
            path = place.changeset(assignment).path
            admin = place.admin(path)
            return () if admin is None else mounts_of(place, admin)

    async def dirty(self, changeset: Changeset) -> bool:
        """Tell whether the work tree holds work that no branch has.

        That is anything git would commit, a commit on no branch, or a merge, rebase or the like
        that has not been finished. Files that git ignores do not count.
        """
        async with self._turn:
            return bool(await (await self._tree(changeset.path)).unsaved())

    async def removable(self, changeset: Changeset) -> bool:
        """Tell whether `remove` would remove the work tree: it is neither dirty nor locked.

        One that is not there any more, but of which git still keeps something, is removable too.
        """
        async with self._turn:
            tree = await self._tree(changeset.path)
            if tree.admin is None or tree.admin.lock or not (await self._rights()).owns(changeset):
                return False
            return entries(changeset.path) is None or not await tree.unsaved()

    async def keep(self, changeset: Changeset) -> Changeset:
        """Leave a changeset to the next life of its agent; see `open`."""
        return await self.open(changeset.assignment)

    async def discard(self, changeset: Changeset, reason: str) -> Changeset:
        """Put all work away on a branch of its own and return a fresh work tree in its place.

        The branch is `otpy/discarded/<project>/<assignment>/<stamp>`. It has the agent's commits
        and one with what was not committed, untracked files included; `reason` is its message. What
        git ignores and repositories inside stay where they are. If there was no work there is no
        branch. The fresh work tree begins at the commit the repository's `HEAD` is on.

        Nothing may run in the work tree meanwhile.

        Raises:
            ChangesetDirty: Somebody changes files at this moment; nothing is lost, try again.
        """
        await self.put_away(changeset, reason)
        return changeset

    async def put_away(self, changeset: Changeset, reason: str) -> str:
        """Discard a changeset, and return the branch its work is on now; empty if there was none.

        Raises:
            ChangesetDirty: As `discard`.
        """
        async with self._turn, self._ours(changeset.assignment) as ours:
            changeset = await self._open(ours)
            target = await self._head()
            tree = await self._tree(changeset.path)
            branch = await self._put_away(tree, changeset, reason, target)
            if await tree.unsaved():  # what only the agent's own rules have ignored
                more = await self._put_away(tree, changeset, reason, target)
                branch = ", ".join(name for name in (branch, more) if name)
            return branch

    async def settle(self, assignment: str, reason: str) -> Changeset:
        """Open a changeset for the next life of its agent: kept or discarded, by the table."""
        changeset = await self.open(assignment)
        if self._fates.of(reason) is Fate.DISCARD:
            return await self.discard(changeset, f"discarded because of {reason}")
        return changeset

    async def all(self) -> tuple[Changeset, ...]:
        """Return our changesets that have a work tree, by assignment."""
        async with self._turn:
            place = await self._where()
            named = tuple(
                Changeset(owner[1], admin.path, branch_of(*owner))
                for admin in place.admins()
                if (owner := admin.owner()) is not None
                if owner[0] == self._project and admin.path.parent == place.folder
            )
            rights = await self._rights()
            return tuple(one for one in named if rights.owns(one))

    async def expired(self, before: float) -> tuple[Discarded, ...]:
        """Return the work discarded before a Unix time, oldest first.

        That of other projects is left to them; of earlier versions, which did not say whose it is,
        everybody gets all.
        """
        async with self._turn:
            place = await self._where()
            columns = "%(refname:short)%09%(committerdate:unix)%09%(objectname)%09%(worktreepath)"
            answer = await self._git.run(
                place.repository,
                *("for-each-ref", f"--format={columns}", f"refs/heads/{discarded_prefix()}"),
            )
        found: list[Discarded] = []
        for line in answer.text.splitlines():
            branch, at, commit, checked_out = line.split("\t")
            # One that is checked out belongs to a discard that was cut.
            if not checked_out and float(at) < before:
                *project, assignment, _stamp = branch.removeprefix(discarded_prefix()).split("/")
                if project in ([], [self._project]):
                    found.append(Discarded(float(at), assignment, branch, commit))
        return tuple(sorted(found))

    async def expire(self, discarded: Discarded) -> None:
        """Delete the branch of discarded work, if it is still the same; for good."""
        async with self._turn:
            place = await self._where()
            name = f"refs/heads/{discarded.branch}"
            if await self._git.commit(place.repository, name) == discarded.commit:
                await self._git.run(place.repository, "update-ref", "-d", name, discarded.commit)

    async def remove(self, changeset: Changeset) -> None:
        """Delete a work tree without work that no branch has; its branch stays.

        It is moved aside first and looked at once more. Cut at any point it is completed by the
        next `remove` or by `sweep`. Nothing happens if it is not there.

        Raises:
            ChangesetDirty: It holds such work; it stays as it is.
            WorktreeLocked: Somebody has locked it.
            ChangesetTaken: It is somebody else's, or somebody works on it.
        """
        async with self._turn, self._ours(changeset.assignment):
            place = await self._where()
            admin = place.admin(changeset.path)
            if admin is not None:
                await self._condemn(place, changeset.path, admin)
                await self._forget(place, admin)
            for condemned in place.condemned():
                if condemned.name.startswith(f"{changeset.path.name}."):
                    await anyio.to_thread.run_sync(remove_tree, condemned)

    async def half_removed(self) -> tuple[Path, ...]:
        """Return the remains of work trees whose removal was interrupted; `sweep` deletes them."""
        async with self._turn:
            return (await self._where()).condemned()

    async def sweep(self, removed: Path) -> None:
        """Delete what `half_removed` told of."""
        async with self._turn:
            if removed in (await self._where()).condemned():
                await anyio.to_thread.run_sync(remove_tree, removed)

    # --- making ----------------------------------------------------------------------------------

    async def _where(self) -> Place:
        """Return where everything lies; asked once."""
        if self._place is None:
            questions = ("--show-toplevel", "--git-common-dir")
            answer = await self._git.run(self._repository, "rev-parse", *questions)
            top, common = answer.text.split("\n")
            place = locate(self._repository, top, common, self._folder, self._project)
            self._place, self._git = place, Git(place.folder)
        return self._place

    async def _head(self) -> str:
        """Return the commit that new work begins at."""
        place = await self._where()
        head = await self._git.commit(place.repository, "HEAD")
        if not head:
            raise NotARepository(place.repository, "no commit")
        return head

    async def _tree(self, path: Path) -> WorkTree:
        place = await self._where()
        return await open_work_tree(self._git, path, place.admin(path))

    # --- whose it is ------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _ours(
        self, assignment: str, digest: str = "", *, begun: bool = True
    ) -> AsyncGenerator[Changeset]:
        """Yield a changeset of ours, locked against other workers."""
        checked(assignment, self._repository)
        await self._head()
        place = await self._where()
        changeset = place.changeset(assignment)
        if assignment in self._held:
            await (await self._rights()).refuse(changeset, begun=begun)
            yield changeset
            return
        file = place.claim_file(assignment)
        with locked(file, changeset.path):
            earlier = await (await self._rights()).refuse(changeset, begun=begun)
            if earlier:
                await (await self._rights()).take_over(changeset)
            claim = Claim(
                identity=self._owner.identity,
                ledger=self._owner.ledger,
                assignment=assignment,
                digest=digest,
            )
            try:
                write_claim(file, claim)
            except OSError as error:
                message = f"got {error.strerror}, wanted a file that can be written"
                raise ChangesetError(file, message) from error
            yield changeset

    async def _rights(self) -> Rights:
        return Rights(self._git, await self._where(), self._owner)

    # --- making it --------------------------------------------------------------------------------

    async def _open(self, changeset: Changeset) -> Changeset:
        place = await self._where()
        admin = place.admin(changeset.path)
        place.bring_back(changeset.path)
        names = entries(changeset.path)
        if admin is not None and not admin.ready and names in ([], [".git"]):
            _clear(changeset.path)
            names = None
        if admin is not None and names is None:
            await self._forget(place, admin)
            admin = None
        if admin is None:
            admin = await self._add(place, changeset)
            files = await disarmed(self._git, changeset.path)
            await files.run(changeset.path, "read-tree", "-m", "-u", "HEAD")
        else:
            await self._mend(place, changeset, admin)
        admin.unlock()
        if not admin.ready:
            admin.mark(self._project, changeset.assignment)
        return changeset

    async def _add(self, place: Place, changeset: Changeset) -> Admin:
        """Have git make a work tree without files, on the branch of the assignment."""
        place.prepare()
        there = await self._git.commit(place.repository, f"refs/heads/{changeset.branch}")
        command = ["worktree", "add", "--no-checkout"]
        command += [] if there else ["-b", changeset.branch]
        start = changeset.branch if there else await self._head()
        await self._git.run(place.repository, *command, str(changeset.path), start)
        admin = place.admin(changeset.path)
        if admin is None:
            raise GitFailed(changeset.path, "worktree add", "a work tree that is nowhere")
        return admin

    async def _mend(self, place: Place, changeset: Changeset, admin: Admin) -> None:
        """Repair a work tree, and complete an interrupted operation."""
        path = changeset.path
        if (await self._git.ask(path, "rev-parse", "--git-dir")).code:  # its `.git` is spoilt
            await self._git.run(place.repository, "worktree", "repair")
        answer = await self._git.run(path, "rev-parse", "--absolute-git-dir")
        if answer.text != str(admin.folder):
            raise ChangesetTaken(path, f"a work tree of {answer.text}", f"one of {admin.folder}")
        head = (await self._git.ask(path, "symbolic-ref", "--quiet", "HEAD")).text
        head, name = head.removeprefix("refs/heads/"), changeset.assignment
        put_away = (discarded_prefix(self._project, name), discarded_prefix(name))
        if head.startswith(put_away):
            target = await self._head()
        elif admin.ready or head not in {changeset.branch, earlier_branch_of(name)}:
            return
        else:
            target = await self._git.commit(path, "HEAD")
        tree = await open_work_tree(self._git, path, admin)
        if await tree.unsaved():
            await self._put_away(tree, changeset, "left by a step that was cut", target)
        else:
            await tree.switch(changeset.branch, target)

    async def _put_away(self, tree: WorkTree, changeset: Changeset, reason: str, to: str) -> str:
        """Put everything on a new branch of discarded work, then switch to the changeset's own.

        Returns:
            The new branch; empty if there is none.

        Args:
            tree: Its work tree.
            changeset: The changeset.
            reason: Message of the commit.
            to: The commit to switch to. If it has everything already, there is no new branch.
        """
        made = await tree.commit_all(reason, changeset.branch, to, self._clock())
        branch = await self._new_branch(changeset.assignment) if made else ""
        if made:
            await tree.move_to(branch, made)
        await tree.switch(changeset.branch, to)
        return branch.removeprefix("refs/heads/")

    async def _new_branch(self, assignment: str) -> str:
        """Return the full name of a branch that is not there, for discarded work."""
        place = await self._where()
        prefix = discarded_prefix(self._project, assignment)
        name = first = f"refs/heads/{prefix}{self._stamp()}"
        number = 1
        while await self._git.commit(place.repository, name):
            number += 1
            name = f"{first}-{number}"
        return name

    # --- removing --------------------------------------------------------------------------------

    async def _condemn(self, place: Place, path: Path, admin: Admin) -> None:
        """Take a clean work tree out of its place for good."""
        if admin.lock:
            raise WorktreeLocked(path, repr(admin.lock))
        if entries(path) is not None:
            await (await open_work_tree(self._git, path, admin)).refuse_dirty()
            place.put_aside(path, self._stamp())
        if (aside := place.aside(path)) is not None:
            # Now it is unreachable by its name: look again.
            try:
                await (await open_work_tree(self._git, aside, admin)).refuse_dirty()
            except ChangesetDirty:
                aside.rename(path)
                raise
            place.condemn(aside)

    async def _forget(self, place: Place, admin: Admin) -> None:
        """Have git forget a work tree whose folder is gone, but none of its commits."""
        if admin.lock:
            raise WorktreeLocked(admin.path, repr(admin.lock))
        head = await self._git.commit(place.repository, "HEAD", f"--git-dir={admin.folder}")
        if head:
            refs = ("--count=1", f"--contains={head}", "refs/heads")
            on = await self._git.run(place.repository, "for-each-ref", *refs)
            if not on.out:
                name = admin.path.name.removeprefix(f"{self._project}-")
                branch = await self._new_branch(name)
                await self._git.run(place.repository, "update-ref", branch, head)
        admin.unlock()
        # There is nothing left that could be forced away but what git keeps itself.
        await self._git.run(place.repository, "worktree", "remove", "--force", str(admin.path))

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(self._clock(), UTC)
        return moment.strftime("%Y%m%dT%H%M%S-%f")


def _clear(path: Path) -> None:
    """Remove a work tree that holds nothing but the file that names its repository."""
    (path / ".git").unlink(missing_ok=True)
    path.rmdir()
