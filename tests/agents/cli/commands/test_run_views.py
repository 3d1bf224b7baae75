"""The views of a run in the foreground."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from attrs import evolve
from rich.console import Console

from otpy_agents.attempt.events import CliFault, Problem, Spent, Text, ToolEnded, ToolStarted
from otpy_agents.attempt.failures import Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.cli.run_progress import RunProgress
from otpy_agents.cli.run_view import JsonRunView, LiveRunView, PlainRunView, SteadyRunView, told
from otpy_agents.cli.run_words import countdown, harmless, money, span, spent
from otpy_agents.run.decide.result import Cause, Ending
from otpy_agents.run.decide.state import RunPhase, WaitReason
from otpy_agents.run.host.facts import (
    AgentEvent,
    AgentSwitched,
    AttemptBegan,
    AttemptOver,
    ClockSet,
    Fact,
    LogLine,
    PhaseChanged,
    Quiet,
    RunBegan,
    RunEnded,
    WaitBegan,
    WaitOver,
)
from tests.agents.cli.commands.stories import ORDER, RUN, record, result

AT: Any = {"run": RUN, "at": 100.0}
BEGAN = RunBegan(**AT, order=ORDER, agents=("claude", "codex"), resumed=False, waiting=False)
ATTEMPT = AttemptBegan(
    **AT, number=1, agent_id="claude", agent_cli="claude", cause=Cause.FIRST, session=None
)
RUNS = PhaseChanged(**AT, phase=RunPhase.RUN, status="running")
FAILED = AttemptOver(**AT, record=record(detail=Detail.NETWORK))
WAITS = WaitBegan(
    **AT, until=111.96, delay=11.999999, reason=WaitReason.BACKOFF, agent_id="claude", retry=1
)
ENDED = RunEnded(
    run=RUN, at=107.0, result=result(Ending.EXHAUSTED, record(detail=Detail.NETWORK)), answer=""
)


def said(event: Any) -> AgentEvent:
    return AgentEvent(**AT, number=1, said=event)


def line(*facts: Fact, now: float = 103.0) -> str:
    progress = RunProgress()
    for fact in facts:
        progress.take(fact)
    return progress.line(now)


def test_the_line_tells_who_works_since_when_and_at_what() -> None:
    """The line has its usage so far and its current tool."""
    facts = (BEGAN, ATTEMPT, RUNS, said(ToolStarted("c1", "Bash")))
    assert line(*facts) == f"{RUN}  claude #1  working  3.0 s  Bash"
    usage = Usage(input=1_250_000, output=340, cost_usd=1.5)
    spending = (*facts, said(ToolEnded("c1")), said(Spent(usage)))
    assert line(*spending) == f"{RUN}  claude #1  working  3.0 s  1.2M+340 tokens $1.50"


def test_the_line_adds_up_what_all_attempts_spent() -> None:
    """A later reading replaces one of the same attempt, and never counts twice."""
    spends = said(Spent(Usage(input=10, output=1)))
    second = AttemptBegan(
        **AT, number=2, agent_id="codex", agent_cli="codex", cause=Cause.FALLBACK, session=None
    )
    assert "10+1 tokens" in line(BEGAN, ATTEMPT, spends, spends)
    shown = line(BEGAN, ATTEMPT, RUNS, spends, FAILED, second, spends)
    assert shown == f"{RUN}  codex #2  working  3.0 s  1.2k+35 tokens $0.0500"


def test_a_wait_is_counted_down_and_says_how_to_cut_it() -> None:
    """The command can be copied into a second terminal."""
    waits = (BEGAN, ATTEMPT, FAILED, WAITS)
    wanted = f"claude  retry 1 in 0:09 (backoff)  now: otpy-agents runs retry-now {RUN}"
    assert line(*waits, now=103.0) == wanted
    assert len(wanted) <= 80
    assert "retry 1 in 0:00 (backoff)" in line(*waits, now=113.0)
    cooldown = evolve(WAITS, reason=WaitReason.COOLDOWN, retry=0, until=4000.0)
    assert line(cooldown).startswith("claude  next attempt in 1:04:57 (cooldown)  now: ")
    assert "retry-now" not in line(*waits, WaitOver(**AT))


def test_a_silence_is_shown_until_the_agent_says_something() -> None:
    """The silence counts from the agent's last output."""
    quiet = Quiet(**AT, number=1, seconds=60.0)
    assert "silent for 63 s" in line(BEGAN, ATTEMPT, RUNS, quiet)
    assert "silent" not in line(BEGAN, ATTEMPT, RUNS, quiet, said(Text("hm")))


def test_no_time_that_is_shown_follows_a_clock_that_was_set() -> None:
    """After an hour forward, attempt and wait show the same times as before."""
    now = line(BEGAN, ATTEMPT, RUNS, now=110.0)
    before = ClockSet(**AT, by=3600.0, until=None)
    assert line(BEGAN, ATTEMPT, RUNS, before, now=3710.0) == now
    wait = (BEGAN, ATTEMPT, FAILED, WAITS)
    left = line(*wait, now=103.0)
    moved = ClockSet(**AT, by=3600.0, until=WAITS.until + 3600.0)
    assert line(*wait, moved, now=3703.0) == left


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (BEGAN, f"run {RUN}: claude -> codex"),
        (ATTEMPT, "attempt 1: claude (first)"),
        (said(ToolStarted("c1", "Bash")), "attempt 1: uses Bash"),
        (said(Problem(CliFault("lost\nit"))), "attempt 1: lost it"),
        (said(Text("secret thoughts")), None),
        (FAILED, "attempt 1: failed: network  1.2k+34 tokens $0.0500  no route to host"),
        (WAITS, f"waits 12 s for the backoff; `otpy-agents runs retry-now {RUN}` cuts it"),
        (AgentSwitched(**AT, source="claude", target="codex"), None),  # its log line tells it
        (Quiet(**AT, number=1, seconds=60.0), "attempt 1: silent for 60 s"),
        (LogLine(**AT, text="[supervisor] hello"), "[supervisor] hello"),
        (
            RunEnded(**AT, result=result(Ending.CANCELLED), answer=""),
            f"run {RUN}: failed (cancelled): no route to host",
        ),
        (ENDED, f"run {RUN}: failed (exhausted): no route to host  1 attempt in 7.0 s"),
    ],
)
def test_what_is_worth_a_line_gets_one(fact: Fact, text: str | None) -> None:
    """Other facts get no line."""
    assert told(fact) == text


def test_plain_lines_begin_with_the_seconds_since_the_start() -> None:
    """A line contains nothing that could move the cursor."""
    stream = io.StringIO()
    view = PlainRunView(stream)
    view.take(BEGAN)
    view.draw(101.0)
    view.take(LogLine(run=RUN, at=102.5, text="\x1b[2Jgone"))
    view.note("hm")
    view.close()
    assert stream.getvalue().splitlines() == [
        f"   0.00 run {RUN}: claude -> codex",
        "   2.50 \\x1b[2Jgone",
        "otpy-agents: hm",
    ]


def test_json_has_one_object_for_each_fact() -> None:
    """An object has the fact's stable name and all its values."""
    stream = io.StringIO()
    view = JsonRunView(stream)
    for fact in (BEGAN, said(ToolStarted("c1", "Bash")), WAITS, ENDED):
        view.take(fact)
    view.note("hm")
    objects = [json.loads(one) for one in stream.getvalue().splitlines()]
    assert [one["event"] for one in objects] == [
        *("run.began", "attempt.event", "wait.began", "run.ended", "note")
    ]
    assert objects[1]["said"] == {
        "type": "ToolStarted",
        "call": "c1",
        "name": "Bash",
        "input": {},
    }
    assert objects[2]["cut_by"][0] == "retry_now"
    assert objects[3]["result"]["ending"] == "exhausted"
    assert (objects[3]["status"], objects[3]["exit_code"]) == ("failed", 1)


def test_a_terminal_keeps_one_line_and_gets_itself_back() -> None:
    """Events stand above that line; tools appear in it, without lines of their own."""
    stream = io.StringIO()
    view = LiveRunView(Console(file=stream, force_terminal=True, width=100))
    for fact in (BEGAN, ATTEMPT, RUNS, said(ToolStarted("c1", "Bash"))):
        view.take(fact)
        view.draw(103.0)
    view.close()
    shown = stream.getvalue()
    assert "attempt 1: claude (first)" in shown
    assert "working  3.0 s  Bash" in shown
    assert "uses Bash" not in shown
    assert shown.endswith("\x1b[?25h") or "\x1b[?25h" in shown


class Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_run_goes_on_when_nobody_looks_any_more() -> None:
    """After the first line that cannot be written, the view writes no more."""
    stream = Closed()
    view = SteadyRunView(PlainRunView(stream), stream)
    view.take(BEGAN)
    view.draw(1.0)
    view.note("hm")
    view.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (4.25, "4.2 s"),
        (75.9, "75 s"),
        (125, "2 min 5 s"),
        (7200, "2 h"),
        (2e5, "2 d 8 h"),
    ],
)
def test_durations_are_said_as_a_person_would(seconds: float, text: str) -> None:
    """Short ones are rounded down, so that none ends early; long ones have two units."""
    assert span(seconds) == text


def test_money_and_tokens_are_short() -> None:
    """Small sums keep the significant digits; an empty usage is an empty text."""
    assert (money(0.0123), money(2), spent(Usage())) == ("$0.0123", "$2.00", "")


def test_an_answer_cannot_harm_a_terminal() -> None:
    """Line ends and tabs stay unchanged."""
    assert harmless("a\tb\n\x1b]0;c\x07") == "a\tb\n\\x1b]0;c\\x07"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0:00"), (0.2, "0:01"), (8.1, "0:09"), (599, "9:59"), (3600, "1:00:00")],
)
def test_a_countdown_goes_by_the_second(seconds: float, text: str) -> None:
    """It is rounded up, so that it shows 0 only at the end of the wait."""
    assert countdown(seconds) == text
