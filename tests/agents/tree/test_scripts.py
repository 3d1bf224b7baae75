"""Scripted agents are judged like real ones, and the effects of their tools are told."""

from __future__ import annotations

import pytest

from otpy_agents.agent.prompts import question_in
from otpy_agents.agent.tools import touched_by
from otpy_agents.run import Detail, classify
from otpy_agents.testing.script import FAILURES, line_of
from otpy_monitors import CommandRun, FilesTouched, NetworkUsed


@pytest.mark.parametrize("detail", FAILURES)
def test_a_scripted_failure_is_of_its_class(detail: Detail) -> None:
    """The run finds the failure that the script declares."""
    error = FAILURES[detail]
    stdout = "\n".join(
        [line_of(type="session", id="s"), *([line_of(type="error", **error)] if error else [])]
    )
    assert classify("command", exit_code=1, stdout=stdout, stderr="").detail is detail


@pytest.mark.parametrize(
    ("tool", "given", "touched"),
    [
        ("Write", {"file_path": "/a"}, [FilesTouched("p/a", 1.0, ("/a",))]),
        (
            "file_change",
            {"changes": [{"path": "b", "kind": "add"}, 3]},
            [FilesTouched("p/a", 1.0, ("b",))],
        ),
        ("Bash", {"command": "ls"}, [CommandRun("p/a", 1.0, "ls")]),
        ("shell", {"command": ["ls", "-l"]}, [CommandRun("p/a", 1.0, "ls -l")]),
        (
            "bash",
            {"command": "curl https://example.com/x"},
            [
                CommandRun("p/a", 1.0, "curl https://example.com/x"),
                NetworkUsed("p/a", 1.0, "example.com"),
            ],
        ),
        ("WebFetch", {"url": "http://example.org:8080/"}, [NetworkUsed("p/a", 1.0, "example.org")]),
        ("Read", {"file_path": "/a"}, []),
        ("Write", {"file_path": 3}, []),
        ("Bash", {}, []),
    ],
)
def test_what_a_tool_touches_is_read_off_its_input(
    tool: str, given: dict[str, object], touched: list[object]
) -> None:
    """The tool names of the CLIs decide; the effects of other tools are not guessed."""
    assert list(touched_by(tool, given, "p/a", 1.0)) == touched


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("NEEDS INPUT: Which one?", "Which one?"),
        ("I looked.\n\n  NEEDS INPUT:  Red or blue?  \n", "Red or blue?"),
        ("NEEDS INPUT: x\nNo, I found it.", None),
        ("NEEDS INPUT:", None),
        ("done", None),
        ("", None),
    ],
)
def test_a_question_is_the_last_line_of_an_answer(answer: str, question: str | None) -> None:
    """An agent that goes on talking has not asked."""
    assert question_in(answer) == question
