"""Compare state machines with a running Erlang on random scenarios, or record its traces.

    python -m tests.conformance.statem_explore --seed 1 --count 1000
    python -m tests.conformance.statem_explore --record

Erlang plays a batch at once, in real time; here the clock is virtual.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from pathlib import Path
from typing import Any

from attrs import define
from hypothesis import HealthCheck, Phase, given, seed, settings

from otpy.testing import MockClock
from tests.conformance.statem_scenario import Scenario, act, scenarios, term, told

RUNNER = Path(__file__).with_name("statem_runner.erl")
RECORDED = Path(__file__).parent / "recorded" / "statem.json"
BATCH = 100
BELIEVED = 4
"""How often Erlang must have shown a difference."""
RECORDS = 150


class Mismatch(AssertionError):
    """A difference between otpy and Erlang."""


@define
class Tally:
    """A record of the comparisons.

    Attributes:
        compared: The number of compared scenarios.
        timers_lost: The number of those that were not, because of a named difference.
        played_again: The number of scenarios that Erlang had to play again.
    """

    compared: int = 0
    timers_lost: int = 0
    played_again: int = 0


def drawn(number: int, count: int) -> list[Scenario]:
    """Return `count` scenarios of this seed in which no two things are due at the same moment."""
    found: list[Scenario] = []

    @seed(number)
    @settings(
        max_examples=3 * count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(scenarios())
    def draw(scenario: Scenario) -> None:
        if len(found) < count and not acted(scenario)[1]:
            found.append(scenario)

    draw()
    return found


def acted(scenario: Scenario, *, awaited: bool = False) -> tuple[list[str], bool]:
    """Play a scenario on otpy, in virtual time."""
    return MockClock().run(act(scenario, awaited=awaited))


def originals(batch: list[Scenario]) -> list[list[str]]:
    """Return the traces of Erlang's own `gen_statem`."""
    lines = "".join(term(batch[n : n + BATCH]) + ".\n" for n in range(0, len(batch), BATCH))
    ran = subprocess.run(
        ["escript", RUNNER], input=lines, text=True, capture_output=True, check=True
    )
    traces: list[list[str]] = []
    for line in ran.stdout.splitlines()[1:]:
        traces += json.loads(line)
    return traces


def loses_a_timer(trace: list[str]) -> bool:
    """Whether Erlang delivers the bare message of a timer that replaced one of 0.

    OTP 25 starts the timer and loses its reference, so it never becomes a timeout.
    """
    return any("#Ref" in entry for entry in trace)


def compare(scenario: Scenario, original: list[str], tally: Tally) -> None:
    """Play `scenario` on otpy in both manners, and compare.

    Raises:
        Mismatch: If they differ in anything but the named difference.
    """
    if loses_a_timer(original):
        tally.timers_lost += 1
        return
    for awaited in (False, True):
        here, there = told(acted(scenario, awaited=awaited)[0]), told(original)
        if here != there:
            at = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), -1)
            message = f"{scenario}\nhere:   {here}\nErlang: {there}\nfirst at {at}"
            raise Mismatch(message)
    tally.compared += 1


def compare_fresh(scenario: Scenario, original: list[str], tally: Tally) -> None:
    """Compare, but accept a difference only if Erlang shows it each time.

    Erlang plays in real time, and on a busy machine a later event may come first.

    Raises:
        Mismatch: If they differ each time.
    """
    for plays_left in reversed(range(BELIEVED)):
        try:
            compare(scenario, original, tally)
        except Mismatch:
            if not plays_left:
                raise
            tally.played_again += 1
            original = originals([scenario])[0]
        else:
            return


def recorded() -> list[tuple[Scenario, list[str]]]:
    """Return the recordings: scenarios, and Erlang's traces."""
    found: list[Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [(ast.literal_eval(one["scenario"]), one["trace"]) for one in found]


def main() -> None:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--record", action="store_true")
    given_ = parser.parse_args()
    batch = drawn(given_.seed, RECORDS if given_.record else given_.count)
    traces = originals(batch)
    if given_.record:
        pairs = zip(batch, traces, strict=True)
        book = [{"scenario": repr(one), "trace": trace} for one, trace in pairs]
        lines = ",\n".join(json.dumps(entry) for entry in book)
        RECORDED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        return
    tally = Tally()
    for scenario, trace in zip(batch, traces, strict=True):
        compare_fresh(scenario, trace, tally)
    print(tally)  # noqa: T201 - a program says what it found


if __name__ == "__main__":
    main()
