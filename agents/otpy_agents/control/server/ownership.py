"""Says whose a project's folder is: two projects in one would alter each other's audit (CTL-60)."""

from __future__ import annotations

import os
from pathlib import Path

from otpy_agents.control.stores import ControlStore
from otpy_agents.errors import AuditUnwritable, FolderTaken

__all__ = ["claim", "refuse_foreign"]


def claim(folder: Path, store: ControlStore) -> None:
    """Make a folder the property of a project.

    The mark lies beside the folder, where an agent behind walls cannot reach it. It is a link that
    leads nowhere: the one thing that is there at once with what it says.

    Raises:
        FolderTaken: It is another project's.
        AuditUnwritable: The mark cannot be made.
    """
    mark = _mark(folder)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.symlink_to(store.identity)
    except FileExistsError:
        refuse_foreign(folder, store)
    except OSError as error:
        raise AuditUnwritable(folder, error.strerror or str(error)) from error


def refuse_foreign(folder: Path, store: ControlStore) -> None:
    """Refuse a folder that is another project's.

    Raises:
        FolderTaken: It is.
    """
    mark = _mark(folder)
    try:
        owner = os.readlink(mark)  # noqa: PTH115 - a path would say `a/b` for the key `a//b`
    except OSError:
        return  # there is none
    if owner != store.identity:
        raise FolderTaken(folder, owner, mark)


def _mark(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.owner")
