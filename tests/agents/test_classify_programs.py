"""What programs say about their own names, tests and files is nobody's rate limit."""

from __future__ import annotations

import pytest

from otpy_agents.run import Detail, classify
from tests.agents import cli_worlds as world


def verdicts(message: str) -> dict[str, Detail | None]:
    """Return what `message` means at the end of a command and inside of two agents."""
    command = classify("command", exit_code=1, stdout="", stderr=f"{message}\n")
    codex = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    claude = classify("claude", exit_code=1, stdout="", stderr=f"{message}\n")
    return {"command": command.detail, "codex": codex.detail, "claude": claude.detail}


PROGRAMS = [
    "ModuleNotFoundError: No module named 'ratelimit'",
    "ReferenceError: rateLimit is not defined",
    "AttributeError: module 'app' has no attribute 'RateLimit'",
    "KeyError: 'rate_limit'",
    "NameError: name 'rate_limit_exceeded' is not defined",
    "error[E0425]: cannot find value `rate_limit` in this scope",
    "error: pathspec 'rate-limit' did not match any file(s) known to git",
    "TypeError: Cannot read properties of undefined (reading 'rate_limit')",
    "TypeError: Unauthorized is not a constructor",
    "AssertionError: status 429 != 200",
    "make: *** [Makefile:3: rate-limit] Error 1",
    "src/rate-limit.ts(429,5): error TS2304: Cannot find name 'RateLimit'.",
    "Error: branch rate-limit already exists",
    "sqlite3.OperationalError: no such column: quota_exceeded",
    "ImportError: cannot import name 'RateLimitError' from 'openai'",
    "AttributeError: 'Settings' object has no attribute 'rate_limit'",
    "NameError: name 'RateLimiter' is not defined",
    "TypeError: rateLimit is not a function",
    "TypeError: __init__() got an unexpected keyword argument 'rate_limit'",
    "ReferenceError: quotaExceeded is not defined",
    "AssertionError: Expected 'rate_limit_exceeded' to equal 'ok'",
    "AssertionError: expected HTTP 200, got HTTP 429",
    "AssertionError: 503 != 200 : Service Unavailable",
    "AssertionError [ERR_ASSERTION]: HTTP 401 == 200",
    'Error: expected 200 "OK", got 429 "Too Many Requests"',
    "Error: expected status 200 but received status 503",
    "E       assert 429 == 200",
    "E       AssertionError: assert 'rate_limit_error' == 'ok'",
    "FAILED tests/test_api.py::test_rate_limit_exceeded - assert 200 == 429",
    "FAILED tests/test_auth.py::TestLogin::test_unauthorized - AssertionError: HTTP 401",
    "--- FAIL: TestRateLimit/too_many_requests (0.00s)",
    "not ok 7 - rate limit exceeded returns 429",
    "FAIL src/middleware/rate-limit.test.ts",
    "FAIL src/limiter.test.ts > limiter > answers 429 Too Many Requests",
    "Tests: 4 failed, 429 passed, 433 total",
    "=== 2 failed, 503 passed in 4.29s ===",
    "error[E0433]: failed to resolve: use of undeclared type `RateLimiter`",
    "error[E0432]: unresolved import `crate::rate_limit`",
    "error[E0609]: no field `quota_exceeded` on type `Limits`",
    "error[E0599]: no method named `rate_limit` found for struct `Client` in the current scope",
    "src/rate_limit.rs:429:13: error: unused variable",
    "error TS2339: Property 'rateLimit' does not exist on type 'Config'.",
    "error TS2769: No overload matches this call.",
    "src/api.ts(503,12): error TS2551: Property 'rate_limited' does not exist on type 'Status'.",
    "error: 'rate_limit' undeclared (first use in this function)",
    "undefined reference to `rate_limit'",
    "undefined: rateLimit",
    "./main.go:42:9: undefined: rate_limit",
    "symbol lookup error: ./a.so: undefined symbol: rate_limit_exceeded",
    "sqlite3.OperationalError: table rate_limits has no column named quota_exceeded",
    'psycopg2.errors.UndefinedColumn: column "rate_limited" does not exist',
    'psycopg2.errors.UndefinedTable: relation "rate_limit" does not exist',
    "ERROR 1054 (42S22): Unknown column 'quota_exceeded' in 'field list'",
    "KeyError: 'overloaded'",
    "KeyError: 'quota'",
    "KeyError: 429",
    'KeyError: "unauthorized"',
    "IndexError: list index out of range (rate_limit)",
    "ValueError: 'rate_limited' is not a valid Status",
    "ValueError: invalid literal for int() with base 10: 'rate_limit'",
    "pydantic_core.ValidationError: 1 validation error for Config rate_limit Field required",
    'jq: error (at <stdin>:0): Cannot index string with string "rate_limit"',
    "error: pathspec 'fix/rate-limit' did not match any file(s) known to git",
    "fatal: A branch named 'rate-limit' already exists.",
    "fatal: ambiguous argument 'rate_limit': unknown revision or path not in the working tree.",
    "fatal: couldn't find remote ref rate-limit",
    "fatal: invalid reference: rate-limit",
    "error: src refspec rate-limit does not match any",
    "CONFLICT (content): Merge conflict in src/rate-limit.js",
    "error: could not apply 429a529... handle rate limits",
    'npm error Missing script: "rate-limit"',
    'error: script "rate-limit" exited with code 1',
    "Error: Cannot find module 'express-rate-limit'",
    "ERROR: Could not find a version that satisfies the requirement ratelimit==9.9",
    "ERROR: No matching distribution found for rate-limit",
    "make: *** [Makefile:3: rate_limit] Error 1",
    "make: *** No rule to make target 'rate-limit'.  Stop.",
    "make[1]: *** [rate-limit] Error 429",
    "ninja: error: unknown target 'rate_limit'",
    "cmake: error: target rate_limit_exceeded not found",
    "bazel: no such target '//api:rate_limit'",
    "ld: symbol(s) not found for architecture rate_limit",
    "docker: Error response from daemon: No such container: rate-limit",
    "Error: No such image: rate_limit:429",
    "helm: release rate-limit not ready after 429 checks",
    "terraform: Error: Reference to undeclared resource aws_wafv2_rate_limit",
    'kubectl: error: deployment "rate-limit" exceeded its progress deadline',
    'YAMLException: duplicated mapping key "rate_limit" at line 429',
    "toml: line 429: expected key separator '=', rate_limit",
    "Error: Unknown rule 'rate-limit' in .eslintrc",
    "WARNING: 429 problems (503 errors, 29 warnings)",
    "Error: process completed with exit code 503",
    "Error: port 5290 is used by pid 4290",
    "panic value 429 at offset 503",
    "wrote 429 of 529 records, then stopped",
    "src/http.py:429: error: Incompatible return value",
    "Found 429 errors in 29 files (checked 503 source files)",
    "Error: ratelimit.conf line 429: bad directive",
    "Error: job 42952900-5034-4290-8529-429529503401 failed",
    "Error: request_id=req_429529503 failed",
    "Error: build 429.529.503 broke",
    "Error: row 503 has 429 columns, wanted 500",
    "step 401 of 503 failed",
    "Error: HTTP_429_TOO_MANY constant is missing",
    "Error: invalid rate limit: -1",
    "Error: rate limit must be a positive number",
    "error: 'RESOURCE_EXHAUSTED' is not a member of 'Code'",
    "error: cannot find symbol class Unauthorized",
    "TypeError: Forbidden is not a constructor",
    "swc: Unexpected identifier rate_limit",
    "RuntimeError: mutex for quota_exceeded() is poisoned",
    "Error: see https://docs.example.com/errors/rate_limit_exceeded/429",
    "Error: open https://example.com/login failed the snapshot test",
    "Error: snapshot of /login page differs",
]


@pytest.mark.parametrize("message", PROGRAMS)
def test_a_program_that_speaks_of_its_names_says_nothing_of_the_vendor(message: str) -> None:
    """Compilers, test runners, build tools and exceptions quote names: no class follows (C-08)."""
    allowed = {Detail.UNKNOWN, Detail.USAGE}
    assert set(verdicts(message).values()) <= allowed, verdicts(message)


VENDORS = [
    ("Error: rate_limit_exceeded", "rate_limit"),
    ("rate_limit_error: Number of request tokens has exceeded the limit", "rate_limit"),
    ("Request failed (rate_limit_exceeded)", "rate_limit"),
    ("API error: 429 rate_limit_error: slow", "rate_limit"),
    ("got status: RESOURCE_EXHAUSTED. slow", "rate_limit"),
    (
        "failed: {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'x'}}",
        "rate_limit",
    ),
    ('failed: {"error":{"code":"rate_limit_exceeded","message":"cut her', "rate_limit"),
    ("failed { status: 0, code: 'insufficient_quota', type: 'x' }", "quota"),
    ("failed: {'error': {'message': 'Overloaded'}}", "overloaded"),
    (
        "This request would exceed the rate limit for your organization of 40,000 tokens",
        "rate_limit",
    ),
    ("API rate limit exceeded for user ID 4290529.", "rate_limit"),
    ("You have exceeded a secondary rate limit. Please wait.", "rate_limit"),
    ("Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
    ("Rate limit is exceeded. Try again in 26 seconds.", "rate_limit"),
    ("Sorry, you have been rate-limited. Please wait a moment.", "rate_limit"),
    ("Request was dropped due to rate limiting", "rate_limit"),
    ("Error: Rate limit", "rate_limit"),
    ("rate limit: retrying in 12 seconds", "rate_limit"),
    ("openai.error.RateLimitError: slow down", "rate_limit"),
    ("Error: Unexpected server response: 429", "rate_limit"),
    ("Server is limiting requests (not your usage limit) · Rate limited", "rate_limit"),
    ("Too Many Requests", "rate_limit"),
    ("GET https://example.com/login returned error: 500", "server_error"),
    ("Start 'copilot' and run the '/login' command", "auth"),
]


@pytest.mark.parametrize(("message", "detail"), VENDORS)
def test_what_vendors_say_still_counts(message: str, detail: str) -> None:
    """A code as a heading, in brackets or in a field, and words in which something happened."""
    assert set(verdicts(message).values()) == {detail}
