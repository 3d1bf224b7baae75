"""Every recorded sample is classified right, also when it is damaged on the way."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from otpy_agents.run import ERROR_TYPES, Classification, Detail, ErrorType, classify, error_table
from tests.agents.samples import Sample, real

SAMPLES = real()
FAILURES = [item for item in SAMPLES if item.detail is not None]
SUCCESSES = [item for item in SAMPLES if item.detail is None]
AGENTS = ("claude", "codex", "copilot", "gemini")


def verdict_on(
    item: Sample, stdout: str | None = None, stderr: str | None = None
) -> Classification:
    """Return the verdict on a sample, perhaps with other text on a stream."""
    return classify(
        item.cli,
        exit_code=item.exit_code,
        stdout=item.stdout if stdout is None else stdout,
        stderr=item.stderr if stderr is None else stderr,
    )


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_every_sample_is_classified_right(item: Sample) -> None:
    """What real CLIs wrote means what the manifest says, and its class is that of the table."""
    verdict = verdict_on(item)
    assert verdict.detail == item.detail
    assert verdict.error_type == (None if item.detail is None else ERROR_TYPES[Detail(item.detail)])
    assert bool(verdict.message) == (item.detail is not None)


def test_all_four_have_samples_of_every_kind() -> None:
    """Each agent CLI has failures and successes among the samples."""
    assert {item.cli for item in FAILURES} == set(AGENTS) == {item.cli for item in SUCCESSES}


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_line_ends_of_windows_change_nothing(item: Sample) -> None:
    """CR LF on both streams is read as LF."""
    crlf = verdict_on(item, item.stdout.replace("\n", "\r\n"), item.stderr.replace("\n", "\r\n"))
    assert crlf.detail == item.detail


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_colours_change_nothing(item: Sample) -> None:
    """Terminal escapes around each line are taken off."""
    paint = ("\x1b[1;31m{}\x1b[0m", "\x1b]0;title\x07{}\x1b[K")
    stdout, stderr = (
        "\n".join(
            paint[number % 2].format(line) if line else line
            for number, line in enumerate(text.split("\n"))
        )
        for text in (item.stdout, item.stderr)
    )
    assert verdict_on(item, stdout, stderr).detail == item.detail


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_a_byte_order_mark_changes_nothing(item: Sample) -> None:
    """A byte order mark in front of either stream is not read as text."""
    stdout, stderr = (f"\ufeff{text}" for text in (item.stdout, item.stderr))
    assert verdict_on(item, stdout, stderr).detail == item.detail


NOISE = (
    "(node:429) ExperimentalWarning: rate limit",
    "Warning: no stdin data received in 429 ms",
    "npm notice New major version of npm available! 4.2.9 -> 429",
    "2026-11-21T20:12:27.251825Z ERROR codex_api::endpoint: failed to connect, status 429",
    "[DEBUG] request 429 rate limit",
    "    at Object.<anonymous> (/app/rate_limit.js:429:1)",
)


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_noise_between_the_lines_changes_nothing(item: Sample) -> None:
    """Warnings and log lines that come in between and at the end are passed over."""
    if item.stderr.count("\n{") and item.cli == "gemini":
        # Inside of a document every line is part of it.
        stderr = "\n".join([*NOISE, item.stderr, *NOISE])
    else:
        lines = item.stderr.split("\n")
        mixed = [text for pair in zip(lines, NOISE * len(lines), strict=False) for text in pair]
        stderr = "\n".join([*mixed, *NOISE])
    assert verdict_on(item, stderr=stderr).detail == item.detail


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_noise_among_the_events_changes_nothing(item: Sample) -> None:
    """Foreign lines between JSON lines are passed over, and so is a byte that was no UTF-8."""
    if not item.stdout.startswith('{"'):
        return
    junk = '\ufffd\ufffd warning: 429\n{"type":"assistant","mess\n'
    stdout = junk + "".join(f"{line}\n{junk}" for line in item.stdout.splitlines())
    assert verdict_on(item, stdout=stdout).detail == item.detail


@pytest.mark.parametrize("item", SUCCESSES, ids=str)
def test_a_stream_that_was_cut_is_no_success(item: Sample) -> None:
    """Cut after any line before the last one, an answer is not whole (C-25)."""
    lines = item.stdout.splitlines(keepends=True)
    if item.stdout.startswith('{"'):
        for kept in range(len(lines) - 1):
            assert verdict_on(item, stdout="".join(lines[:kept])).detail is Detail.NO_RESULT
        half = "".join(lines)[: -len(lines[-1]) // 2]
        assert verdict_on(item, stdout=half).detail is Detail.NO_RESULT


@pytest.mark.parametrize("item", FAILURES, ids=str)
def test_a_failure_that_was_cut_is_no_success(item: Sample) -> None:
    """Cut after any line, of either stream, a failure is a failure and nothing raises."""
    for stream in ("stdout", "stderr"):
        text: str = getattr(item, stream)
        lines = text.splitlines(keepends=True)
        for kept in range(len(lines)):
            for part in ("".join(lines[:kept]), "".join(lines[:kept]) + lines[kept][:20]):
                assert not verdict_on(item, **{stream: part}).succeeded


@pytest.mark.parametrize("item", SAMPLES, ids=str)
def test_an_event_inside_another_line_is_found(item: Sample) -> None:
    """The last event counts although it was written into the middle of another line."""
    if not item.stdout.startswith('{"type"') or item.stdout.count("\n") < 2:
        return
    *head, last = item.stdout.splitlines()
    broken = "\n".join([*head, '{"type":"assistant","message":{"con' + last, ""])
    assert verdict_on(item, stdout=broken).detail == item.detail


def test_identifiers_in_the_samples_make_no_rate_limit() -> None:
    """With every identifier replaced by one that holds 429, each verdict stays the same."""
    numbers = random.Random(7)
    for item in SAMPLES:
        stdout = item.stdout.replace("-4", f"-4294{numbers.randrange(10):x}")
        assert verdict_on(item, stdout=stdout).detail == item.detail


@pytest.mark.parametrize("cli", AGENTS)
def test_megabytes_are_read_in_linear_time(cli: str) -> None:
    """Twice the output takes about twice as long, on both streams."""
    item = next(item for item in SUCCESSES if item.cli == cli and item.stdout.startswith('{"'))
    first, rest = item.stdout.split("\n", 1)
    filler = "x" * 900 + ' {"type":"error" 429 \n'

    def seconds(lines: int) -> float:
        stdout, stderr = f"{first}\n{filler * lines}{rest}", filler * lines
        started = time.process_time()
        assert verdict_on(item, stdout=stdout, stderr=stderr).succeeded
        return time.process_time() - started

    seconds(10)
    assert seconds(4000) < 8 * max(seconds(1000), 0.01)


def test_one_line_of_megabytes_is_read_in_linear_time() -> None:
    """A line without an end, as a broken tool writes it, costs no more than its length."""
    for text in ("{" * 2_000_000, '{"type":' * 250_000, "error " * 300_000, "a" * 2_000_000):
        for cli in AGENTS:
            started = time.process_time()
            classify(cli, exit_code=1, stdout=text, stderr=text)
            assert time.process_time() - started < 5


def test_the_table_is_complete_and_can_be_printed() -> None:
    """Each detail belongs to one of the five classes, and an operator can read which (C-03)."""
    assert set(ERROR_TYPES) == set(Detail)
    assert set(ERROR_TYPES.values()) == set(ErrorType)
    rows = [line.split() for line in error_table().splitlines()]
    assert rows == [[str(detail), str(ERROR_TYPES[detail])] for detail in Detail]


def test_the_page_shows_the_table() -> None:
    """What the documentation says each detail leads to is what it leads to."""
    page = Path(__file__).parents[2] / "docs" / "explanation" / "classification.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert rows == [(str(detail), str(ERROR_TYPES[detail])) for detail in Detail]
