"""Every recorded sample is classified correctly, even if damaged on the way."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from otpy_agents.run import ERROR_TYPES, Classification, Detail, ErrorType, classify, error_table
from tests.agents.samples import Sample, real

SAMPLES = real()
FAILURES = [item for item in SAMPLES if item.detail is not None]
SUCCESSES = [item for item in SAMPLES if item.detail is None]
Streams: TypeAlias = tuple[str, str]
Damage: TypeAlias = Callable[[Sample], Iterator[Streams]]
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
    """The output of a real CLI means what the manifest says, in the table's class (RUN-45)."""
    verdict = verdict_on(item)
    assert verdict.detail == item.detail
    assert verdict.error_type == (None if item.detail is None else ERROR_TYPES[Detail(item.detail)])
    assert bool(verdict.message) == (item.detail is not None)


def test_all_four_have_samples_of_every_kind() -> None:
    """Each agent CLI has failures and successes among the samples."""
    assert {item.cli for item in FAILURES} == set(AGENTS) == {item.cli for item in SUCCESSES}


# --- damage on the way: each yields the two streams of a sample, damaged --------------------------


def line_ends_of_windows(item: Sample) -> Iterator[Streams]:
    """CR LF on both streams is read as LF."""
    yield item.stdout.replace("\n", "\r\n"), item.stderr.replace("\n", "\r\n")


def colours(item: Sample) -> Iterator[Streams]:
    """Terminal escapes around each line are taken off."""
    paint = ("\x1b[1;31m{}\x1b[0m", "\x1b]0;title\x07{}\x1b[K")

    def painted(text: str) -> str:
        lines = enumerate(text.split("\n"))
        return "\n".join(paint[number % 2].format(line) if line else line for number, line in lines)

    yield painted(item.stdout), painted(item.stderr)


def byte_order_mark(item: Sample) -> Iterator[Streams]:
    """A byte order mark in front of either stream is not read as text."""
    yield f"\ufeff{item.stdout}", f"\ufeff{item.stderr}"


NOISE = (
    "(node:429) ExperimentalWarning: rate limit",
    "Warning: no stdin data received in 429 ms",
    "npm notice New major version of npm available! 4.2.9 -> 429",
    "2026-11-21T20:12:27.251825Z ERROR codex_api::endpoint: failed to connect, status 429",
    "[DEBUG] request 429 rate limit",
    "    at Object.<anonymous> (/app/rate_limit.js:429:1)",
)


def noise_between_the_lines(item: Sample) -> Iterator[Streams]:
    """Warnings and log lines in between and at the end are skipped."""
    if item.stderr.count("\n{") and item.cli == "gemini":
        # Inside a document every line is part of it.
        yield item.stdout, "\n".join([*NOISE, item.stderr, *NOISE])
    else:
        lines = item.stderr.split("\n")
        mixed = [text for pair in zip(lines, NOISE * len(lines), strict=False) for text in pair]
        yield item.stdout, "\n".join([*mixed, *NOISE])


def noise_among_the_events(item: Sample) -> Iterator[Streams]:
    """Foreign lines between JSON lines are skipped, and so is a byte that is not UTF-8."""
    if item.stdout.startswith('{"'):
        junk = '\ufffd\ufffd warning: 429\n{"type":"assistant","mess\n'
        yield junk + "".join(f"{line}\n{junk}" for line in item.stdout.splitlines()), item.stderr


def event_inside_another_line(item: Sample) -> Iterator[Streams]:
    """The last event counts although it stands in the middle of another line."""
    if item.stdout.startswith('{"type"') and item.stdout.count("\n") > 1:
        *head, last = item.stdout.splitlines()
        yield "\n".join([*head, '{"type":"assistant","message":{"con' + last, ""]), item.stderr


@pytest.mark.parametrize(
    "damage",
    [
        line_ends_of_windows,
        colours,
        byte_order_mark,
        noise_between_the_lines,
        noise_among_the_events,
        event_inside_another_line,
    ],
)
def test_damage_on_the_way_changes_no_verdict(damage: Damage) -> None:
    """Terminals, pipes and other programs may change the form of a CLI's output."""
    known = {str(item): item.detail for item in SAMPLES for _ in damage(item)}
    seen = {str(item): verdict_on(item, *both).detail for item in SAMPLES for both in damage(item)}
    assert seen == known
    assert {item.cli for item in SAMPLES if str(item) in known} >= {"claude", "codex"}


def test_a_stream_that_was_cut_is_no_success() -> None:
    """Cut after an earlier line, or within the last one, an answer is not whole (C-25)."""
    wrong: list[tuple[str, str]] = []
    for item in SUCCESSES:
        lines = item.stdout.splitlines(keepends=True)
        cuts = ["".join(lines[:kept]) for kept in range(len(lines) - 1)]
        cuts += ["".join(lines)[: -len(lines[-1]) // 2]]
        if item.stdout.startswith('{"'):
            seen = [(cut, verdict_on(item, stdout=cut).detail) for cut in cuts]
            wrong += [(str(item), cut) for cut, detail in seen if detail is not Detail.NO_RESULT]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_failure_that_was_cut_is_no_success(stream: str) -> None:
    """Cut after any line, or in it, a failure stays a failure, and nothing raises."""
    wrong: list[tuple[str, str]] = []
    for item in FAILURES:
        lines = getattr(item, stream).splitlines(keepends=True)
        for kept, line in enumerate(lines):
            before = "".join(lines[:kept])
            parts = (before, before + line[:20])
            seen = [(part, verdict_on(item, **{stream: part})) for part in parts]
            wrong += [(str(item), part) for part, verdict in seen if verdict.succeeded]
    assert wrong == []


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


@pytest.mark.slow
def test_one_line_of_megabytes_is_read_in_linear_time() -> None:
    """An endless line, as from a broken tool, costs time in proportion to its length."""
    for text in ("{" * 2_000_000, '{"type":' * 250_000, "error " * 300_000, "a" * 2_000_000):
        for cli in AGENTS:
            started = time.process_time()
            classify(cli, exit_code=1, stdout=text, stderr=text)
            assert time.process_time() - started < 5


def test_the_table_is_complete_and_can_be_printed() -> None:
    """Each detail belongs to one of the five classes, which an operator can look up (C-03)."""
    assert set(ERROR_TYPES) == set(Detail)
    assert set(ERROR_TYPES.values()) == set(ErrorType)
    rows = [line.split() for line in error_table().splitlines()]
    assert rows == [[str(detail), str(ERROR_TYPES[detail])] for detail in Detail]


def test_the_page_shows_the_table() -> None:
    """The documentation and the code agree on the class of each detail."""
    page = Path(__file__).parents[3] / "docs" / "explanation" / "classification.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert rows == [(str(detail), str(ERROR_TYPES[detail])) for detail in Detail]
