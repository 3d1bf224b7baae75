"""Checks, before any work, whether a changeset is ours, and what is in its way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.errors import ChangesetTaken
from otpy_agents.workspace.claims import ChangesetOwner, Claim, is_ours, read_claim
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.place import (
    Changeset,
    Place,
    branch_in_use,
    earlier_branch_of,
    entries,
)

__all__ = ["Rights"]

_ANOTHER_NAME: Final = "one of our own; give one of the two lists another `name`"
_AWAY: Final = "none; take it away with `git worktree move` or `git worktree remove`"


@frozen
class Rights:
    """What one owner may do with the changesets of a project in a repository.

    Attributes:
        git: What runs git.
        place: Where they lie.
        us: The owner.
    """

    git: Git
    place: Place
    us: ChangesetOwner

    def owns(self, changeset: Changeset) -> bool:
        """Tell whether a changeset that has a work tree is ours."""
        try:
            claim = read_claim(self.place.claim_file(changeset.assignment))
        except ChangesetTaken:
            return False
        return not self.us.ledger if claim is None else self._claimed(claim)

    def _claimed(self, claim: Claim) -> bool:
        left = bool(claim.ledger) and not Path(claim.ledger).exists()
        return is_ours(claim, self.us, left=left)

    async def refuse(self, changeset: Changeset, *, begun: bool) -> bool:
        """Raise if a changeset has another owner, or something is in its way; change nothing.

        Returns:
            Whether it is of an earlier version, and ours.
        """
        place = self.place
        path, branch = changeset.path, f"refs/heads/{changeset.branch}"
        admin, names = place.admin(path), entries(path) or _aside(place, path)
        there = await self.git.commit(place.repository, branch)
        claim = read_claim(place.claim_file(changeset.assignment))
        earlier = earlier_branch_of(changeset.assignment)
        if claim is not None:
            if (admin is not None or names or there) and not self._claimed(claim):
                what = "a work tree" if admin else f"the branch {changeset.branch}"
                raise ChangesetTaken(path, f"{what} of {claim.owner}", _ANOTHER_NAME)
        elif admin and names is not None and (admin.ready or names not in ([], [".git"])):
            ours = begun if admin.ready else branch_in_use(admin.folder).endswith(f"/{earlier}")
            if not ours:
                raise ChangesetTaken(path, "a work tree without an owner", _AWAY)
        elif there:
            got = f"the branch {changeset.branch} without an owner"
            raise ChangesetTaken(path, got, "none; rename or delete it")
        if admin is None and names:
            wanted = "none, or a work tree of this repository"
            raise ChangesetTaken(path, "a folder in its place", wanted)
        if admin is not None:
            admin.refuse((self.place.project, changeset.assignment), names)
        if (user := place.user_of(branch, path)) is not None:
            raise ChangesetTaken(path, f"its branch in use at {user}", "a branch of its own")
        if not there:
            await self._refuse_neighbours(changeset, "" if claim else earlier)
        return claim is None and admin is not None

    async def _refuse_neighbours(self, changeset: Changeset, own: str) -> None:
        """Raise if there is a branch beside which git cannot make that of a changeset.

        Args:
            changeset: The changeset.
            own: A branch that is not an obstacle, because it is renamed to that of the changeset.
        """
        place = self.place
        above = [name for name in ("otpy", f"otpy/{self.place.project}") if name != own]
        found = [n for n in above if await self.git.commit(place.repository, f"refs/heads/{n}")]
        below = ("--count=1", "--format=%(refname:short)", f"refs/heads/{changeset.branch}/")
        found += (await self.git.run(place.repository, "for-each-ref", *below)).text.split()
        if found:
            got = f"the branch {found[0]} in the way of {changeset.branch}"
            raise ChangesetTaken(changeset.path, got, f"none; `git branch -m {found[0]} NAME`")

    async def take_over(self, changeset: Changeset) -> None:
        """Give the branch of an earlier version its new name, unless another process is on it."""
        place = self.place
        old, new = earlier_branch_of(changeset.assignment), changeset.branch
        name = f"refs/heads/{old}"
        if await self.git.commit(place.repository, name) and not place.user_of(
            name, changeset.path
        ):
            # Git refuses while it is being rebased; then it is as if the agent had switched to it.
            await self.git.ask(place.repository, "branch", "-m", old, new)


def _aside(place: Place, path: Path) -> list[str] | None:
    """Return the names in a work tree whose removal was cut, and that `open` brings back."""
    aside = place.aside(path)
    return None if aside is None else entries(aside)
