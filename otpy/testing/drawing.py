"""Comparing a tree with a drawing of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from otpy._core.nesting import draw
from otpy._runtime.snapshot import TreeSnapshot, details
from otpy.testing.difference import Found, Wanted, cut, difference, one_line, ways

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor

_BRANCH = re.compile(r"[\s│|]*[├└|+`\\][─-]+\s+|\s*")


def assert_tree(sup: AnySupervisor | TreeSnapshot, drawing: str) -> None:
    """Fail unless `sup` and everything below it stand as they are drawn, right now.

    The drawing is what `snapshot().render()` prints, indented as you like. Every child is in it,
    in start order. Of each line the id is needed; what follows it may be left out, piece by piece,
    and is not compared then: the state, `for 4.0 s`, `restarts=1` (`restarts=0` may be written
    where the drawing has none) and `last exit: …`, which may also be cut off at any of its colons.
    Branches may be drawn in ASCII: `|- `, `+- ` or `` `- ``.

    ```python
    assert_tree(root, '''
        app running
        ├─ db backing off last exit: crashed: OSError
        └─ api restarts=1
    ''')
    ```

    Args:
        sup: A supervisor of a running or ended tree, or a snapshot of one.
        drawing: The expected drawing.

    Raises:
        AssertionError: It is not; the message shows both, line by line.
    """
    __tracebackhide__ = True
    snapshot = sup if isinstance(sup, TreeSnapshot) else sup.snapshot()
    if inspect.cleandoc(drawing) == inspect.cleandoc(snapshot.render()):
        return  # whatever strange ids there are: what was printed is what is there
    lines = difference(list(_drawn(drawing)), list(_standing(snapshot)))
    if lines:
        head = f"{snapshot.path} is not as drawn (- drawn, + really):"
        raise AssertionError("\n".join([head, *lines]))


def _drawn(drawing: str) -> Iterator[Wanted]:
    """Yield the lines of `drawing`; how deep one is, is seen from where its label begins."""
    columns: list[int] = []
    indented = not drawing.partition("\n")[0].strip()  # else who knows where the root would stand
    for line in inspect.cleandoc(drawing).splitlines():
        branch = _BRANCH.match(line)
        column = branch.end() if branch else 0
        if column == len(line):
            continue
        while columns and columns[-1] >= column:
            columns.pop()
        yield Wanted(f"{len(columns)} {one_line(line[column:])}", line.rstrip())
        columns.append(column if columns or indented else -1)


def _standing(snapshot: TreeSnapshot) -> Iterator[Found]:
    depths = _depths(snapshot)
    shown = draw(snapshot, _label)
    for (depth, node), line in zip(depths, shown, strict=True):
        state, *others = details(node)
        due = [""] if node.due_in is None else ["", others.pop(0)]
        restarts = ["", others.pop(0) if node.restarts else "restarts=0"]
        last_exit = ["", *(cut(others.pop(0)) if others else ())]
        keys = ways([str(depth)], [node.id], ["", state], due, restarts, last_exit)
        yield Found(keys, line)


def _label(node: TreeSnapshot) -> str:
    return one_line(" ".join([node.id, *details(node)]))


def _depths(snapshot: TreeSnapshot) -> Iterator[tuple[int, TreeSnapshot]]:
    waiting = [(0, snapshot)]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting.extend((depth + 1, child) for child in reversed(node.children))
