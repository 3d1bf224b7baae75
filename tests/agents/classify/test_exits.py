"""The meaning of exit codes, the error stream and the container's state; when 0 is a success."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from otpy_agents.run import Detail, ErrorType, classify
from tests.agents import cli_worlds as world

PLAIN = [
    ("claude", 1, "error: unknown option '--rate-limit'", "usage"),
    ("claude", 1, "Error: Input must be provided either through stdin or as an argument", "usage"),
    ("claude", 1, "No conversation found with session ID: 429", "session_invalid"),
    ("claude", 1, "Error: Session ID 1 is already in use.", "session_conflict"),
    ("codex", 2, "error: unexpected argument '--foo' found\n\nUsage: codex exec", "usage"),
    ("codex", 1, "Error loading config.toml: invalid type", "usage"),
    ("gemini", 41, "", "auth"),
    ("gemini", 42, "Unknown arguments: foo", "usage"),
    ("gemini", 52, "", "usage"),
    ("gemini", 53, "", "budget"),
    ("gemini", 55, "", "usage"),
    ("gemini", 145, "", "auth"),
    ("gemini", 147, "", "auth"),
    ("gemini", 148, "", "model_unavailable"),
    ("gemini", 173, "", "rate_limit"),
    ("gemini", 17, "", "overloaded"),
    ("gemini", 244, "", "server_error"),
    ("gemini", 247, "", "overloaded"),
    ("copilot", 1, "Error: No authentication information found.\n\nUse /login", "auth"),
    ("copilot", 1, 'Error: Model "x" from --model flag is not available.', "model_unavailable"),
    ("copilot", 1, "Error: No session, task, or name matched 'x'", "session_invalid"),
    ("claude", 127, "sh: 1: claude: not found", "usage"),
    ("codex", 127, "bash: line 1: codex: command not found", "usage"),
    ("gemini", 126, "bash: /usr/bin/gemini: Permission denied", "usage"),
    ("codex", 127, "", "usage"),
    ("claude", 139, "Segmentation fault", "crash"),
    ("claude", 134, "FATAL ERROR: JavaScript heap out of memory", "crash"),
    ("gemini", 1, "FATAL ERROR: Reached heap limit - JavaScript heap out of memory", "crash"),
    ("codex", 101, "thread 'main' panicked at core/src/lib.rs:1:1:", "crash"),
    ("claude", 137, "API Error: 429", "crash"),
    ("codex", -9, "ERROR: rate limit", "crash"),
    ("codex", -11, "", "crash"),
    ("codex", -15, "", "unknown"),
    ("copilot", 130, "", "unknown"),
    ("claude", 124, "", "network"),
    ("command", 124, "", "unknown"),
    ("command", 3, "boom", "unknown"),
    ("command", 1, "make: *** [Makefile:429: test] Error 429", "unknown"),
    ("command", 1, "openai.RateLimitError: Error code: 429 - {'error': 1}", "rate_limit"),
    ("command", 1, "curl: (22) The requested URL returned error: 503", "overloaded"),
    ("command", 1, "curl: (7) Failed to connect to x port 429: Connection refused", "network"),
    ("claude", None, "", "unknown"),
]


@pytest.mark.parametrize(("cli", "code", "stderr", "detail"), PLAIN)
def test_exit_codes_and_the_error_stream_tell_the_rest(
    cli: str, code: int | None, stderr: str, detail: str
) -> None:
    """Without JSON the last error line counts, then the exit code by the CLI's table (RUN-39)."""
    verdict = classify(cli, exit_code=code, stdout="", stderr=stderr)
    assert verdict.detail == detail


STATES: list[tuple[int | None, Mapping[str, object], str | None]] = [
    (137, {"OOMKilled": True, "ExitCode": 137}, "crash"),
    (1, {"OOMKilled": True, "ExitCode": 1}, "crash"),
    (0, {"OOMKilled": True, "ExitCode": 0}, "crash"),
    (None, {"Status": "exited", "OOMKilled": False, "ExitCode": 137}, "crash"),
    (None, {"Status": "exited", "ExitCode": 127, "Error": "exec: not found"}, "usage"),
    (None, {"Status": "running", "ExitCode": 0}, "unknown"),
    (None, {"Status": "created", "ExitCode": 0}, "unknown"),
    (None, {"Status": "dead"}, "unknown"),
    (None, {}, "unknown"),
]


@pytest.mark.parametrize(("code", "state", "detail"), STATES)
def test_a_crash_of_the_container_comes_first(
    code: int | None, state: Mapping[str, object], detail: str | None
) -> None:
    """Exhausted memory and exit 137 are crashes; a missing exit code is not (RUN-40, C-37)."""
    verdict = classify("codex", exit_code=code, stdout="", stderr="", container_state=state)
    assert verdict.detail == detail


def test_an_answer_given_before_memory_ran_out_counts() -> None:
    """Exit 0 with a whole answer is a success although a tool was killed (RUN-51)."""
    verdict = classify(
        "codex",
        exit_code=0,
        stdout=world.codex_answer("done"),
        stderr="",
        container_state={"OOMKilled": True, "ExitCode": 0},
    )
    assert verdict.succeeded


def test_a_crash_wins_over_every_message() -> None:
    """A rate limit in a run that was killed is a crash first (RUN-39)."""
    stdout = world.claude("You've hit your limit · resets 3am", status=429)
    verdict = classify("claude", exit_code=137, stdout=stdout, stderr="")
    assert verdict.error_type is ErrorType.CONTAINER_CRASH


EMPTY = [
    ("claude", "", Detail.NO_RESULT),
    ("claude", world.claude_answer(""), Detail.NO_RESULT),
    ("claude", world.claude_answer("hi").splitlines()[0], Detail.NO_RESULT),
    ("claude", "You've hit your limit · resets 3am (UTC)\n", Detail.QUOTA),
    ("claude", "Claude AI usage limit reached|1767225600\n", Detail.QUOTA),
    ("claude", world.claude("Claude AI usage limit reached|1", is_error=False), Detail.QUOTA),
    ("claude", 'API Error: 529 {"error":{"type":"overloaded_error"}}\n', Detail.OVERLOADED),
    ("claude", world.claude("Invalid API key · x", status=401), Detail.AUTH),
    (
        "claude",
        world.claude_answer("hi", permission_denials=[{"tool_name": "Bash"}]),
        Detail.TOOLS_DENIED,
    ),
    ("codex", "", Detail.NO_RESULT),
    ("codex", world.codex_answer(""), Detail.NO_RESULT),
    ("codex", world.codex("exceeded retry limit, last status: 429 Too"), Detail.RATE_LIMIT),
    ("gemini", world.gemini_answer(" \n"), Detail.NO_RESULT),
    ("gemini", '{\n  "response": ""\n}\n', Detail.NO_RESULT),
    ("copilot", world.copilot_answer(""), Detail.NO_RESULT),
    ("copilot", world.copilot_answer("hi").splitlines()[0], Detail.NO_RESULT),
    ("command", "\n \x1b[0m\n", Detail.NO_RESULT),
    ("command", '{"type":"text","text":"half"}\n', Detail.NO_RESULT),
    ("command", '{"type":"result","text":""}\n', Detail.NO_RESULT),
    ("command", '{"type":"result","is_error":true,"text":"x","status":429}\n', Detail.RATE_LIMIT),
]


@pytest.mark.parametrize(("cli", "stdout", "detail"), EMPTY)
def test_exit_0_alone_is_no_success(cli: str, stdout: str, detail: Detail) -> None:
    """Exit 0 without an answer, without its last event, or with refused tools failed (C-25)."""
    assert classify(cli, exit_code=0, stdout=stdout, stderr="").detail == detail


ANSWERS = [
    ("claude", world.claude_answer("hi")),
    ("claude", "hi\n"),
    ("codex", world.codex_answer("hi")),
    ("gemini", world.gemini_answer("hi")),
    ("gemini", '{\n  "session_id": "s",\n  "response": "hi"\n}\n'),
    ("copilot", world.copilot_answer("hi")),
    ("command", "hi\n"),
    ("command", '{"level": "info", "msg": "no event of ours"}\n'),
    ("command", '{"type":"result","text":"hi"}\n'),
]


@pytest.mark.parametrize(("cli", "stdout"), ANSWERS)
def test_an_answer_is_a_success(cli: str, stdout: str) -> None:
    """Exit 0 with an answer and its last event succeeds, without a message."""
    verdict = classify(cli, exit_code=0, stdout=stdout, stderr="Warning: 429 rate limit\n")
    assert verdict.succeeded
    assert (verdict.error_type, verdict.message, verdict.retry_after) == (None, "", None)
