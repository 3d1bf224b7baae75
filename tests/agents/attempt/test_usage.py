"""Tokens are counted once, for any number of resumes of a session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.run import Transcript, Usage, UsageMeter, find_adapter
from tests.agents import cli_worlds as world
from tests.agents.samples import FOLDER, Sample, sample


def reading(item: Sample) -> tuple[Usage, str]:
    """Return the usage that a sample reports, and its session."""
    parser = find_adapter(item.cli).parser()
    report = FOLDER / item.cli / f"{item.name}.report"
    text = item.stdout + (report.read_text(encoding="utf-8") if report.exists() else "")
    transcript = Transcript(e for line in text.split("\n") for e in parser.feed(line))
    assert transcript.usage is not None
    assert transcript.session is not None
    return transcript.usage, transcript.session


RESUMED = [
    ("claude", Usage(input=1500, cached=300, output=25, cost_usd=0.006774999999999999)),
    ("codex", Usage(input=1500, cached=300, output=25)),
    ("copilot", Usage(input=1500, cached=300, output=25)),
    ("gemini", Usage(input=1500, cached=300, output=25)),
]


@pytest.mark.parametrize(("cli", "spent"), RESUMED)
def test_a_resumed_run_counts_what_is_new_in_it(cli: str, spent: Usage) -> None:
    """Codex and Copilot report the whole session, other CLIs one run; each token counts once."""
    cumulative = find_adapter(cli).cumulative_usage
    meter = UsageMeter()
    for name in ("resume1", "resume2"):
        usage, session = reading(sample(cli, name))
        assert meter.add(usage, session=session, cumulative=cumulative) == spent
    assert meter.total == spent + spent


def test_three_resumes_of_codex_count_each_token_once() -> None:
    """Four turns of 10, 10, 20 and 5 tokens are 45, although the readings add up to 115."""
    meter = UsageMeter()
    parsed: list[Usage] = []
    for tokens in (10, 20, 40, 45):
        parser = find_adapter("codex").parser()
        stdout = world.codex_answer("hi", tokens)
        transcript = Transcript(e for line in stdout.split("\n") for e in parser.feed(line))
        assert transcript.usage is not None
        parsed.append(meter.add(transcript.usage, session=transcript.session, cumulative=True))
    assert [usage.output for usage in parsed] == [10, 10, 20, 5]
    assert meter.total == Usage(input=45, output=45)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1000)), max_size=20),
    st.integers(0, 20),
)
def test_the_total_is_that_of_the_turns_also_over_a_restart(
    turns: list[tuple[str, int]], restart: int
) -> None:
    """It holds for any sessions in any order, and if the meter is stored and loaded in between."""
    meter = UsageMeter()
    threads: dict[str, int] = {}
    for number, (session, tokens) in enumerate(turns):
        if number == restart:
            meter = UsageMeter(meter.readings, meter.total)
        threads[session] = threads.get(session, 0) + tokens
        usage = Usage(input=threads[session], output=2 * threads[session])
        meter.add(usage, session=session, cumulative=True)
    spent = sum(tokens for _, tokens in turns)
    assert meter.total == Usage(input=spent, output=2 * spent)


def test_a_count_that_fell_has_begun_anew() -> None:
    """A thread whose count starts over adds its whole new count, and never a negative one."""
    meter = UsageMeter()
    meter.add(Usage(input=100, output=10), session="t", cumulative=True)
    assert meter.add(Usage(input=30, output=3), session="t", cumulative=True).input == 30
    assert meter.total == Usage(input=130, output=13)


@pytest.mark.parametrize("read", [{"late": True}, {}], ids=["late", "nothing yet"])
def test_a_lower_count_that_is_read_late_or_says_nothing_is_no_new_beginning(
    read: dict[str, bool],
) -> None:
    """A killed CLI may have told more than it wrote down; the next count continues."""
    meter = UsageMeter()
    meter.add(Usage(input=100, output=10), session="t", cumulative=True)
    lower = Usage(input=30, output=3) if read else Usage()
    assert meter.add(lower, session="t", cumulative=True, **read) == Usage()
    meter.add(Usage(input=120, output=12), session="t", cumulative=True)
    assert meter.total == Usage(input=120, output=12)


def test_without_a_session_everything_is_new() -> None:
    """A run that never told its session counts in full."""
    meter = UsageMeter()
    for _ in range(2):
        meter.add(Usage(input=5), session=None, cumulative=True)
    assert meter.total == Usage(input=10)
