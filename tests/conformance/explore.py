"""Compare otpy with a running Erlang on any number of random scenarios.

    python -m tests.conformance.explore --seeds 1-10 --each 500

Each seed stands for the same scenarios every time. Prints the shortest scenario on which the two
differ, with both traces, or how much was compared.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, final

from attrs import define, field
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.conformance.differences import alike
from tests.conformance.erlang import Erlang
from tests.conformance.otpy_runner import play
from tests.conformance.scenario import Die, Sup, Together
from tests.conformance.strategies import MANNERS, scenarios
from tests.conformance.trace import side_by_side

if TYPE_CHECKING:
    from tests.conformance.manners import Manner
    from tests.conformance.scenario import Scenario

ANSWERS: Final = frozenset(
    (
        *("ok", "ok up", "ok undefined", "running", "restarting", "not_found", "not_running"),
        *("already_present", "already_started", "invalid", "error nope", "error shutdown"),
        "waits",
    )
)


SHRINKING: Final = 60.0  # seconds to search for a shorter scenario
FIVE_LEVELS: Final = 5  # slashes in a path: the number of supervisors above a child
MANY: Final = 6


@final
@define
class Tally:
    """A record of the comparisons.

    Attributes:
        scenarios: The number of scenarios.
        cut: The number of those that were compared up to some step only.
        manners: The number of scenarios in each manner, and with each trait.
        seen: The number of events of each kind, and of results of calls, in Erlang.
    """

    scenarios: int = 0
    cut: int = 0
    manners: Counter[str] = field(factory=Counter[str])
    seen: Counter[str] = field(factory=Counter[str])


class Mismatch(AssertionError):
    """A difference between otpy and Erlang."""


def traits(scenario: Scenario) -> list[str]:
    """Return the special traits of a scenario."""
    nodes = [node for _, node in scenario.nodes()]
    together = [step for step in scenario.steps if isinstance(step, Together)]
    deaths = [sum(isinstance(item, Die) for item in step.items) for step in together]
    levels = max(path.count("/") for path, _ in scenario.nodes())
    found = {
        "with a pool": any(isinstance(node, Sup) and node.is_pool for node in nodes),
        "steps meet what goes on": scenario.holds,
        "five levels": levels >= FIVE_LEVELS,
        "more than six die at once": any(count > MANY for count in deaths),
    }
    return [trait for trait, has in found.items() if has]


def compare(erlang: Erlang, scenario: Scenario, manner: Manner, tally: Tally, number: int) -> None:
    """Run `scenario` on both sides, on otpy in this `manner`; `number` is its seed.

    Raises:
        Mismatch: If they differ in anything but the named differences.
    """
    scenario = manner.fitted(scenario)
    whole = erlang.play(scenario)
    theirs, ours = alike(scenario, whole, play(scenario, manner))
    theirs, ours = manner.heard(theirs), manner.heard(ours)
    tally.scenarios += 1
    tally.cut += len(theirs) < len(whole)
    tally.manners[f"{manner.kind} {manner.hearing}"] += 1
    tally.manners.update(traits(scenario))
    tally.manners["children by functions"] += manner.made
    for section in theirs:
        tally.seen.update(event.split()[0] for event in section.events)
        tally.seen.update(f"-> {word}" for word in section.results if word in ANSWERS)
        tally.seen.update("restarting" for word in section.results if "=restarting" in word)
    if theirs != ours:
        again = f"python -m tests.conformance.explore --seeds {number}"
        raise Mismatch(f"\n{scenario}\n{manner}\n{side_by_side(theirs, ours)}\nagain: {again}")


def explore(erlang: Erlang, number: int, count: int) -> Tally:
    """Compare the first `count` scenarios of seed `number`.

    Raises:
        Mismatch: On the first difference; Hypothesis has made it as short as it can.
    """
    tally = Tally()
    shortest: list[tuple[Scenario, Manner]] = []  # scenarios on which the two differ
    until = math.inf

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(scenarios(), MANNERS)
    def compare_one(scenario: Scenario, manner: Manner) -> None:
        nonlocal until
        if time.perf_counter() > until and (scenario, manner) not in shortest:
            return
        try:
            compare(erlang, scenario, manner, tally, number)
        except Mismatch as mismatch:
            if not shortest:  # now, in case the search for the shortest is cut off
                sys.stderr.write(f"the first mismatch of seed {number}:{mismatch}\n")
                until = time.perf_counter() + SHRINKING
            shortest.append((scenario, manner))
            raise

    compare_one()
    return tally


def main() -> int:
    """Explore the seeds of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seeds", default="1", help="one number, or first-last")
    parser.add_argument("--each", type=int, default=500, help="scenarios for each seed")
    asked = parser.parse_args()
    first, _, last = str(asked.seeds).partition("-")
    total, began = Tally(), time.perf_counter()
    with Erlang() as erlang:
        for number in range(int(first), int(last or first) + 1):
            try:
                tally = explore(erlang, number, asked.each)
            except Mismatch as mismatch:
                sys.stdout.write(f"{mismatch}\n")
                return 1
            total.scenarios += tally.scenarios
            total.cut += tally.cut
            total.manners.update(tally.manners)
            total.seen.update(tally.seen)
    spent = time.perf_counter() - began
    sys.stdout.write(
        f"OTP {erlang.version}, seeds {asked.seeds}: {total.scenarios} scenarios, none differs, "
        f"{total.cut} compared in part; {spent:.0f} s\n"
    )
    for word, count in (*sorted(total.manners.items()), *sorted(total.seen.items())):
        sys.stdout.write(f"  {word:20} {count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
