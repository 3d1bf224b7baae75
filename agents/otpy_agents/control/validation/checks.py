"""The checks of the rules: values that name a target, and look for it in a folder.

A check of a command only names the command: the validator runs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import regex
from attrs import field, frozen

from otpy_agents.control.project_folder import Obstacle, locate, read_text, search

__all__ = [
    "Check",
    "CommandEnds",
    "CommandLines",
    "FileHas",
    "FileIsEmpty",
    "FileIsJson",
    "JsonHas",
    "LineCount",
    "NoCheck",
    "OperatorPattern",
    "PathIs",
    "Sight",
    "SignOf",
    "SuitePasses",
    "TreeHas",
    "apart",
    "is_json_path",
    "same_json",
]

_PLACES_SHOWN: Final = 5
_VALUE_SHOWN: Final = 200
_PATTERN_SECONDS: Final = 2.0
# Files that people name without their ending.
_STEMS: Final = frozenset({"readme", "changelog", "license", "contributing", "authors", "notice"})
_STEP: Final = re.compile(
    r"""\.?([^.\[\]"']+)|\.?\[(\d+)\]|\.?\[?"([^"]*)"\]?|\.?\[?'([^']*)'\]?"""
)


@frozen
class Sight:
    """What a check saw.

    Attributes:
        holds: Whether what it looks for is so; None if it cannot be told.
        saw: What there is, in words.
        where: `path` or `path:line`.
    """

    holds: bool | None
    saw: str
    where: str | None = None


def _blocked(obstacle: Obstacle, name: str) -> Sight:
    # A file that is not there fails even "has no …": it was to be there.
    return Sight(False if obstacle.is_final else None, f"{name} {obstacle.saw}")


def _file_name(folder: Path, name: str) -> str:
    """Return the name of the file that is meant, `README.md` for `README`."""
    if name.casefold() not in _STEMS or not isinstance(locate(folder, name), Obstacle):
        return name
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return name
    return next((file for file in names if Path(file).stem.casefold() == name.casefold()), name)


@frozen
class OperatorPattern:
    """A regular expression from a user: it must not hold up the host.

    Attributes:
        source: The expression; `^` and `$` match at each line.

    Raises:
        regex.error: It is none.
    """

    source: str
    _compiled: regex.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_compiled", regex.compile(self.source, regex.MULTILINE))

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match; other threads go on meanwhile.

        Raises:
            TimeoutError: It takes longer than two seconds.
        """
        return self._compiled.search(text, timeout=_PATTERN_SECONDS, concurrent=True)


@frozen
class PathIs:
    """Whether something is there.

    Attributes:
        path: Relative to the project.
        wanted: Whether it must be there.
        kind: `file` or `folder` if it must be one.
    """

    path: str
    wanted: bool = True
    kind: str | None = None

    def __str__(self) -> str:
        kind = f" as a {self.kind}" if self.kind else ""
        return f"{self.path} is {'' if self.wanted else 'not '}there{kind}"

    def look(self, folder: Path) -> Sight:
        """Look for it; a link that leads to nothing, or out of the project, is not there."""
        name = _file_name(folder, self.path)
        path = locate(folder, name)
        if isinstance(path, Obstacle):
            if not path.is_final:
                return Sight(None, f"{name} {path.saw}")
            outside = "out of" in path.saw
            return Sight(not self.wanted and not outside, f"{name} {path.saw}")
        kind = "folder" if path.is_dir() else "file"
        is_there = self.kind in (None, kind)
        size = f" of {path.stat().st_size:,} bytes" if kind == "file" else ""
        return Sight(is_there is self.wanted, f"{name} is a {kind}{size}", name)


@frozen
class FileHas:
    """Whether a pattern is found in a file.

    Attributes:
        path: Relative to the project.
        pattern: What is looked for.
        what: It in words: `the text 'hello'`.
        wanted: Whether it must be found.
    """

    path: str
    pattern: re.Pattern[str] | OperatorPattern
    what: str
    wanted: bool = True

    def __str__(self) -> str:
        return f"{self.path} {'has' if self.wanted else 'does not have'} {self.what}"

    def look(self, folder: Path) -> Sight:
        """Look for the first place where it is found; binary files are searched as well."""
        name = _file_name(folder, self.path)
        text = read_text(folder, name)
        if isinstance(text, Obstacle):
            return _blocked(text, name)
        try:
            match = self.pattern.search(text)
        except TimeoutError:
            return Sight(None, f"it took longer than {_PATTERN_SECONDS:g} s to look for", name)
        if match is None:
            lines = f"{_line_count(text):,} lines"
            return Sight(not self.wanted, f"{name} does not have {self.what} in its {lines}", name)
        line = text.count("\n", 0, match.start()) + 1
        return Sight(self.wanted, f"{name} has {self.what}", f"{name}:{line}")


def _line_count(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


@frozen
class LineCount:
    """Whether a file has an exact number of lines; the last one may lack its line feed."""

    path: str
    lines: int

    def __str__(self) -> str:
        return f"{self.path} has exactly {self.lines:,} lines"

    def look(self, folder: Path) -> Sight:
        """Count them."""
        name = _file_name(folder, self.path)
        text = read_text(folder, name)
        if isinstance(text, Obstacle):
            return _blocked(text, name)
        lines = _line_count(text)
        return Sight(lines == self.lines, f"{name} has {lines:,} lines", name)


@frozen
class FileIsEmpty:
    """Whether a file has nothing in it but white space."""

    path: str
    wanted: bool = True

    def __str__(self) -> str:
        return f"{self.path} is {'' if self.wanted else 'not '}empty"

    def look(self, folder: Path) -> Sight:
        """Look whether there is anything."""
        name = _file_name(folder, self.path)
        text = read_text(folder, name)
        if isinstance(text, Obstacle):
            return _blocked(text, name)
        is_empty = not text.strip()
        saw = f"{name} is empty" if is_empty else f"{name} has {len(text):,} characters"
        return Sight(is_empty is self.wanted, saw, name)


@frozen
class FileIsJson:
    """Whether a file is JSON; `NaN` and the like are not."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} is JSON"

    def look(self, folder: Path) -> Sight:
        """Read it."""
        found = _json_in(folder, self.path)
        return found if isinstance(found, Sight) else Sight(True, f"{self.path} is JSON", self.path)


@frozen
class JsonHas:
    """Whether a value stands at a place of a JSON file.

    Attributes:
        path: Relative to the project.
        json_path: Names and indices from the top: `$.scripts.test`, `items[0]["a b"]`.
        equals: The value; `1` is not `true`, and `1.0` is `1`.
    """

    path: str
    json_path: str
    equals: Any

    def __str__(self) -> str:
        return f"{self.path} has {_json(self.equals)} at {self.json_path}"

    def look(self, folder: Path) -> Sight:
        """Read it and go to the place."""
        found = _json_in(folder, self.path)
        if isinstance(found, Sight):
            return found
        value = found.value
        steps = _steps(self.json_path)
        if steps is None:
            return Sight(None, f"{self.json_path!r} is not a path into JSON", self.path)
        for step in steps:
            try:
                value = _item(value, step)
            except LookupError:
                return Sight(False, f"{self.path} has nothing at {self.json_path}", self.path)
        is_equal = same_json(value, self.equals)
        return Sight(is_equal, f"{self.path} has {_json(value)} there", self.path)


@frozen
class TreeHas:
    """Whether a pattern is found in the text files below a folder, or in a file.

    Attributes:
        pattern: What is looked for.
        what: It in words.
        under: Where, relative to the project.
        wanted: Whether it must be found.
    """

    pattern: re.Pattern[str]
    what: str
    under: str = "."
    wanted: bool = True

    def __str__(self) -> str:
        place = "the project" if self.under == "." else self.under
        return f"{place} {'has' if self.wanted else 'does not have'} {self.what}"

    def look(self, folder: Path) -> Sight:
        """Look for the first places where it is found.

        That nothing was found counts only if everything was read.
        """
        found = search(folder, self.pattern, self.under)
        if isinstance(found, Obstacle):
            return _blocked(found, self.under)
        if found.mentions:
            places = list(map(str, found.mentions))
            shown = ", ".join(places[:_PLACES_SHOWN])
            rest = len(places) - _PLACES_SHOWN
            more = f" and {rest} more lines" if rest > 0 else ""
            return Sight(self.wanted, f"{self.what} in {shown}{more}", places[0])
        saw = f"{self.what} in none of {found.files:,} files"
        if found.unread:
            return Sight(None, f"{saw}; {found.unread[0]} was not read")
        return Sight(not self.wanted, saw)


@frozen
class SignOf:
    """Whether there is a sign of something: a file of that name, or the text in some file.

    Attributes:
        text: What is looked for.
    """

    text: str

    def __str__(self) -> str:
        return f"there is a sign of {self.text!r}"

    def look(self, folder: Path) -> Sight:
        """Look for the file first."""
        path = PathIs(self.text).look(folder)
        if path.holds:
            return path
        return TreeHas(apart(self.text), f"the text {self.text!r}").look(folder)


def apart(text: str) -> re.Pattern[str]:
    """Return a pattern of a text where it is not part of a longer word."""
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", text) else ""
    return re.compile(f"{before}{re.escape(text)}{after}")


@frozen
class NoCheck:
    """What was asked for and cannot be checked.

    Attributes:
        asked: What should be so.
        why: What is in the way.
    """

    asked: str
    why: str

    def __str__(self) -> str:
        return self.asked

    def look(self, _: Path) -> Sight:
        """Return that the result is unknown."""
        return Sight(None, self.why)


@frozen
class CommandEnds:
    """Whether a command ends as expected.

    Attributes:
        command: For the shell, as one string; a program and its arguments otherwise.
        code: The expected exit code.
        prints: The text that its output must contain.
    """

    command: str | tuple[str, ...]
    code: int = 0
    prints: str | None = None

    def __str__(self) -> str:
        command = self.command if isinstance(self.command, str) else " ".join(self.command)
        prints = f" and prints {self.prints!r}" if self.prints is not None else ""
        return f"`{command}` ends with exit code {self.code}{prints}"


@frozen
class CommandLines:
    """Whether a command, such as `grep`, writes so many lines; it may exit with 0 or 1.

    Attributes:
        command: For the shell.
        least: Lines it must write at least; empty ones do not count.
        most: And at most; None for any number.
    """

    command: str
    least: int
    most: int | None = None

    def __str__(self) -> str:
        if self.least == self.most:
            return f"the lines that `{self.command}` writes are {self.least:,}"
        most = "" if self.most is None else f" and at most {self.most:,}"
        return f"the lines that `{self.command}` writes are at least {self.least:,}{most}"


@frozen
class SuitePasses:
    """Whether the task's test command ends with exit code 0."""

    def __str__(self) -> str:
        return "the task's test command ends with exit code 0"


Check: TypeAlias = (
    PathIs
    | FileHas
    | LineCount
    | FileIsEmpty
    | FileIsJson
    | JsonHas
    | TreeHas
    | SignOf
    | NoCheck
    | CommandEnds
    | CommandLines
    | SuitePasses
)
"""What can be checked; its text ends the sentence "checked that …".

All but the last three look by themselves.
"""


def same_json(one: object, other: object) -> bool:
    """Whether two values are the same JSON; Python takes `True` for 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[object]", one), cast("list[object]", other)
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        first, second = cast("Mapping[str, object]", one), cast("Mapping[str, object]", other)
        return first.keys() == second.keys() and all(
            same_json(first[key], second[key]) for key in first
        )
    return one == other


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_SHOWN else f"{text[:_VALUE_SHOWN]}…"


def _refuse(name: str) -> object:
    raise ValueError(name)


@frozen
class _Json:
    value: Any


def _json_in(folder: Path, name: str) -> Sight | _Json:
    """Return the value in a file, or why there is none."""
    text = read_text(folder, name)
    if isinstance(text, Obstacle):
        return _blocked(text, name)
    try:
        return _Json(json.loads(text, parse_constant=_refuse))
    except json.JSONDecodeError as error:
        return Sight(False, f"{name} is not JSON: {error.msg}", f"{name}:{error.lineno}")
    except (ValueError, RecursionError):
        return Sight(False, f"{name} is not JSON that can be read", name)


def is_json_path(text: str) -> bool:
    """Whether a text is a path as `JsonHas` takes it."""
    return _steps(text) is not None


def _steps(json_path: str) -> tuple[str, ...] | None:
    rest = json_path.strip().removeprefix("$")
    steps: list[str] = []
    while rest:
        match = _STEP.match(rest)
        if match is None or match.end() == 0:
            return None
        steps.append(next(group for group in match.groups() if group is not None))
        rest = rest[match.end() :]
    return tuple(steps)


def _item(value: object, step: str) -> object:
    if isinstance(value, list) and step.isdecimal():
        return cast("list[object]", value)[int(step)]
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)[step]
    raise LookupError(step)
