"""Errors of the control plane: its tasks, its state and its stores (CTL-61).

Failures of execution and of validation are not errors: they halt a project, or retry a task.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "AuditUnwritable",
    "CorruptState",
    "FolderTaken",
    "InvalidControlTable",
    "InvalidReport",
    "InvalidStore",
    "InvalidTask",
    "MissingStateField",
    "OrderRefused",
    "ProjectHeld",
    "StateError",
    "StateMissing",
    "StoreRefused",
    "StoreUnreachable",
]

_GOT_LIMIT: Final = 120


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _GOT_LIMIT else f"{text[:_GOT_LIMIT]}…"


class AuditUnwritable(AgentsError, OSError):
    """A line of an audit cannot be written.

    Attributes:
        path: The file.
        reason: Why.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: got {reason!r}, wanted a file that lines can be appended to")


class InvalidStore(AgentsError, ValueError):
    """A store of projects that there is not.

    Attributes:
        got: What was said.
    """

    def __init__(self, got: str) -> None:
        self.got = got
        super().__init__(f"--store: got {got!r}, wanted sqlite:FILE or redis://HOST:PORT")


class InvalidTask(AgentsError, ValueError):
    """A task that cannot be taken, with the one place to mend first (CTL-26 to CTL-28).

    Attributes:
        file: Where it was read; None if it came from elsewhere.
        line: Line of the offending value, from 1; None if it was not read from a file.
        key: What is wrong, for example `[2].retry_policy.max_retries`; empty for the whole.
        got: The value found, as a person would write it.
        wanted: What would have been accepted.
    """

    def __init__(
        self, key: str, got: str, wanted: str, *, file: Path | None = None, line: int | None = None
    ) -> None:
        self.file, self.line, self.key, self.got, self.wanted = file, line, key, got, wanted
        place = "task" if file is None else f"{file}" if line is None else f"{file}:{line}"
        subject = f"{key}: " if key else ""
        super().__init__(f"{place}: {subject}got {got}, wanted {wanted}")


class InvalidControlTable(AgentsError, ValueError):
    """A file with an operator's own patterns or task types that cannot be used (CTL-31, CTL-42).

    Attributes:
        file: The file.
        key: What is wrong in it, for example `halt 2.pattern`; empty for the whole of it.
        got: What stands there.
        wanted: What would have been accepted.
    """

    def __init__(self, file: Path, key: str, got: str, wanted: str) -> None:
        self.file, self.key, self.got, self.wanted = file, key, got, wanted
        subject = f"{key}: " if key else ""
        super().__init__(f"{file}: {subject}got {got}, wanted {wanted}")


class InvalidReport(AgentsError, ValueError):
    """What was stored as the report of a validation is none (CTL-36).

    Attributes:
        key: The field, for example `confidence`.
        got: The value found.
        wanted: What would have been accepted.
    """

    def __init__(self, key: str, got: object, wanted: str) -> None:
        self.key, self.got, self.wanted = key, got, wanted
        super().__init__(f"validation report: {key}: got {_cut(got)}, wanted {wanted}")


class OrderRefused(AgentsError, ValueError):
    """An operator's order that does not fit where the project stands.

    Attributes:
        order: Its name, as it is typed.
        got: What stands against it.
        wanted: What would have been accepted.
    """

    def __init__(self, order: str, got: str, wanted: str) -> None:
        self.order, self.got, self.wanted = order, got, wanted
        super().__init__(f"{order}: got {got}, wanted {wanted}")


class ProjectHeld(AgentsError, RuntimeError):
    """Another host works on the project; each is worked on by one at a time (G-19).

    Attributes:
        place: The project, for a person.
        holder: Who works on it.
    """

    def __init__(self, place: str, holder: str) -> None:
        self.place, self.holder = place, holder
        super().__init__(f"{place}: got a project that {holder} works on, wanted a free one")


class FolderTaken(AgentsError, RuntimeError):
    """The folder of a project is another project's; each has one of its own (CTL-60).

    Attributes:
        folder: The folder.
        owner: The other project: its stream, its log and, in Redis, the place of its store.
        mark: The file that says so.
    """

    def __init__(self, folder: Path, owner: str, mark: Path) -> None:
        self.folder, self.owner, self.mark = folder, owner, mark
        super().__init__(
            f"{folder}: got the folder of {owner}, wanted another: `set-goal --project-id NAME`,"
            f" or remove {mark} if that project is over"
        )


class StateError(AgentsError):
    """The state of a project cannot be used as it is."""


class StateMissing(StateError, LookupError):
    """There is no state: the operator has to initialise it (CTL-23, CTL-63).

    Attributes:
        place: Where it was looked for, for a person.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(
            f"{place}: got no state, wanted one; make it with `otpy-agents control init-state`"
        )


class CorruptState(StateError, ValueError):
    """A stored state is corrupt: bad JSON, or a value of the wrong kind (CTL-23).

    Attributes:
        key: The field, for example `supervisor.iteration`; empty for the whole.
        got: The value found.
        wanted: What would have been accepted.
    """

    def __init__(self, key: str, got: object, wanted: str) -> None:
        self.key, self.got, self.wanted = key, got, wanted
        subject = f"{key}: " if key else ""
        super().__init__(f"corrupted state: {subject}got {_cut(got)}, wanted {wanted}")


class MissingStateField(StateError, LookupError):
    """A state without a field that it must have; the loop halts with this reason (CTL-10).

    Attributes:
        key: The field, for example `goal.completed`.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"MISSING_STATE_FIELD: got a state without {key}, wanted that field; put it there, or"
            " forget the state: `otpy-agents control init-state --force`"
        )


class StoreRefused(AgentsError, RuntimeError):
    """The server that keeps a project answers, and refuses what is asked of it.

    Attributes:
        place: Where it is.
        reason: What it says.
        wanted: What would have been served.
    """

    def __init__(self, place: str, reason: str, wanted: str) -> None:
        self.place, self.reason, self.wanted = place, reason, wanted
        super().__init__(f"{place}: got {reason!r}, wanted {wanted}")


class StoreUnreachable(AgentsError, ConnectionError):
    """The server that keeps a project does not answer; what it was given last may be written.

    Attributes:
        place: Where it should be.
        reason: What happened.
    """

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"{place}: got no answer ({reason}), wanted a Redis server that runs")
