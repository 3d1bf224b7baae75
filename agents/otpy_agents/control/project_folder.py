"""A project's folder as rules read it: within limits, and never anything outside of it.

An agent wrote what lies there, so nothing is trusted: links that lead out, files of a gigabyte,
pipes, loops of links and names that are not UTF-8 each have an answer, and none of them an error.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = [
    "FILE_LIMIT",
    "FILES_LIMIT",
    "TOTAL_LIMIT",
    "list_files",
    "Mention",
    "Obstacle",
    "Search",
    "locate",
    "read_text",
    "search",
]

FILE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a file that is read; a bigger one is not looked into."""
TOTAL_LIMIT: Final = 4 * FILE_LIMIT
"""Bytes that one search reads."""
FILES_LIMIT: Final = 20_000
"""Files that one search opens."""

# What tools keep for themselves. Dependencies are nobody's work here.
_FOREIGN: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".worktrees"),
        *("node_modules", "venv", ".venv", ".tox", ".nox", "__pycache__"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle"),
    }
)
# Our own records lie at the top of the project. They quote each criterion and each answer, and
# would prove everything.
_RECORDS: Final = ("audit.log.jsonl", "prompts.log.jsonl")
_MENTIONS_LIMIT: Final = 20
_LINE_LIMIT: Final = 200
_BINARY_HEAD: Final = 8192
# A path that cannot lead anywhere fails what is asked of it; anything else that the system says,
# for example that we may not read, leaves it open.
_NOWHERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@frozen
class Obstacle:
    """Why a file is not read.

    Attributes:
        saw: What is the matter with it, as the end of a sentence: `is not there`.
        is_final: Whether that fails a criterion; otherwise the result is unknown.
    """

    saw: str
    is_final: bool


@frozen
class Mention:
    """A place in the project where something was found.

    Attributes:
        path: Relative to the project.
        line: From 1.
        text: The line, without white space around it and cut.
    """

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@frozen
class Search:
    """The result of a search, and the places that it skipped.

    Attributes:
        mentions: In order of path and line; at most one for each line, and 20 in all.
        files: How many text files were read.
        unread: Paths that could not be read or were too much; while there are any, what was not
            found may be there nevertheless. Binary files, links and what tools keep (`.git`,
            `node_modules` …) do not count.
    """

    mentions: tuple[Mention, ...]
    files: int
    unread: tuple[str, ...] = ()


def locate(folder: Path, name: str) -> Path | Obstacle:
    """Return where `name` is, with all links followed, if that is in `folder` and there.

    Accented letters may be composed or not: file systems differ in how they keep them.
    """
    if not _is_name(name):
        return Obstacle("is not the name of a file", is_final=True)
    base = os.path.realpath(folder)
    forms = (name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))
    for form in dict.fromkeys(forms):
        # Unlike `Path.resolve`, this raises nothing for a loop of links.
        path = Path(os.path.realpath(Path(base, form)))
        if not path.is_relative_to(base):
            return Obstacle("leads out of the project", is_final=True)
        try:
            path.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return _obstacle(error)
        return path
    return Obstacle("is not there", is_final=True)


def read_text(folder: Path, name: str) -> str | Obstacle:
    """Return the text of a file of the project; bytes that are not UTF-8 are replaced."""
    path = locate(folder, name)
    if isinstance(path, Obstacle):
        return path
    content = _read(path)
    return content if isinstance(content, Obstacle) else _decoded(content)


def search(
    folder: Path, pattern: re.Pattern[str], under: str = ".", *, per_file: int = _MENTIONS_LIMIT
) -> Search | Obstacle:
    """Look for `pattern` in each text file below `under`, or in that file.

    An obstacle is told only for `under` itself.

    Args:
        folder: The project's folder.
        pattern: What is looked for.
        under: Where, relative to the project.
        per_file: Mentions of one file, at most.
    """
    start = locate(folder, under)
    if isinstance(start, Obstacle):
        return start
    base = Path(os.path.realpath(folder))
    mentions: list[Mention] = []
    unread: list[str] = []
    files: int = 0
    total: int = 0
    for path in _files(start, base, unread):
        shown = _shown(path, base)
        if files == FILES_LIMIT or total >= TOTAL_LIMIT:
            unread.append(shown)
            break
        content = _read(path)
        if isinstance(content, Obstacle):
            unread.append(shown)
            continue
        total += len(content)
        if b"\0" in content[:_BINARY_HEAD]:
            continue
        files += 1
        most = min(per_file, _MENTIONS_LIMIT - len(mentions))
        mentions.extend(islice(_mentions(pattern, _decoded(content), shown), most))
        if len(mentions) == _MENTIONS_LIMIT:
            break
    return Search(tuple(mentions), files, tuple(unread))


def list_files(folder: Path, most: int) -> tuple[tuple[str, ...], bool]:
    """Return the first files of a project, in order, and whether these are all.

    Links, what tools keep and our own records are left out.
    """
    base = Path(os.path.realpath(folder))
    found = list(islice((_shown(path, base) for path in _files(base, base, [])), most + 1))
    return tuple(found[:most]), len(found) <= most


def _is_name(name: str) -> bool:
    try:
        return bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _files(start: Path, base: Path, unread: list[str]) -> Iterator[Path]:
    if not start.is_dir():
        yield start
        return

    def note(error: OSError) -> None:
        unread.append(_shown(Path(os.fsdecode(error.filename or start)), base))

    for top, folders, names in os.walk(start, onerror=note):
        folders[:] = sorted(folder for folder in folders if folder not in _FOREIGN)
        for name in sorted(names):
            path = Path(top, name)
            if path.is_symlink() or (path.parent == base and name.startswith(_RECORDS)):
                continue
            yield path


def _shown(path: Path, base: Path) -> str:
    # A name that is not UTF-8 could not be written into a report.
    return os.fsencode(path.relative_to(base)).decode(errors="replace")


def _mentions(pattern: re.Pattern[str], text: str, shown: str) -> Iterator[Mention]:
    line, counted = 1, 0
    last = 0
    for match in pattern.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if line == last:
            continue
        last = line
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        whole = text[begin : end if end >= 0 else None].strip()
        yield Mention(shown, line, whole[:_LINE_LIMIT])


def _read(path: Path) -> bytes | Obstacle:
    try:
        # Opening a pipe would otherwise block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _obstacle(error)
    try:
        return _content(descriptor)
    except OSError as error:
        return _obstacle(error)
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes | Obstacle:
    state = os.fstat(descriptor)
    if stat.S_ISDIR(state.st_mode):
        return Obstacle("is a folder", is_final=True)
    if not stat.S_ISREG(state.st_mode):
        return Obstacle("is not a regular file", is_final=True)
    if state.st_size > FILE_LIMIT:
        read = f"the {FILE_LIMIT:,} that are read"
        return Obstacle(f"has {state.st_size:,} bytes, more than {read}", is_final=False)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(FILE_LIMIT)


def _obstacle(error: OSError) -> Obstacle:
    saw = f"cannot be read: {error.strerror}"
    return Obstacle(saw, is_final=error.errno in _NOWHERE)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", errors="replace")
