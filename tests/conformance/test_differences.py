"""otpy's behaviour where it differs from Erlang on purpose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import otpy
from otpy import BRUTAL_KILL, Abandoned, ChildSpec, Shutdown, SupervisorSpec
from otpy.reports import ChildStopped
from otpy.testing import FaultPlan, Recording, faults
from tests.conformance.case import permanent, sub, together, top
from tests.conformance.differences import DIFFERENCES
from tests.conformance.otpy_runner import play
from tests.conformance.scenario import Die, Scenario, Stop

if TYPE_CHECKING:
    from otpy.testing import MockClock
    from tests.conformance.scenario import Step, Sup


def events(tree: Sup, *steps: Step) -> list[str]:
    """Return the events of the last step."""
    return play(Scenario(tree, steps))[-1].events


def test_every_difference_names_its_rules_and_its_test() -> None:
    """The tests that the table names exist."""
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    for difference in DIFFERENCES:
        assert difference.rules
        file, _, name = difference.test.partition("::")
        if file == "test_differences.py":
            assert name in globals(), difference.test


def test_a_killed_supervisor_takes_its_children_along() -> None:
    """SUP-719: they have ended, killed, before it is started again."""
    tree = top(sub("s", "x", permanent("y", ends="silent")), "z")
    assert events(tree, Die("top/s", "killed")) == [
        "kill top/s",
        "asked top/s/x",
        "end top/s/x shutdown",
        "shutdown_error top/s/y killed",
        "child_terminated top/s killed",
        "start top/s/x",
        "started top/s/x",
        "start top/s/y",
        "started top/s/y",
        "started top/s",
    ]


def test_a_limit_of_zero_lets_a_child_end_at_once() -> None:
    """SUP-702: a child that ends in the turn of its cancellation was not killed."""
    tree = top(permanent("a", shutdown=0), permanent("b", shutdown=0, takes=1))
    assert events(tree, Stop()) == [
        "asked top/b",
        "shutdown_error top/b killed",
        "asked top/a",
        "end top/a shutdown",
    ]


def test_a_stop_overtakes_what_is_queued() -> None:
    """SUP-317, SUP-613: events that wait when a stop arrives are not handled any more."""
    tree = top("a", "b", "c", intensity=9)
    steps = together("die a", "die b", "restart c", "stop")
    section = play(Scenario(tree, (steps,)))[-1]
    assert section.results == ["not_running"]
    assert section.events == [
        "die top/a boom",
        "die top/b boom",
        "child_terminated top/a boom",
        "start top/a",
        "started top/a",
        "asked top/c",
        "end top/c shutdown",
        "shutdown_error top/b boom",
        "asked top/a",
        "end top/a shutdown",
    ]


def test_an_overtaken_retry_is_dropped() -> None:
    """SUP-614: b fails again; the end of a, which is older than that failure, is handled first."""
    tree = top(
        permanent("a", starts="sdd"),
        permanent("b", starts="sff"),
        intensity=2,
        strategy="one_for_all",
    )
    assert events(tree, Die("top/a"))[-4:] == [
        "fail top/b",
        "start_error top/b nope",
        "child_terminated top/a boom",
        "shutdown top/a limit",
    ]


async def test_who_refuses_to_be_killed_is_abandoned(clock: MockClock) -> None:
    """AIO-04: it is abandoned after two cancellations, and never reported dead."""
    reports = Recording()
    child = ChildSpec("a", asyncio.Event().wait, shutdown=BRUTAL_KILL)
    with FaultPlan([faults.ignore_cancellation("top/a")]).active():
        async with otpy.start(SupervisorSpec("top", [child]), hooks=[reports]) as root:
            await root.stop(Shutdown())
        assert isinstance(reports.one(ChildStopped).reason, Abandoned)
        assert clock.now == 2 * 1.0
