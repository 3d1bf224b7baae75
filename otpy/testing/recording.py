"""Records the report stream of a tree, and compares it with the expected one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Iterator
from typing import TypeVar, final
from weakref import WeakKeyDictionary, WeakSet

from otpy.reports import (
    ChildAbandoned,
    ChildRestarting,
    HookFailed,
    MailboxGrown,
    MessageUnhandled,
    Report,
    SupervisorGaveUp,
)
from otpy.testing.difference import Found, Wanted, cut, difference, one_line, ways
from otpy.testing.path_pattern import matches

_R = TypeVar("_R", bound=Report)

# Weak on both sides: a report holds the error that a child raised, and through it the loop.
_RECORDINGS: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[Recording]] = WeakKeyDictionary()


@final
class Recording:
    """A report hook that keeps every report, oldest first.

    ```python
    recorded = Recording()
    async with otpy.start(tree, hooks=[recorded]) as root:
        ...
    print(recorded.render())
    ```

    It can be iterated over, and knows its length. One recording may be the hook of several trees.
    """

    def __init__(self) -> None:
        """Make an empty recording."""
        self._reports: list[Report] = []

    def __call__(self, report: Report) -> None:
        """Keep `report`."""
        _RECORDINGS.setdefault(asyncio.get_running_loop(), WeakSet()).add(self)
        self._reports.append(report)

    def __iter__(self) -> Iterator[Report]:
        """Iterate over the reports that there are now, oldest first."""
        return iter(tuple(self._reports))

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self._reports)

    def about(self, pattern: str) -> tuple[Report, ...]:
        """Return the reports whose path matches `pattern`, oldest first.

        Args:
            pattern: A path, or a pattern as that of a fault: `*` is any text within one segment,
                `**` as a segment of its own any number of segments. `"app/db"`, `"app/workers/*"`.
        """
        return tuple(report for report in self._reports if matches(pattern, report.path))

    def of(self, kind: type[_R], pattern: str = "**") -> tuple[_R, ...]:
        """Return the reports of one kind, about `pattern` as in `about`, oldest first.

        Args:
            kind: A class of `otpy.reports`, such as `ChildStopped`.
            pattern: A path, or a pattern.
        """
        return tuple(report for report in self.about(pattern) if isinstance(report, kind))

    def one(self, kind: type[_R], pattern: str = "**") -> _R:
        """Return the only report of its kind; arguments as of `of`.

        Raises:
            AssertionError: There is none, or more than one; the message shows what there is.
        """
        found = self.of(kind, pattern)
        if len(found) != 1:
            head = f"{len(found)} reports about {pattern!r} are {kind.__name__}, not one:"
            raise AssertionError("\n".join([head, self.render(pattern)]))
        return found[0]

    def render(self, pattern: str = "**") -> str:
        """Return the reports about `pattern` as text, a line each: time, path, event and reason."""
        return "\n".join(_line(report).shown for report in self.about(pattern))


def recordings() -> list[Recording]:
    """Return the recordings on the running loop that are still referenced."""
    return list(_RECORDINGS.get(asyncio.get_running_loop(), ()))


def assert_reports(reports: Iterable[Report], expected: str) -> None:
    """Fail unless `reports` are exactly the `expected` ones, in order.

    The expected text is what `Recording.render()` prints, indented as you like. Of each line the
    path and what happened are needed. The time in front, the number of the life (`#2`), the delay
    of a restart and the reason may be left out, and are not compared then; a reason may also be
    cut off at any of its colons.

    ```python
    assert_reports(recorded.about("app/db"), '''
        app/db #1 started
        app/db #1 exited: crashed: OSError
        app/db restarting in 5 s
        5 s app/db #2 started
    ''')
    ```

    Args:
        reports: A `Recording`, or some of its reports.
        expected: What they should be, one line each; nothing, if there should be none.

    Raises:
        AssertionError: They are not; the message shows both, line by line.
    """
    __tracebackhide__ = True
    lines = inspect.cleandoc(expected).splitlines()
    wanted = [Wanted(one_line(line), line.rstrip()) for line in lines if line.strip()]
    diff = difference(wanted, [_line(report) for report in reports])
    if diff:
        head = "the reports are not as expected (- expected, + really):"
        raise AssertionError("\n".join([head, *diff]))


def _line(report: Report) -> Found:
    when, life = _seconds(report.time), f"#{report.incarnation}" if report.incarnation else ""
    what = _what(report)
    shown = one_line(" ".join([when, report.path, life, what[0]]))
    return Found(ways(["", when], [report.path], ["", life], what), shown)


def _what(report: Report) -> list[str]:
    """Return what happened, in full first, then with less and less said."""
    family, _, event = report.event.partition(".")
    word = event.replace("_", " ")
    reason = getattr(report, "reason", None)
    texts = [f"{word}: {reason}"] if reason is not None else [word]
    match report:
        case ChildRestarting():
            texts = [f"{word} in {_seconds(report.delay)}: {reason}", *cut(texts[0])]
        case ChildAbandoned():
            texts = [f"{word}: {report.what}"]
        case MailboxGrown():
            texts = [f"{word}: waiting={report.waiting} dropped={report.dropped}"]
        case MessageUnhandled():
            texts = [f"{word}: {report.message}"]
        case SupervisorGaveUp():
            texts = [f"{word}: {report.child}: {reason}"]
        case HookFailed():
            texts = [f"{family} {word}: {type(report.error).__name__}: {report.error}"]
        case _:
            pass
    return [way for text in texts for way in cut(text)]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
