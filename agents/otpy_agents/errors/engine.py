"""Errors of the engine: its files, its roles and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otpy_agents.errors.ancestor import AgentsError

__all__ = ["GateCycle", "InvalidEngineFile", "TargetRefused", "UnknownGate", "UnknownRole"]


class InvalidEngineFile(AgentsError, ValueError):
    """A file of the engine, such as `.supervisor/gates.yaml`, with the one place to mend first.

    Attributes:
        file: The file, as a person would look for it.
        line: Line of the offending key, from 1; None if the file could not be read at all.
        got: The value found, as a person would write it.
        wanted: What would have been accepted.
        key: Where in the file, for example `gates.lint.timeout`; empty for the file as a whole.
    """

    def __init__(
        self, file: Path | str, line: int | None, got: str, wanted: str, *, key: str = ""
    ) -> None:
        self.file, self.line, self.got, self.wanted, self.key = str(file), line, got, wanted, key
        place = f"{file}" if line is None else f"{file}:{line}"
        subject = f"{key}: " if key else ""
        super().__init__(f"{place}: {subject}got {got}, wanted {wanted}")


class UnknownGate(AgentsError, LookupError):
    """A gate that there is not.

    Attributes:
        name: Its name.
        known: The names that there are.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"gate: got {name!r}, wanted one of {', '.join(known)}")


class GateCycle(AgentsError, ValueError):
    """Gates that depend on each other in a circle.

    Attributes:
        path: Their names, each before one that it depends on; the first is the last, too.
    """

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        super().__init__(f"gates: got {' → '.join(path)}, wanted gates without a circle")


class TargetRefused(AgentsError, ValueError):
    """A task may not be about this file: it is outside of the work tree, or is not a file.

    Attributes:
        path: The file as it was named.
        why: What it is instead, for example `is a folder`.
    """

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"target: got {path!r}, which {why}, wanted a file of the work tree")


class UnknownRole(AgentsError, LookupError):
    """No role of that name is shipped or in `.supervisor/roles`.

    Attributes:
        name: The name.
        known: Those that there are.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"role: got {name!r}, wanted one of {', '.join(known)}")
