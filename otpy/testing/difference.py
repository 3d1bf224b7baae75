"""How two texts differ, line by line, when a line may leave things out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import final

from attrs import frozen

_AROUND = 3  # lines shown before and after each difference


@final
@frozen
class Wanted:
    """An expected line, as its author wrote it.

    Attributes:
        key: What is compared.
        shown: The line as it was written.
    """

    key: str
    shown: str


@final
@frozen
class Found:
    """A line as it really is.

    Attributes:
        keys: Every way to write it, with and without its details.
        shown: The line in full.
    """

    keys: frozenset[str]
    shown: str


def ways(*parts: Sequence[str]) -> frozenset[str]:
    """Return each line that takes one text of each part; empty texts leave no gap."""
    return frozenset(one_line(" ".join(chosen)) for chosen in product(*parts))


def cut(reason: str) -> list[str]:
    """Return `reason`, and its prefixes before each of its colons."""
    words = reason.split(": ")
    return [": ".join(words[:count]) for count in range(len(words), 0, -1)]


def one_line(text: str) -> str:
    """Return `text` with one space wherever it has white space."""
    return " ".join(text.split())


def difference(wanted: Sequence[Wanted], found: Sequence[Found]) -> list[str]:
    """Return the lines of a unified diff, `-` wanted and `+` found; none if all lines agree."""
    if len(wanted) == len(found) and all(map(_agree, wanted, found)):
        return []
    common = _common(wanted, found)
    lines: list[str] = []
    i = j = 0
    while i < len(wanted) or j < len(found):
        if i < len(wanted) and j < len(found) and _agree(wanted[i], found[j]):
            lines.append(f"    {wanted[i].shown}")
            i, j = i + 1, j + 1
        elif j == len(found) or (i < len(wanted) and common[i + 1][j] >= common[i][j + 1]):
            lines.append(f"  - {wanted[i].shown}")
            i += 1
        else:
            lines.append(f"  + {found[j].shown}")
            j += 1
    return _shortened(lines)


def _agree(wanted: Wanted, found: Found) -> bool:
    return wanted.key in found.keys


def _common(wanted: Sequence[Wanted], found: Sequence[Found]) -> list[list[int]]:
    """Return how many lines agree, in order, from the i-th wanted and the j-th found one on."""
    common = [[0] * (len(found) + 1) for _ in range(len(wanted) + 1)]
    for i in range(len(wanted) - 1, -1, -1):
        for j in range(len(found) - 1, -1, -1):
            if _agree(wanted[i], found[j]):
                common[i][j] = common[i + 1][j + 1] + 1
            else:
                common[i][j] = max(common[i + 1][j], common[i][j + 1])
    return common


def _shortened(lines: list[str]) -> list[str]:
    """Leave out lines far from any difference."""
    marked = [number for number, line in enumerate(lines) if not line.startswith("    ")]
    near = {near for at in marked for near in range(at - _AROUND, at + _AROUND + 1)}
    short: list[str] = []
    for number, line in enumerate(lines):
        if number in near:
            short.append(line)
        elif not short or short[-1] != "    …":
            short.append("    …")
    return short
