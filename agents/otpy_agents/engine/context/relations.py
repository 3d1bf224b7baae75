"""Files that go with the target files: those they import, and those of the same name (ENG-20).

Of Python the imports are read; of other languages the names in quotes that a file of the tree has.
Nothing is run, and a text with mistakes in it has no imports.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

__all__ = ["folder_steps", "related_files"]

_PYTHON: Final = (".py", ".pyi")
_QUOTED: Final = re.compile(r"""["'`<]([\w@~.][\w@~./-]*)["'`>]""")
_TEST: Final = re.compile(r"^(?:test[_-])|(?:[._-](?:test|tests|spec|stories))+$")
_QUOTED_LIMIT: Final = 500
_SHORTEST: Final = 3
_PARTS_LIMIT: Final = 12


def related_files(targets: Mapping[str, str], files: Iterable[str]) -> dict[str, str]:
    """Return the files that go with some others, and why each does, in order of importance.

    What the targets import comes first, in their order; then what is called as they are, such as
    their tests.

    Args:
        targets: The texts of the target files, by path.
        files: All paths of the tree, sorted.
    """
    tree = _Tree(files)
    found: dict[str, str] = {}
    for path, text in targets.items():
        for other in tree.imported(path, text):
            found.setdefault(other, f"imported by {path}")
    for path in targets:
        for other in tree.namesakes(path):
            found.setdefault(other, f"named as {path}")
    return {other: why for other, why in found.items() if other not in targets}


class _Tree:
    """Paths, found by their ends."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)
        self._all = frozenset(self._files)
        self._by_last: defaultdict[str, list[str]] = defaultdict(list)
        self._by_stem: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._files:
            self._by_last[path.rpartition("/")[2]].append(path)
            self._by_stem[_stem(path)].append(path)

    def imported(self, path: str, text: str) -> Iterator[str]:
        """Yield the files that the text of `path` imports, in its order."""
        if path.endswith(_PYTHON):
            for module in _imports(text):
                found = self._module(path, module)
                if found is not None and found != path:
                    yield found
            return
        for name in islice(dict.fromkeys(_QUOTED.findall(text)), _QUOTED_LIMIT):
            found = self._quoted(path, name)
            if found is not None and found != path:
                yield found

    def namesakes(self, path: str) -> Iterator[str]:
        """Yield the files that are called as `path` is, but for endings and `test`."""
        stem = _stem(path)
        if len(stem) >= _SHORTEST:
            yield from sorted(
                (one for one in self._by_stem[stem] if one != path), key=_nearness(path)
            )

    def _module(self, path: str, module: str) -> str | None:
        """Return the file of a Python module; dots in front are relative to `path`."""
        name = module.lstrip(".")
        level = len(module) - len(name)
        parts = name.split(".") if name else []
        if len(parts) > _PARTS_LIMIT:
            return None
        if level:
            above = PurePosixPath(path).parts[:-level]
            if len(PurePosixPath(path).parts) < level:
                return None
            return self._first("/".join((*above, *parts)), anywhere=False, near=path)
        return self._first("/".join(parts), anywhere=True, near=path)

    def _first(self, stem: str, *, anywhere: bool, near: str) -> str | None:
        ends = [f"{stem}{end}" for end in (".py", "/__init__.py", ".pyi", "/__init__.pyi")]
        for end in ends:
            if end in self._all:
                return end
        if anywhere:
            for end in ends:
                last = end.rpartition("/")[2]
                found = [one for one in self._by_last[last] if one.endswith(f"/{end}")]
                if found:
                    return min(found, key=_nearness(near))
        return None

    def _quoted(self, path: str, name: str) -> str | None:
        """Return the file that a text in quotes is the path of, with or without its ending."""
        relative = name.startswith(".")
        parts: list[str] = list(PurePosixPath(path).parts[:-1]) if relative else []
        for part in name.split("/"):
            if part == ".." and parts:
                parts.pop()
            elif part not in {"", ".", "..", "@", "~"}:
                parts.append(part)
        if not parts:
            return None
        whole = "/".join(parts)
        last = parts[-1]
        ends = [one for one in self._by_last[last] if one == whole or one.endswith(f"/{whole}")]
        if not ends and len(last) >= _SHORTEST:
            stems = [*self._by_stem[_stem(last)], *self._by_stem["index"]]
            ends = [
                one
                for one in stems
                if (bare := one.rpartition(".")[0]) == whole
                or bare == f"{whole}/index"
                or (not relative and "/" in whole and bare.endswith(f"/{whole}"))
            ]
        return min(ends, key=_nearness(path), default=None)


def _stem(path: str) -> str:
    """Return the name without its ending and without what makes it that of a test."""
    name = path.rpartition("/")[2].removeprefix(".").partition(".")[0]
    return _TEST.sub("", name)


def _nearness(path: str) -> Callable[[str], tuple[int, str]]:
    return lambda other: (folder_steps(path, other), other)


def folder_steps(path: str, other: str) -> int:
    """Return how many steps the folder of one file is from that of another; 0 if it is the same."""
    one, two = path.split("/")[:-1], other.split("/")[:-1]
    shared = 0
    for mine, theirs in zip(one, two, strict=False):
        if mine != theirs:
            break
        shared += 1
    return len(one) + len(two) - 2 * shared


@lru_cache(maxsize=256)
def _imports(text: str) -> tuple[str, ...]:
    """Return the modules that a Python text imports; a name taken from one may be a module too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the text, which is not ours
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            joint = "" if start.endswith(".") or not start else "."
            modules += [f"{start}{joint}{alias.name}" for alias in node.names if alias.name != "*"]
            modules += [start] if node.module else []
    return tuple(dict.fromkeys(modules))
