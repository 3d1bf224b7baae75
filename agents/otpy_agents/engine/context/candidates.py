"""The files that a worker could be shown, in the order in which they get room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, final

from attrs import frozen

from otpy_agents.engine.context.relations import folder_steps, related_files
from otpy_agents.engine.context.values import ContextRequest, ContextSource, PartKind
from otpy_agents.engine.globs import Globs
from otpy_agents.engine.roles import ContextRules

__all__ = ["Candidate", "candidates", "diff_of_files"]

_TARGET, _IMPORTS, _CHANGED = "$TARGET", "$TARGET_IMPORTS", "$CHANGED_FILES"
_LAST: Final = (PartKind.DIFF, PartKind.RELATED, PartKind.INCLUDED)
_DIFF_START: Final = "diff --git "
_EACH_DIFF: Final = re.compile(rf"^(?={_DIFF_START})", re.MULTILINE)

_Groups = Mapping[str, frozenset[str]]


@frozen
class Candidate:
    """A file, or the changes in one, that a worker could be shown.

    Attributes:
        kind: What it is.
        path: The file.
        why: Why it could be shown.
        text: The changes; empty for the file itself, which is not read yet.
    """

    kind: PartKind
    path: str
    why: str
    text: str = ""


def candidates(
    request: ContextRequest, source: ContextSource, targets: Mapping[str, str]
) -> list[Candidate]:
    """Return the files that a worker could be shown, the most important first, each once.

    The targets come first, then what is always included, then the order of the role, then the
    latest changes, related files and included ones; of two that are equal in this, the one that
    lies nearer to the targets.

    Args:
        request: What is wanted.
        source: Where it is taken from.
        targets: The texts of those targets that can be read.
    """
    rules = request.role.context
    related = related_files(targets, source.files)
    groups = {
        _TARGET: frozenset(request.targets),
        _IMPORTS: frozenset(related),
        _CHANGED: frozenset(source.changed),
    }
    excluded = _Choice(rules.exclude, groups)
    found: dict[tuple[bool, str], Candidate] = {}
    for one in _found(request, source, related, groups):
        key = one.kind is PartKind.DIFF, one.path
        if key in found:
            continue
        if one.kind is PartKind.TARGET or not rules.exclude or excluded.reason(one.path) is None:
            found[key] = one
    return _ordered(list(found.values()), rules, groups, request.targets)


def diff_of_files(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the changes of each file in what `git diff --no-renames` prints."""
    for changes in _EACH_DIFF.split(diff):
        if changes:
            yield _path_of(changes.partition("\n")[0]), changes


def _path_of(line: str) -> str:
    """Return the path in `diff --git a/PATH b/PATH`, which may have spaces in it."""
    names = line.removeprefix(_DIFF_START)
    half = len(names) // 2
    before, after = names[:half].removeprefix("a/"), names[half + 1 :].removeprefix("b/")
    return before if before == after else names


@final
class _Choice:
    """Globs and variables, one of which may match a path."""

    def __init__(self, entries: Sequence[str], groups: _Groups) -> None:
        self._variables = [(entry, groups[entry]) for entry in entries if entry in groups]
        self._globs = Globs([entry for entry in entries if entry not in groups])

    def reason(self, path: str) -> str | None:
        """Return the variable that means a path, or else the glob; None if none does."""
        for entry, paths in self._variables:
            if path in paths:
                return entry
        return self._globs.which(path)


def _found(
    request: ContextRequest, source: ContextSource, related: Mapping[str, str], groups: _Groups
) -> Iterator[Candidate]:
    """Yield all candidates, each file for its weightiest reason first."""
    rules = request.role.context
    for path in request.targets:
        yield Candidate(PartKind.TARGET, path, "target")
    if rules.git_diff:
        for path, text in diff_of_files(source.diff):
            yield Candidate(PartKind.DIFF, path, "latest changes", text)
    paths = dict.fromkeys((*source.files, *source.changed))
    yield from _matching(PartKind.ALWAYS, rules.always_include, paths, groups)
    if rules.related:
        for path, why in related.items():
            yield Candidate(PartKind.RELATED, path, why)
    yield from _matching(PartKind.INCLUDED, rules.include, paths, groups)


def _matching(
    kind: PartKind, entries: Sequence[str], paths: Iterable[str], groups: _Groups
) -> Iterator[Candidate]:
    choice = _Choice(entries, groups)
    for path in paths:
        if (entry := choice.reason(path)) is not None:
            yield Candidate(kind, path, entry)


def _ordered(
    found: Sequence[Candidate], rules: ContextRules, groups: _Groups, targets: Sequence[str]
) -> list[Candidate]:
    order = [_Choice([entry], groups) for entry in rules.priority_order]
    # Thousands of files lie in some hundred folders.
    steps: dict[str, int] = {}

    def steps_of(path: str) -> int:
        folder = path.rpartition("/")[0]
        if folder not in steps:
            steps[folder] = min((folder_steps(path, to) for to in targets), default=0)
        return steps[folder]

    def place(one: Candidate) -> int:
        for index, entry in enumerate(order):
            if one.kind is PartKind.DIFF:
                meant = rules.priority_order[index] == _CHANGED
            else:
                meant = entry.reason(one.path) is not None
            if meant:
                return index + 2
        if one.kind in {PartKind.TARGET, PartKind.ALWAYS}:
            return (PartKind.TARGET, PartKind.ALWAYS).index(one.kind)
        return len(order) + 2 + _LAST.index(one.kind)

    def rank(number: int) -> tuple[int, bool, bool, int, int, str]:
        one = found[number]
        # These stand in an order of their own: as typed, as printed, as imported.
        in_order = one.kind in {PartKind.TARGET, PartKind.DIFF, PartKind.RELATED}
        far = 0 if in_order else steps_of(one.path)
        diff_first = one.kind is not PartKind.DIFF
        return place(one), diff_first, not in_order, far, number if in_order else 0, one.path

    return [found[number] for number in sorted(range(len(found)), key=rank)]
