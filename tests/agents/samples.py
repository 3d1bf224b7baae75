"""Real and constructed output of agent CLIs, as `cli_outputs/README.md` describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import frozen

FOLDER = Path(__file__).parent / "cli_outputs"


@frozen
class Sample:
    """Output of one run, and its known meaning."""

    cli: str
    name: str
    exit_code: int | None
    detail: str | None
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"{self.cli}-{self.name}"


def _read(path: Path) -> str:
    # Line ends as they are: they are part of what is tested.
    return path.read_bytes().decode() if path.exists() else ""


def real() -> list[Sample]:
    """Return every sample of the manifest."""
    entries = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    return [
        Sample(
            entry["cli"],
            entry["name"],
            entry["exit"],
            entry["detail"],
            _read(FOLDER / entry["cli"] / f"{entry['name']}.stdout"),
            _read(FOLDER / entry["cli"] / f"{entry['name']}.stderr"),
        )
        for entry in entries
    ]


def sample(cli: str, name: str) -> Sample:
    """Return one sample of the manifest."""
    (found,) = (item for item in real() if (item.cli, item.name) == (cli, name))
    return found


@frozen
class Failure:
    """An error message in a vendor's wording, and its possible meanings.

    Attributes:
        cli: The CLI that ends with it.
        message: Its words, as the CLI gives them in its last event, or on its error stream.
        details: Any of them is right: some messages hold two reasons.
        stream: "stderr" for a CLI that never got as far as an event.
        status: HTTP status, where the CLI gives it in a field of its own.
    """

    cli: str
    message: str
    details: frozenset[str]
    stream: str
    status: int | None

    def __str__(self) -> str:
        return f"{self.cli}-{self.message[:60]}"


def failures() -> list[Failure]:
    """Return every failure of `messages.json`."""
    return [
        Failure(
            entry["cli"],
            entry["message"],
            frozenset(entry["detail"]),
            entry.get("stream", "stdout"),
            entry.get("status"),
        )
        for entry in _messages()["failures"]
    ]


def programs() -> list[str]:
    """Return every message of `messages.json` in which a program speaks of its own names."""
    return list(_messages()["programs"])


def _messages() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "messages.json").read_text(encoding="utf-8")))
