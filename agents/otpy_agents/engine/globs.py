"""Globs of the engine's files: patterns of `.gitignore`, relative to the top of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, final

from pathspec import PathSpec

from otpy_agents.engine.supervisor_files import YamlTable

__all__ = ["Globs", "is_glob", "read_globs"]


@final
class Globs:
    """A list of globs; the last one that matches a path decides, as in `.gitignore`.

    `*.py` matches at any depth, `/*.py` at the top alone, `docs` and `docs/**` all that is in such
    a folder, and `!docs/old` takes something out again.

    Args:
        globs: Sound ones: see `is_glob`.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        self.globs = tuple(globs)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str | None]]:
        """The pattern of each glob, the last one first, with the glob; None for one with `!`."""
        # Not `match_file`: this is asked of ten thousand paths at a time, and takes a tenth.
        compiled: Any = PathSpec.from_lines("gitignore", self.globs).patterns
        return [
            (pattern.regex, glob if pattern.include else None)
            for pattern, glob in zip(compiled, self.globs, strict=True)
        ][::-1]

    def which(self, path: str) -> str | None:
        """Return the glob that decides that a path is meant; None if it is not meant."""
        for pattern, glob in self._patterns:
            if pattern.match(path):
                return glob
        return None

    def match(self, path: str) -> bool:
        """Tell whether a path, relative and with `/`, is meant."""
        return self.which(path) is not None

    def among(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return those of some paths that are meant, in their order."""
        return tuple(path for path in paths if self.which(path) is not None)


def is_glob(text: str) -> bool:
    """Tell whether a text is a glob that can match something below the top of a repository."""
    parts = text.removeprefix("!").split("/")
    if not any(parts) or not {".", ".."}.isdisjoint(parts):
        return False
    try:
        patterns = list(PathSpec.from_lines("gitignore", [text]).patterns)
    except ValueError:
        return False
    return bool(patterns) and all(pattern.include is not None for pattern in patterns)


def read_globs(table: YamlTable, key: str, *, variables: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a list of globs in a file; an empty one if the key is not there.

    Args:
        table: Where it stands.
        key: Its key.
        variables: What may stand in place of a glob; each begins with `$`.

    Raises:
        InvalidEngineFile: One of them is not a glob.
    """
    globs = table.texts(key)
    for number, glob in enumerate(globs):
        if variables and glob.startswith("$"):
            if glob not in variables:
                raise table.wrong(key, number, wanted=f"a glob, or one of {', '.join(variables)}")
        elif not is_glob(glob):
            wanted = "a glob relative to the top of the repository, such as src/**/*.py"
            raise table.wrong(key, number, wanted=wanted)
    return globs
