"""Real and constructed output of agent CLIs, as `cli_outputs/README.md` describes it."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

FOLDER = Path(__file__).parent / "cli_outputs"


@frozen
class Sample:
    """Output of one run, and what it is known to mean."""

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
