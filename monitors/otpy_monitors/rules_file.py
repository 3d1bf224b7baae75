"""Reading a rule file: YAML in, a `RuleBook` out, or one line that says what to mend."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from otpy_monitors.errors import InvalidRules
from otpy_monitors.reach import within_reach
from otpy_monitors.rules import (
    Action,
    Check,
    CommandBlocked,
    Custom,
    FilesOutside,
    NetworkForbidden,
    Predicate,
    RuleBook,
    SameCall,
    TokenSpeed,
    TooManyChildren,
    ViolationRule,
)
from otpy_monitors.yaml_text import KeyPath, YamlError, YamlText

__all__ = ["parse_rules", "read_rules"]

_SHOWN: Final = 60
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise ValueError from error
    return text


def _absolute(text: str) -> str:
    if not Path(text).is_absolute() or "\0" in text:
        raise ValueError
    return text


def _host(text: str) -> str:
    if not text or "/" in text or text.strip() != text:
        raise ValueError
    return text


def _call(text: str) -> str:
    if _CALL.fullmatch(text) is None:
        raise ValueError
    return text


_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Pattern = Annotated[str, Field(min_length=1)]
_Regex = Annotated[str, AfterValidator(_regex)]
_Folder = Annotated[str, AfterValidator(_absolute)]
_Host = Annotated[str, AfterValidator(_host)]
_Call = Annotated[str, AfterValidator(_call)]

_SECONDS: Final = "seconds as a number above 0"
_HOSTS: Final = "a list of hosts, or of patterns such as *.example.org"


class _Entry(BaseModel):
    """One rule. A field's description is the wanted value in its error message."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1, description="a text that no other rule has")
    action: Action = Field(strict=False, description="log, notify, warn, pause or reap")
    agents: list[_Pattern] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        description="a list of patterns of agents' keys",
    )


class _Files(_Entry):
    kind: Literal["files-outside"]
    also: list[_Folder] = Field(
        default_factory=list[str], description="a list of absolute paths of folders"
    )

    def check(self) -> Check:
        return FilesOutside(tuple(map(Path, self.also)))


class _Command(_Entry):
    kind: Literal["command"]
    block: list[_Regex] = Field(
        min_length=1, description="a list of regular expressions of Python, at least one"
    )

    def check(self) -> Check:
        return CommandBlocked(tuple(map(re.compile, self.block)))


class _Network(_Entry):
    kind: Literal["network"]
    allow: list[_Host] | None = Field(None, description=_HOSTS)
    deny: list[_Host] = Field(default_factory=list[str], description=_HOSTS)

    def check(self) -> Check:
        return NetworkForbidden(None if self.allow is None else tuple(self.allow), tuple(self.deny))


class _Children(_Entry):
    kind: Literal["children"]
    at_most: int = Field(ge=0, description="a whole number from 0")

    def check(self) -> Check:
        return TooManyChildren(self.at_most)


class _Tokens(_Entry):
    kind: Literal["token-speed"]
    tokens: int = Field(gt=0, description="a whole number above 0")
    seconds: _Seconds = Field(description=_SECONDS)

    def check(self) -> Check:
        return TokenSpeed(self.tokens, self.seconds)


class _Calls(_Entry):
    kind: Literal["same-call"]
    times: int = Field(ge=2, description="a whole number from 2")
    seconds: _Seconds | None = Field(None, description=_SECONDS)

    def check(self) -> Check:
        return SameCall(self.times, self.seconds)


class _Predicate(_Entry):
    kind: Literal["predicate"]
    call: _Call = Field(description="the name of a function, as module:function")

    def check(self) -> Check:
        return Custom(_imported(self.call), self.call)


_AnyEntry: TypeAlias = _Files | _Command | _Network | _Children | _Tokens | _Calls | _Predicate

_KINDS: Final[dict[str, type[_AnyEntry]]] = {
    "files-outside": _Files,
    "command": _Command,
    "network": _Network,
    "children": _Children,
    "token-speed": _Tokens,
    "same-call": _Calls,
    "predicate": _Predicate,
}


def read_rules(file: Path, *, writable: Iterable[Path] = ()) -> RuleBook:
    """Read and check a rule file, once; what becomes of it afterwards changes nothing.

    The modules of predicates are imported.

    Args:
        file: The YAML file; its path is used in messages as it is given here.
        writable: Every folder in which an agent may write.

    Raises:
        InvalidRules: If it is missing, cannot be read, is not YAML, says something it must not, or
            if it, or the module of a predicate, is within reach of an agent. The first such place
            in the file is named.
    """
    try:
        data = file.read_bytes()
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidRules(file, line, "", "bytes that are not UTF-8", "a text") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidRules(file, None, "", reason, "a rule file in YAML") from error
    return parse_rules(text, file, writable=writable, digest=hashlib.sha256(data).hexdigest())


def parse_rules(
    text: str, file: Path, *, writable: Iterable[Path] = (), digest: str = ""
) -> RuleBook:
    """Check the text of a rule file and turn it into values; does not read the file.

    Args:
        text: The text.
        file: What names it in messages, and where it lies.
        writable: Every folder in which an agent may write.
        digest: Of the file.

    Raises:
        InvalidRules: As `read_rules`.
    """
    here = file.absolute()
    folders = [folder.absolute() for folder in writable]
    _refuse_in_reach([here], folders, file, None, "")
    try:
        document = YamlText(text)
    except YamlError as error:
        raise InvalidRules(file, error.line, "", error.got, error.wanted) from error
    entries = _entries(document, file)
    rules: list[ViolationRule] = []
    files = [here]
    for number, entry in enumerate(entries):
        path = ("rules", number, "call" if isinstance(entry, _Predicate) else "also")
        try:
            check = entry.check()
        except _NoPredicate as error:
            raise _invalid(document, file, path, str(error), "a function of a module") from error
        if isinstance(entry, _Predicate):
            files += _sources(entry.call)
        if isinstance(entry, _Files):
            folders += map(Path, entry.also)
        # Whichever comes later, a file or a folder, is the one to mend.
        _refuse_in_reach(files, folders, file, document.line(path), _spoken(document, path))
        rules.append(ViolationRule(entry.name, check, entry.action, tuple(entry.agents)))
    return RuleBook(rules, tuple(dict.fromkeys(files)), digest)


def _entries(document: YamlText, file: Path) -> list[_AnyEntry]:
    """Check everything except imports; raise the first error in the file."""
    top = document.value
    table = cast("dict[str, object]", top) if isinstance(top, dict) else {}
    items = table.get("rules")
    if not isinstance(items, list):
        got = _shown(items if isinstance(top, dict) else top)
        raise _invalid(document, file, ("rules",), got, "a list of rules")
    for key in table:
        if key != "rules":
            raise _invalid(document, file, (key,), "an unknown key", "rules")
    entries: list[_AnyEntry] = []
    taken: set[str] = set()
    for number, item in enumerate(cast("list[object]", items)):
        path = ("rules", number)
        if not isinstance(item, dict):
            raise _invalid(document, file, path, _shown(item), "a rule: name, kind and action")
        kind = cast("dict[str, object]", item).get("kind")
        model = _KINDS.get(kind) if isinstance(kind, str) else None
        if model is None:
            wanted = "one of " + ", ".join(_KINDS)
            raise _invalid(document, file, (*path, "kind"), _shown(kind), wanted)
        try:
            entry = model.model_validate(item)
        except ValidationError as error:
            raise _first(error.errors(include_url=False), model, path, document, file) from error
        if entry.name in taken:
            got = f'"{entry.name}" for the second time'
            raise _invalid(document, file, (*path, "name"), got, "a unique name")
        taken.add(entry.name)
        entries.append(entry)
    return entries


def _first(
    problems: list[ErrorDetails],
    model: type[BaseModel],
    above: KeyPath,
    document: YamlText,
    file: Path,
) -> InvalidRules:
    """Return the error for the problem of one rule that comes first in the file."""
    details = min(problems, key=lambda one: document.line((*above, *one["loc"])))
    path = (*above, *details["loc"])
    fields = model.model_fields
    if details["type"] == "extra_forbidden":
        return _invalid(document, file, path, "an unknown key", "one of " + ", ".join(fields))
    wanted = fields[str(details["loc"][0])].description or "a value"
    missing = details["type"] == "missing"
    return _invalid(
        document, file, path, "nothing" if missing else _shown(details["input"]), wanted
    )


def _invalid(document: YamlText, file: Path, path: KeyPath, got: str, wanted: str) -> InvalidRules:
    return InvalidRules(file, document.line(path), _spoken(document, path), got, wanted)


def _spoken(document: YamlText, path: KeyPath) -> str:
    """Return `path` as a person would say it: `rule 'no-wiping'.block[1]`."""
    if len(path) < 2 or not isinstance(path[1], int):  # noqa: PLR2004 - ("rules", number, …)
        return ".".join(map(str, path))
    rules: Any = document.value
    rule: Any = rules["rules"][path[1]]
    name: Any = cast("dict[str, object]", rule).get("name") if isinstance(rule, dict) else None
    named = isinstance(name, str) and name and path[2:] != ("name",)
    parts = [f"rule {name!r}" if named else f"rule #{path[1] + 1}"]
    parts += [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[2:]]
    return "".join(parts)


def _shown(value: object) -> str:
    """Return a value as it would stand in the file, cut to a readable length."""
    text = "nothing" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class _NoPredicate(Exception):
    """The named predicate cannot be imported, or is not a predicate."""


def _imported(call: str) -> Predicate:
    module, _, name = call.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module may raise anything while it is imported
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise _NoPredicate(f'"{call}" ({said})') from error
    if not callable(found):
        raise _NoPredicate(f'"{call}", which cannot be called')
    return cast("Predicate", found)


def _sources(call: str) -> list[Path]:
    """Return the files of the module that a predicate comes from, and of the packages around it."""
    parts = call.partition(":")[0].split(".")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    files = [sys.modules[name].__file__ for name in names if name in sys.modules]
    return [Path(file).absolute() for file in files if file is not None]


def _refuse_in_reach(
    files: Iterable[Path], folders: Iterable[Path], file: Path, line: int | None, key: str
) -> None:
    wanted = "a file out of the agents' reach"
    try:
        exposed = within_reach(files, folders)
    except (OSError, RuntimeError) as error:  # links in a circle, a folder that cannot be searched
        got = f"a place that cannot be looked at ({error})"
        raise InvalidRules(file, line, key, got, wanted) from error
    if exposed is not None:
        got = f"{exposed[0]}, which can be changed by an agent that may write in {exposed[1]}"
        raise InvalidRules(file, line, key, got, wanted)
