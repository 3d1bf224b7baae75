"""The deciding words are found, and none of the vendor's are lost."""

from __future__ import annotations

import json

import pytest

from otpy_agents.run import Detail, classify
from tests.agents import cli_worlds as world

PANIC = (
    "\nthread 'main' panicked at core/src/codex.rs:429:13:\n"
    "called `Result::unwrap()` on an `Err` value: Os { code: 13 }\n"
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
)
NPM = (
    "npm error code ENOTFOUND\nnpm error errno ENOTFOUND\n"
    "npm error network request to https://registry.npmjs.org/x failed, reason: getaddrinfo\n"
    "npm error network This is a problem related to network connectivity.\nnpm error\n"
    "npm error A complete log of this run can be found in: /root/.npm/_logs/429-debug-0.log\n"
)


@pytest.mark.parametrize("status", [*range(400, 430), 431, 451, 499, 500, 503])
def test_what_google_says_is_kept_whatever_the_status(status: int) -> None:
    """Gemini CLI exits with the low bits of the HTTP status; they are not a signal."""
    body = world.google(status, "FAILED", "Function declaration `x` has an invalid schema.")
    stderr = world.gemini(body, code=status)
    verdict = classify("gemini", exit_code=status % 256, stdout="", stderr=stderr)
    assert verdict.message == body
    assert "signal" not in verdict.message.lower()
    bare = classify("gemini", exit_code=status % 256, stdout="", stderr="")
    assert bare.message == f"exit code {status % 256}"


@pytest.mark.parametrize(("code", "name"), [(130, "INT"), (143, "TERM"), (-15, "TERM")])
def test_a_signal_and_the_words_before_it_are_both_told(code: int, name: str) -> None:
    """The CLI's last words are kept for any sender of the signal."""
    verdict = classify("gemini", exit_code=code, stdout="", stderr="Error: some words\n")
    assert verdict.detail is Detail.UNKNOWN
    assert verdict.message == f"ended by SIG{name}: Error: some words"


@pytest.mark.parametrize("code", [137, 139])
def test_signals_of_a_crash_stay_crashes_for_gemini(code: int) -> None:
    """The codes between 128 and 144 are not an HTTP status."""
    assert classify("gemini", exit_code=code, stdout="", stderr="").detail is Detail.CRASH


STDERR = [
    ("codex", 101, PANIC, "crash"),
    ("command", 101, PANIC, "crash"),
    ("codex", 101, f"{PANIC}ERROR codex_core: 429 Too Many Requests\n", "crash"),
    ("codex", 101, "", "crash"),
    ("command", 101, "error: test failed, to rerun pass `--lib`", "unknown"),
    ("copilot", 1, NPM, "network"),
    ("command", 1, NPM.replace("npm error", "npm ERR!"), "network"),
    ("command", 1, "npm error code E404\nnpm error 404 Not Found - GET https://x/y", "unknown"),
    ("command", 1, "npm error code E401\nnpm error 401 Unauthorized - GET https://x/y", "auth"),
    ("command", 1, "curl: (22) The requested URL returned error: 404", "unknown"),
    ("command", 1, 'Error: 404 {"message":"Not Found","status":"404"}', "unknown"),
    ("command", 1, "NotFoundError: Error code: 404 - model: claude-9", "model_unavailable"),
    ("command", 1, 'Error: 401 {"message":"Something"}', "auth"),
    ("copilot", 1, 'Error: 403 {"message":"Resource protected by SAML."}', "auth"),
    ("copilot", 1, 'Execution failed: 429 {"message":"slow"}', "rate_limit"),
    ("command", 1, 'Error: 503 {"message":"no healthy upstream"}', "overloaded"),
    ("command", 1, 'Error: 500 {"Message":"odd"}', "server_error"),
    ("codex", 1, 'ERROR: {"message":"odd","status":"429"}', "rate_limit"),
    ("codex", 1, 'ERROR: {"detail":{"code":"deactivated","message":"Not logged in"}}', "auth"),
    ("codex", 1, 'ERROR: {"__type":"ThrottlingException","message":"odd"}', "rate_limit"),
]


@pytest.mark.parametrize(("cli", "code", "stderr", "detail"), STDERR)
def test_the_line_that_says_why_is_found(cli: str, code: int, stderr: str, detail: str) -> None:
    """Neither notes behind an error nor the JSON after its number hide it."""
    assert classify(cli, exit_code=code, stdout="", stderr=stderr).detail == detail


def test_a_panic_is_told_by_its_first_line() -> None:
    """The note about backtraces is not a message."""
    verdict = classify("codex", exit_code=101, stdout="", stderr=PANIC)
    assert verdict.message.startswith("thread 'main' panicked at core/src/codex.rs:429:13:")
    assert "RUST_BACKTRACE" not in verdict.message


def test_what_a_gateway_got_from_its_own_vendor_counts() -> None:
    """An error inside an error, as OpenRouter passes it on, is read."""
    raw = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    verdict = classify("codex", exit_code=1, stdout=world.codex(json.dumps(body)), stderr="")
    assert verdict.detail is Detail.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("code", "detail"),
    [(124, "quota"), (None, "quota"), (1, "network"), (143, "network"), (-15, "network")],
)
def test_codex_was_told_to_wait_only_if_time_ran_out(code: int | None, detail: str) -> None:
    """A first pause without a reason hints at a long wait only if nothing else ended it."""
    stdout = world.lines(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "error", "message": "Reconnecting... 1/5"},
    )
    assert classify("codex", exit_code=code, stdout=stdout, stderr="").detail == detail


def test_what_a_tool_wrote_into_an_error_of_codex_is_not_judged() -> None:
    """The error of a refused command contains the command's output."""
    message = "sandbox denied exec error, exit code: 101, stdout: , stderr: rate limit exceeded"
    verdict = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    assert (verdict.detail, verdict.message) == (Detail.UNKNOWN, message)


def test_a_hang_of_claude_is_told_in_words() -> None:
    """Claude Code calls a missing answer `unknown`; the message says more than that."""
    retry = {"type": "system", "subtype": "api_retry", "attempt": 4, "max_retries": 10}
    stdout = world.lines(retry | {"error": "unknown", "error_status": None})
    verdict = classify("claude", exit_code=124, stdout=stdout, stderr="")
    assert verdict.detail is Detail.NETWORK
    assert verdict.message == "no reason given for retry 4 of 10"


@pytest.mark.parametrize("error", [None, "", {}])
def test_an_empty_error_of_gemini_is_none(error: object) -> None:
    """A document with an answer and an empty field `error` is a success."""
    document = json.dumps({"session_id": "s", "response": "hi", "error": error}, indent=2)
    assert classify("gemini", exit_code=0, stdout=document, stderr="").succeeded


def test_an_error_of_gemini_may_be_a_string() -> None:
    """The words also count without an object around them."""
    document = json.dumps({"session_id": "s", "error": "API key not valid."}, indent=2)
    assert classify("gemini", exit_code=1, stdout="", stderr=document).detail is Detail.AUTH
