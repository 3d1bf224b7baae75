"""The files that `engine init` writes into `.supervisor`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from otpy_agents.engine.supervisor_files import FOLDER

__all__ = ["write_templates"]

_NAMES: Final = {
    **{name: name for name in ("gates.yaml", "adaptive.yaml", "approval.yaml", "limits.yaml")},
    "roles/example.yaml": "roles/example.yaml",
    "gitignore": ".gitignore",
}
"""Where each text that we ship goes."""


def write_templates(repository: Path) -> Iterator[tuple[Path, bool]]:
    """Write an example of each file, and yield its path, and whether it is new (ENG-43).

    What is there stays as it is.

    Raises:
        OSError: A file cannot be written.
    """
    source = files("otpy_agents.engine") / "templates"
    for name, place in _NAMES.items():
        path = repository / FOLDER / place
        text = source.joinpath(name).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            yield path, False
        else:
            yield path, True
