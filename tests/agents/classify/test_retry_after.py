"""A vendor's requested wait is read from headers, fields and words."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.classify.retry_after import seconds_to_wait
from otpy_agents.run import classify
from tests.agents import cli_worlds as world

BERLIN = timezone(timedelta(hours=2))
NOW = datetime(2026, 10, 6, 14, 0, tzinfo=BERLIN)

SPANS = [
    ("429 Too Many Requests (retry after 20)", 20),
    ("Retry-After: 20.", 20),
    ("retry-after: 20 x-request-id: 7", 20),
    ("Retry-After: 2 minutes", 120),
    ("Retry-After: 1.5 hours", 5400),
    ("slow down: wait 90 seconds", 90),
    ("please wait about 5 min", 300),
    ("retry after 20 failures", None),
    ("Please try again in 6m0s.", 360),
    ("Please try again in 20s. Visit the site", 20),
    ("Please try again in 11.054s.", 11.054),
    ("try again in 850ms", 0.85),
    ("Try again in 2 hours 13 minutes.", 7980),
    ("Please try again in 58 hours. Please review", 208800),
    ("Please try again in 15 hours, 23 minutes and 4 seconds", 55384),
    ("try again in 2 days", 172800),
    ("Please retry in 31.276s.", 31.276),
    ("Your quota will reset after 2h3m4s.", 7384),
    ("Usage limit resets in 4 hours", 14400),
    ("Suggested retry after 34.07s.", 34.07),
    ('"retryDelay": "31s"', 31),
    ("retryDelayMs: 1500,", 1.5),
    ("retry-after: 30", 30),
    ("Retry-After: 3600\n", 3600),
    ('{"retry_after": 12.5}', 12.5),
    ("retry-after-ms: 1200", 1.2),
    ("x-ratelimit-reset-requests: 6m0s", 360),
    ('"resets_in_seconds": 4711', 4711),
    ('"quotaResetDelay":"1h2m"', 3720),
    ('"retryDelay":{"seconds":34}', 34),
    ('"retryDelay": {"seconds": "34", "nanos": 5}', 34),
    ('{"retryAfterSeconds": 12}', 12),
    ("ratelimit-reset: 30", 30),
    ("Try again in an hour.", 3600),
    ("Please retry in one minute", 60),
    ("resets in about a day", 86400),
    ("Wait a minute before you try again", None),
    ("try again in a few minutes", None),
    ("Resets in: 3h 20m", 12000),
    ("please wait at least 12 seconds", 12),
    ("Please retry your request after 30 seconds", 30),
    ("Quota will be replenished in 02:13:45.", 8025),
    ("Quota will be replenished in 2.12:00:00.", 216000),
    ("retried 5 times (total retry wait time: 5.29 seconds)", None),
    ("took 30s, gave up after 3 attempts", None),
    ("try again later", None),
    ("reset in 4294294294294 days", None),
    ("", None),
]


@pytest.mark.parametrize(("message", "seconds"), SPANS)
def test_spans_are_understood(message: str, seconds: float | None) -> None:
    """A span of time, in any notation of a vendor, needs no clock."""
    assert seconds_to_wait(message, None) == (None if seconds is None else pytest.approx(seconds))


MOMENTS = [
    ("You've hit your limit · resets 5pm", 3 * 3600),
    ("5-hour limit reached ∙ resets 5am", 15 * 3600),
    ("resets 2:30pm", 1800),
    ("resets 2pm", 24 * 3600),
    ("resets 3pm (UTC)", 3 * 3600),
    ("Your limit will reset at 3pm (Europe/Berlin).", 3600),
    ("resets Oct 7 at 2pm", 24 * 3600),
    ("resets Oct 1 at 2pm (Europe/Berlin)", 360 * 24 * 3600),
    ("or try again at 3:45 PM.", 6300),
    ("Try again at Oct 7th, 2026 3:45 PM.", 24 * 3600 + 6300),
    ("reset at 2026-10-06 18:45:35", 17135),
    ("resets_at: 2026-10-06T12:30:00Z", 1800),
    ("Claude AI usage limit reached|1791288000", 0),
    ("Claude AI usage limit reached|1791291600", 3600),
    ('"resets_at":1791291600', 3600),
    ("try again at Feb 31st, 2026 3:45 PM.", None),
    ("resets 99pm", None),
    ("resets 3pm (Not/AZone)", 3600),
    ("Retry-After: Tue, 06 Oct 2026 12:05:00 GMT", 300),
    ("Retry-After: Tue, 06 Oct 2026 11:00:00 GMT", 0),
    ("Retry-After: Tue, 32 Oct 2026 12:05:00 GMT", None),
    ("resets at 15:00", 3600),
    ("try again at 15:00 UTC", 3 * 3600),
    ("resets at 13:59", 24 * 3600 - 60),
    ("resets 3pm UTC", 3 * 3600),
    ("resets at 9:00 AM PT", 4 * 3600),
    ("resets at midnight", 10 * 3600),
    ("resets at midnight Pacific time", 19 * 3600),
    ("resets at noon", 22 * 3600),
    ("resets tomorrow at 9am", 19 * 3600),
    ("resets Monday at 9am", 5 * 86400 + 19 * 3600),
    ("resets Tuesday at 3pm", 3600),
    ("resets Tue, 1pm", 7 * 86400 - 3600),
    ("resets Wednesday", 10 * 3600),
    ("resets Oct 8", 34 * 3600),
    ("You will regain access on 2026-10-07 at 00:00 UTC.", 12 * 3600),
    ("It resets 2026-10-07.", 10 * 3600),
    ("reset at 2026-13-45 18:45:35", None),
    ("resets at 25:00", None),
    ("resets 15:00:30", 3600 + 30),
]


@pytest.mark.parametrize(("message", "seconds"), MOMENTS)
def test_points_in_time_need_a_clock(message: str, seconds: float | None) -> None:
    """A point in time is converted to seconds from now; without a clock it means nothing."""
    assert seconds_to_wait(message, NOW) == (None if seconds is None else pytest.approx(seconds))
    assert seconds_to_wait(message, None) is None


@given(st.text(max_size=200))
def test_any_text_can_be_asked(text: str) -> None:
    """No text makes the search fail, and no wait is negative."""
    wait = seconds_to_wait(f"resets at {text} try again in {text}", NOW)
    assert wait is None or wait >= 0


def test_a_verdict_carries_the_wait() -> None:
    """Limits and passing failures carry the wait that the vendor names."""
    rate = classify(
        "codex", exit_code=1, stdout=world.codex("429 Slow. Try again in 2s"), stderr=""
    )
    assert (rate.detail, rate.retry_after) == ("rate_limit", 2)
    limit = "You've hit your limit · resets 5pm"
    claude = classify("claude", exit_code=1, stdout=world.claude(limit), stderr="", now=NOW)
    assert (claude.detail, claude.retry_after) == ("quota", 3 * 3600)
    busy = classify(
        "copilot", exit_code=1, stdout=world.copilot("503 X. Retry-After: 9"), stderr=""
    )
    assert (busy.detail, busy.retry_after) == ("overloaded", 9)
    auth = classify(
        "codex", exit_code=1, stdout=world.codex("Not logged in; retry in 5s"), stderr=""
    )
    assert (auth.detail, auth.retry_after) == ("auth", None)


def test_google_and_claude_give_the_wait_in_fields() -> None:
    """The delay in an error's details and the reset of a rate limit event reach the verdict."""
    details = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}
    body = world.google(429, "RESOURCE_EXHAUSTED", "Slow down", details)
    gemini = classify("gemini", exit_code=173, stdout="", stderr=world.gemini(body))
    assert (gemini.detail, gemini.retry_after) == ("rate_limit", 31)
    event = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": 1791291600},
    }
    stdout = world.lines(event) + world.claude("You've hit your limit", error="rate_limit")
    claude = classify("claude", exit_code=1, stdout=stdout, stderr="", now=NOW)
    assert (claude.detail, claude.retry_after) == ("quota", 3600)


def test_a_limit_by_the_minute_is_short_however_long_the_wait() -> None:
    """An account with three requests a minute waits six minutes, and has used up nothing."""
    message = "Rate limit reached on requests per min (RPM): Limit 3. Please try again in 6m0s."
    verdict = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    assert (verdict.detail, verdict.retry_after) == ("rate_limit", 360)
    message = "Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s."
    verdict = classify("codex", exit_code=1, stdout=world.codex(message), stderr="")
    assert (verdict.detail, verdict.retry_after) == ("quota", 432)


def test_a_long_wait_is_a_quota_and_a_short_one_is_not() -> None:
    """Beyond five minutes the allowance is used up; up to five, requests were only too fast."""
    for seconds, detail in ((300, "rate_limit"), (301, "quota")):
        stdout = world.codex(f"Rate limit reached. Please try again in {seconds}s.")
        assert classify("codex", exit_code=1, stdout=stdout, stderr="").detail == detail
