"""The marker in a worker's environment, by which its processes are recognised.

A marker is a set of variables that a process must carry to count as ours. The environment is
inherited by everything a worker starts, also by what leaves its process group and session, which is
why it finds processes that no pid can (G-02).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["RESERVED", "attempt_marker", "list_marker", "run_marker", "worker_environment"]

RESERVED: Final = "OTPY_"
"""Names that begin so belong to us; a work list may not set them."""

_LAST_EXIT_LIMIT: Final = 1000


def list_marker(list_id: str) -> dict[str, str]:
    """Return what every process of the work list `list_id` carries, whichever host started it."""
    return {"OTPY_LIST": list_id}


def attempt_marker(list_id: str, assignment: str, incarnation: int) -> dict[str, str]:
    """Return what every process of one attempt at one assignment carries."""
    return {
        "OTPY_LIST": list_id,
        "OTPY_ASSIGNMENT": assignment,
        "OTPY_INCARNATION": str(incarnation),
    }


def run_marker(run: str, attempt: int | None = None) -> dict[str, str]:
    """Return what every process, and every container, of a run carries, or of one attempt of it.

    Args:
        run: Id of the run.
        attempt: Number of the attempt, from 1; None for what all of them have in common.
    """
    marker = {"OTPY_RUN": run}
    return marker if attempt is None else {**marker, "OTPY_ATTEMPT": str(attempt)}


def worker_environment(
    base: Mapping[str, str],
    own: Mapping[str, str],
    *,
    list_id: str,
    assignment: str,
    incarnation: int,
    restarts: int,
    work: Path,
    notes: Path,
    last_exit: str | None = None,
) -> dict[str, str]:
    """Return the complete environment of one worker.

    Args:
        base: What it inherits, usually `os.environ`; variables of an outer `otpy-agents` in it are
            dropped.
        own: The assignment's `env`; wins over `base`.
        list_id: Identity of the work list, `Ledger.list_id`.
        assignment: Id of the assignment.
        incarnation: 1 for the first worker of the assignment under this host, then 2 and so on.
        restarts: How often the assignment was restarted so far.
        work: Its work directory.
        notes: The file in which it finds messages sent to it, once there are any.
        last_exit: Why the previous incarnation ended; given to a restarted worker as a sentence in
            `OTPY_LAST_EXIT` (TREE-36, TREE-37), which is absent otherwise.

    Returns:
        `OTPY_LIST`, `OTPY_ASSIGNMENT`, `OTPY_INCARNATION`, `OTPY_RESTARTS`, `OTPY_WORK`,
        `OTPY_NOTES`, perhaps `OTPY_LAST_EXIT`, `PYTHONUNBUFFERED` unless it is set otherwise, and
        the two mappings.
    """
    environment = {name: text for name, text in base.items() if not name.startswith(RESERVED)}
    # Python holds output back when it goes into a pipe: it would not stream, and look like a stall.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.update(own)
    environment.update(attempt_marker(list_id, assignment, incarnation))
    environment["OTPY_RESTARTS"] = str(restarts)
    environment["OTPY_WORK"] = str(work)
    environment["OTPY_NOTES"] = str(notes)
    if last_exit is not None:
        # The kernel refuses a NUL and a variable over 128 KiB; both would make the restart of a
        # worker fail because of how the previous one died.
        reason = last_exit.replace("\0", "�")[:_LAST_EXIT_LIMIT]
        environment["OTPY_LAST_EXIT"] = f"you were restarted because {reason}"
    return environment
