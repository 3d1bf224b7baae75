"""Outlines of files by Repomix, a program of its own, where it is installed (ENG-22).

It is given copies in an empty folder. Nothing of the repository is run by it, its configuration
there (which may be a program) included, and none of its choices of files counts.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast, final

import anyio
import anyio.to_thread

from otpy_agents.errors import SpawnFailed
from otpy_agents.process.process import spawn

__all__ = ["Repomix"]

LIMIT: Final = 60.0
"""Seconds that it may take."""

_MARKER: Final = "OTPY_REPOMIX"
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "NODE_EXTRA_CA_CERTS")
_OPTIONS: Final = (
    *("--compress", "--style", "json", "--quiet"),
    *("--no-security-check", "--no-gitignore", "--no-default-patterns", "--no-dot-ignore"),
    *("--no-file-summary", "--no-directory-structure", "--no-git-sort-by-changes"),
)


@final
class Repomix:
    """Repomix, as it is installed here.

    Args:
        program: Its path.
        limit: Seconds that it may take.
    """

    def __init__(self, program: str, limit: float = LIMIT) -> None:
        self._program, self._limit = program, limit

    @classmethod
    def installed(cls) -> Repomix | None:
        """Return the one on PATH; None if there is none."""
        program = shutil.which("repomix")
        return None if program is None else cls(program)

    async def outlines(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what Repomix leaves of each text: its classes, functions and imports.

        What it cannot do is left out of the answer; if it fails, or takes too long, that is all.
        Cancelled, it is ended first.

        Args:
            texts: By path, which tells the language.
        """
        # A folder for each call: names of the repository could be anything.
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="otpy-repomix-")))
            names = await anyio.to_thread.run_sync(_copied, folder, texts)
            env = {name: os.environ[name] for name in _KEPT if name in os.environ}
            env |= {"HOME": str(folder), _MARKER: folder.name}
            argv = (
                *(self._program, "--config", str(folder / "config.json")),
                *("--output", str(folder / "answer.json"), *_OPTIONS, "files"),
            )
            try:
                with anyio.move_on_after(self._limit):
                    async with spawn(
                        argv, cwd=folder, env=env, grace=1.0, marker={_MARKER: folder.name}
                    ) as process:
                        await process.wait()
            except SpawnFailed:
                return {}
            answer = await anyio.to_thread.run_sync(_answer, folder / "answer.json")
        return {names[name]: text for name, text in answer if name in names}


def _copied(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write copies, and return the path that each stands for."""
    names: dict[str, str] = {}
    (folder / "files").mkdir()
    (folder / "config.json").write_text("{}")
    for number, (path, text) in enumerate(texts.items()):
        suffix = PurePosixPath(path).suffix
        name = f"{number:06}{suffix if suffix[1:].isalnum() and suffix.isascii() else ''}"
        (folder / "files" / name).write_text(text, encoding="utf-8", newline="")
        names[name] = path
    return names


def _answer(path: Path) -> list[tuple[str, str]]:
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
        files = cast("dict[Any, Any]", said["files"])
        return list(_files(files))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _files(files: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for name, text in files.items():
        if isinstance(name, str) and isinstance(text, str) and text.strip():
            yield PurePosixPath(name).name, text
