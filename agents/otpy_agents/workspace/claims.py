"""The owner of a work tree and its branch: a record that outlives both, and a lock on it.

The record is a file in the git folder of the repository, so that every process that wants the same
names finds it: another list, another host, another version. The kernel holds the lock for as long
as the process lives that works on the changeset.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast

from attrs import asdict, frozen

from otpy_agents.errors import AlreadyRunning, ChangesetError, ChangesetTaken, LedgerUnwritable
from otpy_agents.store.lock import HostLock

__all__ = [
    "Claim",
    "ChangesetOwner",
    "claim_file",
    "is_ours",
    "locked",
    "read_claim",
    "write_claim",
]

_FOLDER: Final = "otpy-owners"  # no name that git could take for a branch


@frozen
class ChangesetOwner:
    """The owner of changesets, distinct from all others that use the same names.

    Attributes:
        identity: Identity of the work list, which its ledger keeps; empty if the name of the
            project says enough.
        ledger: Where that ledger lies, absolute and without links; empty if there is none.
    """

    identity: str = ""
    ledger: str = ""

    def __str__(self) -> str:
        return f"the work list of '{self.ledger}'" if self.ledger else "a program without a list"


@frozen(kw_only=True)
class Claim:
    """What is written down about a changeset.

    Attributes:
        identity: As of its `ChangesetOwner`.
        ledger: As of its `ChangesetOwner`.
        assignment: Its id.
        digest: Fingerprint of the definition that was worked on last, for people; it may be empty.
    """

    identity: str
    ledger: str
    assignment: str
    digest: str = ""

    @property
    def owner(self) -> ChangesetOwner:
        """Whose it is."""
        return ChangesetOwner(self.identity, self.ledger)


def is_ours(claim: Claim, us: ChangesetOwner, *, left: bool) -> bool:
    """Decide whether a claim is ours. Pure.

    A ledger that was deleted and made again at its place is the same list. So is one that was moved
    with its list; but a copy is not, and it has the same identity.

    Args:
        claim: What is written down.
        us: Who asks.
        left: Whether there is no ledger any more where the claim says.
    """
    if claim.ledger == us.ledger:
        return bool(us.ledger) or claim.identity == us.identity
    return left and bool(us.identity) and claim.identity == us.identity


def claim_file(common: Path, project: str, assignment: str) -> Path:
    """Return where the owner of a changeset is written down.

    Args:
        common: Git folder of the repository.
        project: Name of the project, as it stands in the branch.
        assignment: Id of the assignment.
    """
    return common / _FOLDER / project / assignment


def read_claim(file: Path) -> Claim | None:
    """Return the stored claim; None if there is none.

    Raises:
        ChangesetTaken: It says something, but not whose the changeset is.
    """
    try:
        said = cast("object", json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        said = None
    match said:
        case {"identity": str(identity), "ledger": str(ledger), "assignment": str(assignment)}:
            return Claim(identity=identity, ledger=ledger, assignment=assignment)
        case _:
            wanted = "a record of who owns it; delete that file if the changeset is yours"
            raise ChangesetTaken(file, "what cannot be read", wanted)


def write_claim(file: Path, claim: Claim) -> None:
    """Write down whose a changeset is, in one step."""
    fresh = file.with_name(f".{file.name}.fresh")  # no assignment begins with a dot
    fresh.write_text(json.dumps(asdict(claim)), encoding="utf-8")
    fresh.replace(file)


@contextlib.contextmanager
def locked(file: Path, path: Path) -> Generator[None]:
    """Hold the lock on a claim while the block lasts.

    Args:
        file: From `claim_file`.
        path: The work tree, for messages.

    Raises:
        ChangesetTaken: Another process works on the changeset, or another object of this one.
        ChangesetError: There can be no lock, for example on a disk that is read-only.
    """
    lock = HostLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except AlreadyRunning as error:
        got = f"a changeset that process {error.pid} works on"
        raise ChangesetTaken(path, got, "one that nobody works on") from None
    except (LedgerUnwritable, OSError) as error:
        message = f"got no lock ({error}), wanted one on its record of who owns it"
        raise ChangesetError(path, message) from error
    try:
        yield
    finally:
        lock.release()
