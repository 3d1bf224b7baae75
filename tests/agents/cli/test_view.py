from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from otpy_agents.app import Conclusion, Event
from otpy_agents.cli.view import (
    Header,
    LiveView,
    TreeRow,
    json_line,
    open_view,
    plain_line,
    printable,
    restart_mark,
    summary,
    tree,
)

HEADER = Header(name="workshop", seconds=3.21, finished=2, total=10, restarts=3)
ROWS = [
    TreeRow(id="app", role="supervisor", state="running"),
    TreeRow(id="Jake", role="jake", state="running", depth=1, seconds=3.0),
    TreeRow(id="zip", role="mortal", state="working", restarts=2, seconds=1.24, depth=1,
        last_line="\x1b[2J[bold]half way\r"),
]  # fmt: skip
OUTCOMES = [
    Conclusion(id="zip", expected="done", ended="done", reason="", restarts=2, seconds=1.0),
    Conclusion(id="hang", expected="done", ended="reaped", reason="stalled for 1 s", restarts=1,
            seconds=12.34),
]  # fmt: skip


def silent(_: Event) -> None:
    """Return no line above the tree."""


def drawn(what: RenderableType, width: int) -> str:
    """Return the output on a terminal of this width, without trailing blanks."""
    stream = io.StringIO()
    Console(file=stream, width=width).print(what)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_the_tree_shows_states_restarts_times_and_output() -> None:
    """A wide terminal gets every column, children indented under their parents."""
    assert drawn(tree(HEADER, ROWS, 80), 80) == (
        "workshop  2/10  3.2 s  ↻3\n"
        "app                      running\n"
        "  Jake                   running ↻0   3.0 s\n"
        "  zip                    working ↻2   1.2 s \\x1b[2J[bold]half way\\r"
    )


def test_forty_columns_are_enough() -> None:
    """A narrow terminal loses the output column and nothing else."""
    assert drawn(tree(HEADER, ROWS, 40), 40) == (
        "workshop  2/10  3.2 s  ↻3\n"
        "app                   running\n"
        "  Jake                running ↻0   3.0 s\n"
        "  zip                 working ↻2   1.2 s"
    )
    assert drawn(summary(OUTCOMES, 40), 40) == (
        "assignment ended     reason\nzip        done ↻2\nhang       reaped ↻1 stalled for 1 s"
    )


@pytest.mark.parametrize("width", [1, 5, 20, 40, 59, 60, 200])
def test_no_width_breaks_the_lines(width: int) -> None:
    """No line is wider than the terminal, even for long ids and output."""
    long = TreeRow(id="漢" * 90, role="mortal", state="working", last_line="x" * 9000, depth=3)
    for what in (tree(HEADER, [*ROWS, long], width), summary(OUTCOMES, width)):
        stream = io.StringIO()
        Console(file=stream, width=width).print(what)
        assert all(len(line) <= width for line in stream.getvalue().splitlines())


def test_the_summary_says_expected_ended_reason_restarts_seconds() -> None:
    """One line for each assignment, in the order given."""
    assert drawn(summary(OUTCOMES, 80), 80) == (
        "assignment expected ended as reason          restarts seconds\n"
        "zip        done     done                            2     1.0\n"
        "hang       done     reaped   stalled for 1 s        1    12.3"
    )
    assert [outcome.as_expected for outcome in OUTCOMES] == [True, False]


def test_output_cannot_move_the_cursor() -> None:
    """Control characters, line breaks and marks that reverse the text are escaped."""
    assert printable("\x1b[31m\r\n\t\0\u202e\x9b ä漢") == r"\x1b[31m\r\n\t\x00\u202e\x9b ä漢"


@pytest.mark.parametrize(
    ("role", "state", "restarts", "shown"),
    [
        ("jake", "running", 0, "↻0"),
        ("mortal", "working", 0, ""),
        ("mortal", "working", 2, "↻2"),
        ("drone", "working", 1, ""),
        ("drone", "reaped", 1, "↻1"),
    ],
)
def test_restarts_are_shown_as_the_role_demands(
    role: str, state: str, restarts: int, shown: str
) -> None:
    """Jake's are always shown, a mortal's if there are any, a drone's once reaped (TREE-50)."""
    assert restart_mark(TreeRow(id="x", role=role, state=state, restarts=restarts)) == shown


EVENT = Event(
    name="mortal.exited", id="zip", seconds=1.2345,
    detail={"incarnation": 2, "reason": 'exit "code" 1\n', "waited": 0.5, "line": ""},
)  # fmt: skip


def test_without_a_terminal_each_event_is_one_line() -> None:
    """A line has time, name, id and details; texts with blanks are quoted."""
    assert plain_line(EVENT) == (
        '   1.23 mortal.exited zip incarnation=2 reason="exit \\"code\\" 1\\n" waited=0.50 line=""'
    )
    stream = io.StringIO()
    view = open_view(stream, silent)
    view.show(HEADER, ROWS)
    view.tell(EVENT)
    view.close(OUTCOMES)
    lines = stream.getvalue().splitlines()
    assert lines[0] == plain_line(EVENT)
    assert len(lines) == 1 + 1 + len(OUTCOMES)


def test_each_line_is_seen_at_once_in_a_pipe(tmp_path: Path) -> None:
    """A reader of the log sees each event when it happens, not when a buffer is full."""
    with (tmp_path / "log").open("w") as stream:
        open_view(stream, silent).tell(EVENT)
        assert (tmp_path / "log").read_text() == plain_line(EVENT) + "\n"


def test_json_is_one_object_a_line() -> None:
    """A program can read each line alone, that of the summary too."""
    assert json.loads(json_line(EVENT)) == {
        "event": "mortal.exited", "id": "zip", "seconds": 1.234,
        "incarnation": 2, "reason": 'exit "code" 1\n', "waited": 0.5, "line": "",
    }  # fmt: skip
    stream = io.StringIO()
    view = open_view(stream, silent, as_json=True)
    view.show(HEADER, ROWS)
    view.tell(EVENT)
    view.close(OUTCOMES)
    objects = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [entry["event"] for entry in objects] == ["mortal.exited", "summary", "summary"]
    assert [entry["as_expected"] for entry in objects[1:]] == [True, False]


def test_a_terminal_is_redrawn_and_given_back() -> None:
    """The live view hides the cursor while it runs and shows it again; the last tree stays."""
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=80, height=20), silent)
    view.show(HEADER, ROWS[:1])
    view.tell(EVENT)
    view.show(HEADER, ROWS)
    view.close(OUTCOMES)
    text = stream.getvalue()
    assert text.index("\x1b[?25l") < text.rindex("\x1b[?25h")
    assert re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text).count("half way") >= 1
    assert "stalled for 1 s" in text


def test_what_must_be_seen_stays_above_the_live_tree() -> None:
    """It is shown once, for any number of events; other events have no line (TREE-50)."""
    stream = io.StringIO()

    def notice(event: Event) -> str | None:
        return f"{event.id} NEEDS INPUT" if event.name == "operator.asked" else None

    view = LiveView(Console(file=stream, force_terminal=True, width=80, height=20), notice)
    for seconds in (1.0, 2.0):
        view.show(HEADER, ROWS)
        view.tell(Event(name="operator.asked", id="zip", seconds=seconds))
        view.tell(EVENT)
    view.close([])
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", stream.getvalue())
    assert [line.strip() for line in text.splitlines() if "INPUT" in line] == [
        "1.00 zip NEEDS INPUT"
    ]
    assert "exited" not in text


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("mortal.restarting", {"reason": "crashed", "delay": 0.0, "restarts": 1}),
        ("mortal.started", {"incarnation": 2}),
        ("agent.state", {"source": "working", "state": "failed"}),
        ("agent.state", {"source": "failed", "state": "working"}),
    ],
)
def test_no_line_tells_of_the_restart_of_a_drone(name: str, detail: dict[str, float | str]) -> None:
    """A mortal's restart has a line; a reader of JSON gets the restarts of all (TREE-50)."""
    for role, as_json, lines in (("drone", False, 0), ("mortal", False, 1), ("drone", True, 1)):
        stream = io.StringIO()
        view = open_view(stream, silent, as_json=as_json)
        view.tell(Event(name=name, id="x", seconds=1.0, detail=dict(detail), role=role))
        assert len(stream.getvalue().splitlines()) == lines


def test_the_first_life_and_the_end_of_a_drone_have_their_lines() -> None:
    """Only the lines between them are left out."""
    stream = io.StringIO()
    view = open_view(stream, silent)
    for name, detail in (
        ("mortal.started", {"incarnation": 1}),
        ("mortal.reaped", {"restarts": 2}),
    ):
        view.tell(Event(name=name, id="x", seconds=1.0, detail=dict(detail), role="drone"))
    assert (
        stream.getvalue()
        == "   1.00 mortal.started x incarnation=1\n   1.00 mortal.reaped x restarts=2\n"
    )


def test_a_terminal_that_knows_only_ascii_does_not_end_the_run() -> None:
    """Characters that it lacks are escaped."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    view = open_view(stream, silent)
    view.tell(Event(name="x", id="ä", seconds=0.0))
    stream.flush()
    assert rb"\xe4" in raw.getvalue()
