"""Values that hold values of their kind, many levels deep, and how they are walked.

Level by level and without recursion: Python gives up after some hundreds of calls, and a tree may
have ten thousand levels.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, final

from attrs import fields, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEEPEST: Final = 100  # levels that are indented: of more, a drawing would be nothing but space


class Nested:
    """A frozen attrs class with `children`; for classes made with `eq=False`.

    What attrs itself would make of it calls itself for each level.
    """

    __slots__ = ()

    children: tuple[Any, ...]
    children_by: Any = None
    """What makes the children when they are wanted, if they are not listed."""

    def __eq__(self, other: object) -> bool:
        """Whether `other` is of the same class and equal, with all that is below."""
        if not isinstance(other, Nested) or other.__class__ is not self.__class__:
            return NotImplemented
        # One can never be the beginning of the other: each part says how many parts belong to it.
        pairs = zip(_parts(self), _parts(other), strict=False)
        return other is self or all(mine == theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        """Return the hash of the compared values."""
        return hash(tuple(_parts(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the list of what stands here and below."""
        return _rebuilt, ([_taken_apart(node) for node in flat(self)],)


def flat(node: Any) -> Iterator[Any]:
    """Yield `node` and all below it, in order, each before its children."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Nested):
            waiting.extend(reversed(one.children))


def ids(children: tuple[Any, ...]) -> str:
    """Return the `repr` of children: their ids, because a drawing shows the rest."""
    return repr(tuple(child.id for child in children))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the names of an object's fields, without its children."""
    return tuple(one.name for one in fields(kind) if one.init and one.name != "children")


def _parts(node: Nested) -> Iterator[object]:
    """Yield the identity of `node`: the values of each level, and how many are below.

    Or what makes those.
    """
    for one in flat(node):
        if isinstance(one, Nested):
            kind: Any = type(one)
            size = one.children_by or len(one.children)
            yield *(getattr(one, name) for name in _names(kind)), size
        else:
            yield one


@final
@frozen
class _Level:
    """The pickled form of one value that holds others: its class, its values, its child count.

    It also has the function that makes the children, if they are not listed.
    """

    kind: Any
    values: dict[str, Any]
    size: int
    children_by: Any


def _taken_apart(node: Any) -> Any:
    if not isinstance(node, Nested):
        return node
    kind: Any = type(node)
    values = {name: getattr(node, name) for name in _names(kind)}
    return _Level(kind, values, len(node.children), node.children_by)


def _rebuilt(parts: list[Any]) -> Any:
    """Make a value of its parts, the last first: then its children are there before it."""
    made: list[Any] = []
    for part in reversed(parts):
        if isinstance(part, _Level):
            children = tuple(made.pop() for _ in range(part.size))
            made.append(part.kind(**part.values, children=part.children_by or children))
        else:
            made.append(part)
    return made.pop()


def draw(node: Nested, label: Callable[[Any], str]) -> Iterator[str]:
    """Yield the lines of a drawing of `node` and all below it, in order.

    Deeper than a hundred levels, the number of the level stands in place of the indentation.
    """
    waiting: list[tuple[Any, str, str, int]] = [(node, "", "", 0)]
    while waiting:
        one, before, under, level = waiting.pop()
        yield before + label(one)
        children: tuple[Any, ...] = one.children if isinstance(one, Nested) else ()
        level += 1
        for child in reversed(children):
            corner, stem = ("└─ ", "   ") if child is children[-1] else ("├─ ", "│  ")
            if level > _DEEPEST:
                corner, stem = f"{corner}[{level}] ", ""
            waiting.append((child, under + corner, under + stem, level))
