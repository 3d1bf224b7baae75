"""The files of an audit: appended to line by line, and made again from the log where cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast, final

from attrs import frozen

from otpy_agents.control.audit.lines import NOTHING, Head
from otpy_agents.errors import AuditUnwritable

__all__ = ["AuditFile", "FileDamage"]

# An agent can put anything in the place of a file where it works: a link elsewhere, or a pipe.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@final
@frozen
class FileDamage:
    """A file that differs from the written lines.

    Attributes:
        path: The file.
        line: Number of the first line that is wrong, from 1.
        what: What is wrong with it, for a person.
    """

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@final
class AuditFile:
    """One file of lines, in a folder where agents work, and the older ones it has become (G-13).

    A file that has reached its limit is renamed, `audit.log.jsonl` to `audit.log.jsonl.1` and the
    next to `.2`, and a new one is begun; the chain of hashes goes on through all of them. Which
    line stands in which file follows from the lines alone.

    Args:
        path: The file; its folder must exist.
        limit: Bytes from which on the next line begins a new file.
    """

    def __init__(self, path: Path, limit: int = 10 * 1024 * 1024) -> None:
        self.path = path
        self._limit = limit
        self._full = 0  # files with a number, as `mend` has found

    def compare(self, lines: Sequence[str], kept: Head = NOTHING) -> FileDamage | None:
        """Return the first line that differs from the written one; None if none does.

        What is due beyond `kept` may be missing: the next `start` writes it.

        Args:
            lines: What is due.
            kept: The last line that was on the disk for certain.
        """
        number, digest = kept.number, kept.hash
        if number and (number > len(lines) or _hash(lines[number - 1]) != digest):
            return FileDamage(self.path, number, "got a log that makes another line than this one")
        parts = self._parts(lines)
        full = max(self._count_numbered(), len(self._parts(lines[:number])) - 1)
        parts = parts[: full + 1]
        for path, part in zip(self._paths(len(parts)), parts, strict=True):
            written = number if path == self.path else len(part)
            if (damage := _compare(path, part, lines, written=written)) is not None:
                return damage
            number = max(0, number - len(part))
        stray = self._numbered(len(parts))
        return FileDamage(stray, 1, _STRANGE) if stray.exists() else None

    def mend(self, lines: Sequence[str], kept: Head = NOTHING) -> FileDamage | None:
        """Repair the files; return the damage beyond a torn end.

        A file that ends too early, as after a crash, is completed. One that was altered is put
        aside under a name of its own, and made again.

        Args:
            lines: What is due.
            kept: The last line that was on the disk for certain; what is missing before it was
                removed.

        Raises:
            AuditUnwritable: It cannot be written.
        """
        parts = self._parts(lines)
        damages: list[FileDamage | None] = []
        try:
            self._number_full(parts)
            left = kept.number
            for path, part in zip(self._paths(len(parts)), parts, strict=True):
                damages.append(_mend(path, part, lines, written=min(left, len(part))))
                left -= min(left, len(part))
            self._full = len(parts) - 1
            while (stray := self._numbered(len(parts))).exists():
                damages.append(FileDamage(stray, 1, _STRANGE))
                stray.rename(_aside(stray))
        except OSError as error:
            raise AuditUnwritable(self.path, error.strerror or str(error)) from error
        return next(filter(None, damages), None)

    def append(self, line: str) -> None:
        """Append a line, and wait until the disk has it.

        Raises:
            AuditUnwritable: It cannot be written.
        """
        content = _joined([line])
        try:
            if self.path.exists() and self.path.lstat().st_size >= self._limit:
                self._begin_next(content)
            else:
                _append(self.path, content)
        except OSError as error:
            raise AuditUnwritable(self.path, error.strerror or str(error)) from error

    def _parts(self, lines: Sequence[str]) -> list[Sequence[str]]:
        """Return the lines of each file, oldest first; at least one file."""
        parts: list[list[str]] = [[]]
        size = 0
        for line in lines:
            if size >= self._limit:
                parts.append([])
                size = 0
            parts[-1].append(line)
            size += len(line.encode()) + 1
        return [*parts]

    def _paths(self, count: int) -> list[Path]:
        return [*(self._numbered(number) for number in range(1, count)), self.path]

    def _count_numbered(self) -> int:
        """Return how many older files there are."""
        number = 0
        while self._numbered(number + 1).exists():
            number += 1
        return number

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _number_full(self, parts: Sequence[Sequence[str]]) -> None:
        """Give full files their numbers, as far as a host was killed before.

        It may have been killed between an event and the file that it begins.
        """
        last, self._full = len(parts) - 1, 0
        while self._full < last and self._numbered(self._full + 1).exists():
            self._full += 1
        if self._full and _content(self.path) == _joined(parts[self._full - 1]):
            _replace(self.path, b"")
        while self._full < last and (content := _content(self.path)) is not None:
            wanted = _joined(parts[self._full])
            if not wanted.startswith(content):
                break  # the file that should have this number is gone
            _append(self.path, wanted[len(content) :])
            self._begin_next(b"")

    def _begin_next(self, content: bytes) -> None:
        """Give the file its number, and begin the next; there is one at every moment."""
        self._full += 1
        older = self._numbered(self._full)
        if older.is_symlink() or older.exists():  # not written by us
            older.rename(_aside(older))
        older.hardlink_to(self.path)
        _replace(self.path, content)


def _compare(
    path: Path, part: Sequence[str], lines: Sequence[str], *, written: int
) -> FileDamage | None:
    """Compare a file with its part of the lines; lines beyond `written` may be missing."""
    content = _content(path) or b""
    if _joined(part).startswith(content) and content.count(b"\n") >= written:
        return None
    found = _lines(path)
    for number, line in enumerate(part, 1):
        got = next(found, None)
        if got != line:
            return FileDamage(path, number, _difference(got, line, lines))
    return FileDamage(path, len(part) + 1, "got a line that is not in the log")


def _mend(
    path: Path, part: Sequence[str], lines: Sequence[str], *, written: int
) -> FileDamage | None:
    content, wanted = _content(path), _joined(part)
    if content is not None and wanted.startswith(content):
        whole = content.count(b"\n")
        _append(path, wanted[len(content) :])
        return FileDamage(path, whole + 1, _REMOVED) if whole < written else None
    if content is None and not path.is_symlink() and not path.exists():
        _append(path, wanted)
        return FileDamage(path, 1, "the file was removed") if written else None
    damage = _compare(path, part, lines, written=len(part))
    damage = damage or FileDamage(path, 1, "got no plain file")
    path.rename(_aside(path))
    _append(path, wanted)
    return damage


def _append(path: Path, content: bytes) -> None:
    descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o644)
    with open(descriptor, "ab", buffering=0) as file:  # noqa: PTH123 - it is open already
        while content:  # a disk that fills up takes a part, and then refuses
            content = content[file.write(content) :]
        os.fsync(descriptor)


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    _append(new, content)
    new.replace(path)


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if _is_file(path) else None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.altered-{number}")).exists():
        number += 1
    return aside


def _lines(path: Path) -> Iterator[str]:
    if not _is_file(path):
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def _difference(got: str | None, line: str, lines: Sequence[str]) -> str:
    if got is None:
        return _REMOVED
    if got in lines:
        return "got a line of another place: lines before it were removed or moved"
    return f"got a line that was changed, wanted the one of position {_position(line)}"


_STRANGE: Final = "the log has no such file"
_REMOVED: Final = "the file ends before this line, which was written"


def _own(line: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(line)["otpy"])


def _position(line: str) -> int:
    return cast("int", _own(line)["position"])


def _hash(line: str) -> str:
    return cast("str", _own(line)["hash"])
