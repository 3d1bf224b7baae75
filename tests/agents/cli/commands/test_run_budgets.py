"""`otpy-agents run --budget-usd` with real processes that tell their usage as they work."""

from __future__ import annotations

import json
import sys

import pytest

from tests.agents.cli.commands.terminal import Terminal, survivors

pytestmark = pytest.mark.real_time

AGENT = ("--budget-usd", "1", "--agent", "command", "--", sys.executable, "-c")
SAY = """
import json, time
def say(**line):
    print(json.dumps(line), flush=True)
"""
REQUESTS = f"""{SAY}
for number in range(1, 200):
    say(type="tool", id=str(number), name="look", input={{}})
    say(type="usage", input=1500 * number, output=25 * number, cost_usd=0.3 * number)
    time.sleep(0.5)
    say(type="tool_end", id=str(number), ok=True)
"""
ANSWERS = f"""{SAY}
say(type="usage", input=1500, output=25, cost_usd=3)
time.sleep(0.1)
say(type="result", text="all done")
time.sleep(99)
"""


def test_an_agent_that_passes_the_budget_is_ended_within_a_request(terminal: Terminal) -> None:
    """Four requests of 0.30 are more than a dollar; there is no fifth, and no retry."""
    running = terminal.start("run", "--json", *AGENT, REQUESTS)
    ended = running.until("run.ended")
    assert running.end() == 1
    assert ended["result"]["ending"] == "budget"
    assert ended["result"]["usage"]["cost_usd"] == pytest.approx(1.2)
    assert len(ended["result"]["attempts"]) == 1
    assert survivors(ended["run"]) == []


def test_an_answer_beyond_the_budget_is_kept_though_the_process_is_ended(
    terminal: Terminal,
) -> None:
    """The answer is printed, and the run is done, although a signal ended the finished agent."""
    options = ("--liveness", "stall:2", "--json")
    running = terminal.start("run", *options, *AGENT, ANSWERS)
    ended = running.until("run.ended")
    assert running.end() == 0
    assert (ended["status"], ended["answer"]) == ("done", "all done")
    assert ended["result"]["attempts"][0]["stopped"] is None
    (stored,) = terminal.runs()
    assert stored["status"] == "done", json.dumps(stored)
