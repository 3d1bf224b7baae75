"""Cursor's CLI, by its documentation: it was never run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.adapters.cursor import ADAPTER
from otpy_agents.attempt.events import Final, SessionSeen, Text, ToolEnded, ToolStarted
from otpy_agents.run import Access, AttemptRequest, Detail, classify

FOLDER = Path("/private")


def stream(*objects: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in objects)


INIT = {"type": "system", "subtype": "init", "session_id": "s-42", "model": "gpt-5", "cwd": "/w"}
SAYS = {
    "type": "assistant",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "I found it."}]},
}
BEGINS = {
    "type": "tool_call",
    "subtype": "started",
    "call_id": "c-1",
    "tool_call": {"readToolCall": {"args": {"path": "a.py"}}},
}
ENDS = {
    "type": "tool_call",
    "subtype": "completed",
    "call_id": "c-1",
    "tool_call": {"readToolCall": {"result": {"success": {"content": "x"}}}},
}
DONE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Done.",
    "session_id": "s-42",
}


def test_its_events_are_those_of_its_documentation() -> None:
    """A session, words, a tool that begins and ends, and the answer."""
    parser = ADAPTER.parser()
    events = [
        event
        for line in stream(INIT, SAYS, BEGINS, ENDS, DONE).splitlines()
        for event in parser.feed(line)
    ]
    assert events == [
        SessionSeen("s-42", "gpt-5"),
        Text("I found it."),
        ToolStarted("c-1", "read", {"path": "a.py"}),
        ToolEnded("c-1", ok=True),
        SessionSeen("s-42"),
        Final("Done."),
    ]


def test_its_prompt_is_in_a_file_that_its_argument_names() -> None:
    """No other user of the machine sees it in `ps`, and it may be long."""
    launch = ADAPTER.launch(
        AttemptRequest(
            prompt="open sesame " * 99_999,
            folder=FOLDER,
            model="gpt-5",
            session="s-42",
            access=Access.READ,
        )
    )
    assert "sesame" not in " ".join(launch.argv)
    (file,) = launch.files
    assert str(file) in launch.argv[-1]
    assert launch.argv[:4] == ("cursor-agent", "--print", "--output-format", "stream-json")
    assert launch.argv[5:11] == ("--mode", "ask", "--model", "gpt-5", "--resume", "s-42")


@pytest.mark.parametrize(
    ("stdout", "stderr", "detail"),
    [
        (stream(INIT, SAYS, DONE), "", None),
        ("", "Error: Authentication required. Please run 'agent login' first", Detail.AUTH),
        ("", "Error: You've hit your usage limit\n  Get Cursor Pro", Detail.QUOTA),
        (stream(INIT, SAYS), "", Detail.NO_RESULT),
    ],
)
def test_its_failures_are_those_that_users_have_shown(
    stdout: str, stderr: str, detail: Detail | None
) -> None:
    """An attempt without a result has failed too."""
    code = 0 if not stderr else 1
    assert classify("cursor", exit_code=code, stdout=stdout, stderr=stderr).detail is detail
