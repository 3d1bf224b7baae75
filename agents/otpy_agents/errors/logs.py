"""Errors of the event log."""

from __future__ import annotations

from pathlib import Path

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "ArchiveMissing",
    "EventCorrupt",
    "EventTooNew",
    "InvalidEventType",
    "InvalidProjection",
    "LogError",
    "LogTampered",
    "UnknownEvent",
    "VersionConflict",
]


class LogError(AgentsError):
    """An error about the event log or its content; the subclasses say what to do."""


class InvalidEventType(LogError, ValueError):
    """A type of event that can never be read back, refused where it is defined."""

    def __init__(self, name: str, got: str, wanted: str) -> None:
        self.name = name
        super().__init__(f"event type {name!r}: got {got}, wanted {wanted}")


class InvalidProjection(LogError, ValueError):
    """A projection that can never have a table, refused where it is defined."""

    def __init__(self, name: str, got: str, wanted: str) -> None:
        self.name = name
        super().__init__(f"projection {name!r}: got {got}, wanted {wanted}")


class VersionConflict(LogError, RuntimeError):
    """Somebody else has appended to the stream meanwhile; nothing was appended.

    Attributes:
        stream: Which.
        version: Its version now.
        expected: The version it was to have.
    """

    def __init__(self, stream: str, version: int, expected: int) -> None:
        self.stream, self.version, self.expected = stream, version, expected
        super().__init__(f"stream {stream!r}: got version {version}, wanted {expected}")


class UnknownEvent(LogError, LookupError):
    """An event of a type that this program does not know; its stored form can still be read."""

    def __init__(self, position: int, name: str) -> None:
        self.position, self.name = position, name
        super().__init__(f"event {position}: got the unknown type {name!r}, wanted a known one")


class EventTooNew(LogError):
    """An event that a newer otpy_agents wrote."""

    def __init__(self, position: int, name: str, version: int, newest: int) -> None:
        self.position, self.name, self.version = position, name, version
        super().__init__(
            f"event {position}: got {name} in version {version}, wanted {newest} or older;"
            " upgrade otpy-tree"
        )


class EventCorrupt(LogError, ValueError):
    """The stored event does not fit its type."""

    def __init__(self, position: int, name: str, detail: str) -> None:
        self.position, self.name = position, name
        super().__init__(f"event {position}: got {detail}, wanted a sound {name}")


class LogTampered(LogError, ValueError):
    """The chain of hashes does not hold: an event was changed, removed or put elsewhere.

    Attributes:
        position: The first event that does not fit those before it.
    """

    def __init__(self, position: int, got: str, wanted: str) -> None:
        self.position = position
        super().__init__(f"event {position}: got {got}, wanted {wanted}")


class ArchiveMissing(LogError, LookupError):
    """An archive that events of the log have left for is not there, or cannot be read.

    Attributes:
        file: Which.
    """

    def __init__(self, file: Path, detail: str) -> None:
        self.file = file
        super().__init__(f"archive {file}: got {detail}, wanted the events that left the log")
