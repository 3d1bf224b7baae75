"""What a person or a program sees of a run: a live tree, plain lines, or JSON; then a summary.

The functions that render are pure; the three views only carry their results to a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, Protocol, TextIO, final

from attrs import frozen
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # every command imports this, and most need nothing of a tree
    from otpy_agents.app.chronicle import Event
    from otpy_agents.app.conclusion import Conclusion

__all__ = [
    "Header",
    "JsonView",
    "LiveView",
    "PlainView",
    "TreeRow",
    "View",
    "json_line",
    "json_outcome",
    "open_view",
    "plain_details",
    "plain_line",
    "printable",
    "restart_mark",
    "summary",
    "tells_of_restart",
    "tree",
]

_NARROW: Final = 60
_STYLES: Final = {
    "working": "cyan",
    "running": "green",
    "done": "green",
    "reaped": "red",
    "failed": "red",
    "paused": "yellow",
    "waiting": "yellow",
    "held back": "yellow",
    "in line": "yellow",
}


@frozen(kw_only=True)
class Header:
    """The line above the tree.

    Attributes:
        name: Of the work list.
        seconds: Since the run began.
        finished: Assignments that have come to an end, those of earlier runs included.
        total: Assignments in all.
        restarts: Restarts in all, but those of drones that were not given up (TREE-50).
    """

    name: str
    seconds: float
    finished: int
    total: int
    restarts: int


@frozen(kw_only=True)
class TreeRow:
    """One line of the tree: a supervisor, Jake, a mortal, a drone or a daemon.

    Attributes:
        id: Its id under its supervisor.
        role: `supervisor`, `jake`, `mortal`, `drone` or `monitor`.
        state: One word, for example `working`.
        restarts: How often it was restarted.
        seconds: How long it has been at it; None if there is nothing to tell.
        last_line: Last line of output, as it came; redaction is the writer's duty.
        depth: Levels below the root.
    """

    id: str
    role: str
    state: str
    restarts: int = 0
    seconds: float | None = None
    last_line: str = ""
    depth: int = 0


class View(Protocol):
    """Where a run is shown. No method awaits; none raises because of a worker's output."""

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Show the whole tree as it is now; rows in start order, parents before children."""

    def tell(self, event: Event) -> None:
        """Tell one event."""

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Stop the live part, give the terminal back and show the summary; call it once."""


def printable(text: str) -> str:
    r"""Return `text` with everything that could move the cursor or hide something written out.

    Example:
        >>> printable("\x1b[31mred")
        '\\x1b[31mred'
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def restart_mark(row: TreeRow) -> str:
    """Return how its restarts are shown (TREE-50).

    Mortals by a small sign once there are any, drones only when they have been given up, Jake
    always, supervisors and monitors like mortals.
    """
    shown = {"jake": True, "drone": row.state == "reaped"}.get(row.role, row.restarts > 0)
    return f"↻{row.restarts}" if shown else ""


def tells_of_restart(event: Event) -> bool:
    """Whether an event tells of a restart that is not to be seen: that of a drone (TREE-50)."""
    if event.role != "drone":
        return False
    states = {event.detail.get("source"), event.detail.get("state")}
    return (
        event.name == "mortal.restarting"
        or (event.name == "mortal.started" and event.detail.get("incarnation") != 1)
        or (event.name == "agent.state" and "failed" in states)
    )


def tree(header: Header, rows: Sequence[TreeRow], width: int) -> Group:
    """Render the tree for a terminal of `width` columns; narrow ones get no output column."""
    title = Text(
        f"{printable(header.name)}  {header.finished}/{header.total}"
        f"  {header.seconds:.1f} s  ↻{header.restarts}",
        style="bold",
        no_wrap=True,
        overflow="ellipsis",
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column(no_wrap=True, overflow="ellipsis", min_width=7)
    table.add_column(no_wrap=True, min_width=2)
    table.add_column(no_wrap=True, justify="right", min_width=7)
    wide = width >= _NARROW
    table.expand = True
    if wide:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
    for row in rows:
        cells = [
            Text("  " * row.depth + printable(row.id)),
            Text(printable(row.state), style=_STYLES.get(row.state, "")),
            Text(restart_mark(row)),
            Text("" if row.seconds is None else f"{row.seconds:.1f} s"),
        ]
        if wide:
            cells.append(Text(printable(row.last_line), style="dim"))
        table.add_row(*cells)
    return Group(title, table)


def summary(outcomes: Sequence[Conclusion], width: int) -> Table:
    """Render the table at the end for `width` columns: one line for each assignment, in order.

    On a narrow terminal the way it ended, the restarts and the reason share two columns.
    """
    wide = width >= _NARROW
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("assignment", no_wrap=True, overflow="ellipsis", max_width=width // 3)
    for name in ("expected", "ended as") if wide else ("ended",):
        table.add_column(name, no_wrap=True)
    table.add_column("reason", overflow="fold")
    for name in ("restarts", "seconds") if wide else ():
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        style = "green" if outcome.as_expected else "bold red"
        title, reason = Text(printable(outcome.id)), Text(printable(outcome.reason))
        ended = Text(printable(outcome.ended), style=style)
        if wide:
            numbers = (Text(str(outcome.restarts)), Text(f"{outcome.seconds:.1f}"))
            table.add_row(title, Text(outcome.expected), ended, reason, *numbers)
        else:
            table.add_row(title, ended.append(f" ↻{outcome.restarts}"), reason)
    return table


def plain_line(event: Event) -> str:
    """Render an event as one line: time, name, id and its details as `key=value`."""
    words = [f"{event.seconds:7.2f}", event.name, printable(event.id)]
    return " ".join([*words, *([plain_details(event.detail)] if event.detail else [])])


def plain_details(detail: Mapping[str, object]) -> str:
    """Render details as `key=value`, in their order; text with spaces is quoted."""
    return " ".join(f"{printable(key)}={_plain_value(value)}" for key, value in detail.items())


def json_line(event: Event) -> str:
    """Render an event as one JSON object without line breaks; details are keys of their own."""
    return json.dumps(
        {
            **event.detail,
            "event": event.name,
            "id": event.id,
            "seconds": round(event.seconds, 3),
        }
    )


def json_outcome(outcome: Conclusion) -> str:
    """Render a line of the summary as one JSON object, with the event name `summary`."""
    return json.dumps(
        {
            "event": "summary",
            "id": outcome.id,
            "expected": outcome.expected,
            "ended": outcome.ended,
            "as_expected": outcome.as_expected,
            "reason": outcome.reason,
            "restarts": outcome.restarts,
            "seconds": round(outcome.seconds, 3),
        }
    )


def _plain_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    text = printable(str(value))
    quoted = text.replace('"', '\\"')
    return f'"{quoted}"' if " " in text or not text else text


@final
class LiveView:
    """Draws the tree in place on a terminal; what must not be missed scrolls by above it.

    Args:
        console: The terminal.
        notice: Returns the words about an event that must be seen; None for any other.
    """

    def __init__(self, console: Console, notice: Callable[[Event], str | None]) -> None:
        self._console = console
        self._notice = notice
        self._noticed = ""
        # Drawn from the event loop by `show`, not from a thread of rich.
        # It vanishes at the end: its last frame is older than the summary, and would contradict it.
        self._live = Live(
            console=console, auto_refresh=False, vertical_overflow="ellipsis", transient=True
        )
        self._live.start()

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Draw the tree over the previous one; a few times a second is enough."""
        self._live.update(tree(header, rows, self._console.width), refresh=True)

    def tell(self, event: Event) -> None:
        """Print a line above the tree if there are words about it; the next `show` has the rest.

        Monitors tell again what still holds: nothing is printed twice in a row.
        """
        words = self._notice(event)
        if words is not None and words != self._noticed:
            self._noticed = words
            self._console.print(Text(f"{event.seconds:7.2f} {words}", style="bold yellow"))

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Print the summary in place of the tree."""
        self._live.stop()
        if outcomes:
            self._console.print(summary(outcomes, self._console.width))


@final
class PlainView:
    """Writes one line for each event, for logs and pipes; flushed at once."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Do nothing: the events tell the story."""

    def tell(self, event: Event) -> None:
        """Write the line, unless it would tell of the restart of a drone."""
        if not tells_of_restart(event):
            print(plain_line(event), file=self._console.file, flush=True)

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Print the summary."""
        if outcomes:
            self._console.print(summary(outcomes, self._console.width))


@final
class JsonView:
    """Writes one JSON object a line, for machines; flushed at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Do nothing: the events tell the story."""

    def tell(self, event: Event) -> None:
        """Write the object."""
        print(json_line(event), file=self._stream, flush=True)

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Write one object for each assignment."""
        for outcome in outcomes:
            print(json_outcome(outcome), file=self._stream, flush=True)


def open_view(
    stream: TextIO, notice: Callable[[Event], str | None], *, as_json: bool = False
) -> View:
    """Return the view that suits the stream: JSON if asked for, live on a terminal, else plain.

    Args:
        stream: Where to.
        notice: Returns the words about an event that must be seen although a tree is drawn.
        as_json: Whether JSON is asked for.
    """
    if as_json:
        return JsonView(stream)
    console = Console(file=stream)
    if isinstance(stream, TextIOWrapper):
        # A terminal that knows only ASCII must not end the run because of one strange letter.
        stream.reconfigure(errors="backslashreplace")
    return LiveView(console, notice) if console.is_terminal else PlainView(console)
