"""Text that looks like an error and is not: answers about errors, tool output, identifiers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.run import Detail, ErrorType, classify
from tests.agents import cli_worlds as world

CLIS = ("claude", "codex", "gemini", "copilot", "command")

WORDS = st.sampled_from(
    ["429", "529", "401", "rate_limit", "rate limit", "Too Many Requests", "quota exceeded"]
)
HEX = st.text("0123456789abcdef", min_size=4, max_size=40)
IDENTIFIER = st.one_of(
    st.uuids().map(str),
    HEX,
    HEX.map(lambda text: f"req_429{text}"),
    HEX.map(lambda text: f"{text[:3]}429{text[3:]}"),
    HEX.map(lambda text: f"{text}-429-{text}"),
    st.integers(0, 65535).map(lambda port: f"127.0.0.1:{port}"),
    st.integers(0, 9999).map(lambda line: f"src/api.py:{line}:429"),
    st.integers(0, 10**9).map(lambda digits: f"429{digits}"),
    st.sampled_from(
        [
            *("line 429", "port 429", "pid 429", "429 tests passed", "took 429 ms", "$4.29"),
            *(
                "/src/rate_limit.py",
                "test_rate_limit_error.py",
                "./rate-limit/mod.rs",
                "--rate-limit",
            ),
            *("exit status 429", "row 429 of 529", "v4.2.9", "(429 of 500)", "#429", "0x429"),
        ]
    ),
)


def answer(cli: str, text: str) -> str:
    """Return a successful run of `cli` that answers `text`."""
    worlds: dict[str, Callable[[str], str]] = {
        "claude": world.claude_answer,
        "codex": world.codex_answer,
        "gemini": world.gemini_answer,
        "copilot": world.copilot_answer,
        "command": lambda text: f"{text}\n",
    }
    return worlds[cli](text)


@pytest.mark.parametrize("cli", CLIS)
@given(words=st.lists(st.one_of(WORDS, IDENTIFIER), min_size=1, max_size=8))
def test_a_line_about_errors_is_an_answer(cli: str, words: list[str]) -> None:
    """The model may write about rate limits freely."""
    text = f"The API said: {' '.join(words)}."
    assert classify(cli, exit_code=0, stdout=answer(cli, text), stderr="").succeeded


def failed(cli: str, message: str) -> tuple[str, str]:
    """Return both streams of a run of `cli` that failed with `message`."""
    match cli:
        case "claude":
            return world.claude(message, said="429 rate limit"), ""
        case "codex":
            return world.codex(message, said="429 Too Many Requests"), ""
        case "gemini":
            return "", world.gemini(message)
        case "copilot":
            return world.copilot(message), ""
        case _:
            return "429 rate limit exceeded\n", f"Error: {message}\n"


@pytest.mark.parametrize("cli", CLIS)
@given(ids=st.lists(IDENTIFIER, min_size=1, max_size=6))
def test_no_identifier_is_a_rate_limit(cli: str, ids: list[str]) -> None:
    """Numbers count as a status only where the words say so; an unknown failure stays unknown."""
    stdout, stderr = failed(cli, f"Something broke in {' '.join(ids)}")
    verdict = classify(cli, exit_code=1, stdout=stdout, stderr=stderr)
    assert verdict.error_type is ErrorType.RETRYABLE
    assert verdict.detail is Detail.UNKNOWN


@pytest.mark.parametrize("cli", CLIS)
@given(ids=st.lists(IDENTIFIER, min_size=1, max_size=6))
def test_identifiers_do_not_hide_the_error(cli: str, ids: list[str]) -> None:
    """A server error stays one, for any name of its request."""
    message = f"API Error: 500 Internal server error (request id: {', '.join(ids)})"
    stdout, stderr = failed(cli, message)
    verdict = classify(cli, exit_code=1, stdout=stdout, stderr=stderr)
    assert verdict.detail is Detail.SERVER_ERROR


@pytest.mark.parametrize("cli", CLIS)
@pytest.mark.parametrize(
    "line", ["429 tests passed, 1 failed", "503 a9f2 of 8000", "Error: 529 of 600 files differ"]
)
def test_a_line_that_begins_with_a_number_names_no_status(cli: str, line: str) -> None:
    """A count at the beginning of the last line is no HTTP status."""
    verdict = classify(cli, exit_code=1, stdout="", stderr=f"{line}\n")
    assert verdict.detail is Detail.UNKNOWN


def test_a_line_that_quotes_a_limit_is_an_answer() -> None:
    """Only a whole answer in Claude Code's own words for a limit is an error."""
    text = "You've hit your limit · resets 3am is now shown in red, as the design asks for"
    assert classify("claude", exit_code=0, stdout=world.claude_answer(text), stderr="").succeeded


NOTICES = [
    ("Prompt is too long", "context_overflow"),
    ("Not logged in · Please run /login", "auth"),
    ("Credit balance is too low", "billing"),
    ("You've hit your limit · resets 3am", "quota"),
]


@pytest.mark.parametrize(("words", "detail"), NOTICES)
def test_the_model_may_linein_the_words_of_its_cli(words: str, detail: str) -> None:
    """The words are Claude Code's own where it says so, or where no event says whose they are."""
    assert classify("claude", exit_code=0, stdout=world.claude_answer(words), stderr="").succeeded
    document = world.claude_answer(words).splitlines()[-1]
    itself = world.claude(words, is_error=False)
    for stdout in (f"{words}\n", document, itself):
        assert classify("claude", exit_code=0, stdout=stdout, stderr="").detail == detail


@pytest.mark.parametrize(
    "line",
    [
        "Not logged in · Please run /login is printed by the CLI; documented.",
        "Invalid API key · now shown in red",
        "Not logged in · the page says so",
    ],
)
def test_plain_text_that_goes_on_is_an_answer(line: str) -> None:
    """A notice is a whole line, without more text."""
    assert classify("claude", exit_code=0, stdout=f"{line}\n", stderr="").succeeded


TOOL_OUTPUT = [
    "Error: 429 Too Many Requests",
    "npm ERR! rate limit exceeded",
    "permission denied",
    "bash: foo: command not found",
    "anthropic.RateLimitError: Error code: 429",
    '{"type":"error","message":"quota exceeded"}',
    '{"type":"result","is_error":true,"result":"Credit balance is too low"}',
]


@pytest.mark.parametrize("output", TOOL_OUTPUT)
def test_what_a_tool_printed_is_no_error_of_the_run(output: str) -> None:
    """Tool output is never read for errors, after a success or a failure."""
    claude = world.lines(
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
        {
            "type": "user",
            "message": {
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": output}]
            },
        },
    )
    item = {"id": "1", "type": "command_execution", "aggregated_output": output, "exit_code": 1}
    codex = world.lines(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": item | {"status": "failed"}},
    )
    gemini = world.lines(
        {"type": "tool_result", "tool_id": "t", "status": "error", "output": output},
    )
    copilot = world.lines(
        {"type": "tool.execution_complete", "data": {"success": False, "result": output}},
    )
    for cli, stream in (
        ("claude", claude),
        ("codex", codex),
        ("gemini", gemini),
        ("copilot", copilot),
    ):
        verdict = classify(cli, exit_code=1, stdout=stream, stderr="")
        assert (cli, verdict.detail) == (cli, Detail.UNKNOWN)
        whole = stream + answer(cli, "done")
        assert classify(cli, exit_code=0, stdout=whole, stderr="").succeeded


@given(message=st.text(max_size=300), code=st.integers(-70, 300), other=st.text(max_size=300))
def test_nothing_a_process_writes_breaks_the_classifier(
    message: str, code: int, other: str
) -> None:
    """Any two texts and any exit code give a verdict, for every CLI."""
    for cli in CLIS:
        verdict = classify(cli, exit_code=code, stdout=message, stderr=other)
        assert verdict.succeeded == (verdict.error_type is None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("message", "content", "error", "result", "usage", "data", "item", "stats", "errors"),
        *("subtype", "is_error", "session_id", "permission_denials", "exitCode", "response"),
        *("status", "models", "tools", "rate_limit_info", "errorMessage", "statusCode"),
    ]
)
TYPES = st.sampled_from(
    [
        *("system", "assistant", "user", "result", "rate_limit_event", "turn.failed", "error"),
        *("turn.completed", "item.completed", "thread.started", "tool_result", "message"),
        *("session.error", "model.call_failure", "assistant.message", "assistant.usage"),
        *("tool.execution_complete", "abort", "usage", "text", "init"),
    ]
)


@given(kind=TYPES, fields=st.dictionaries(FIELDS, json_values, max_size=6), code=st.integers(0, 1))
def test_events_of_any_shape_are_read(kind: str, fields: dict[str, object], code: int) -> None:
    """A field of an unexpected type counts as absent: CLIs change without notice."""
    line = json.dumps({"type": kind} | fields)
    for cli in CLIS:
        verdict = classify(cli, exit_code=code, stdout=line, stderr=line)
        assert verdict.detail in {*Detail, None}
