"""The static machine: starting, and restarting in groups."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from otpy._core.backoff import Backoff
from otpy._core.phase import Phase
from otpy._core.protocol import (
    Begin,
    Context,
    Fact,
    Failure,
    TerminateChild,
)
from otpy._core.reason import FailedToStart, Normal, Restart, Shutdown
from otpy._core.spec import Strategy
from tests.core.world import BOOM, HELD, NOPE, World, child, tree

ALL, REST = Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE
TEMPORARY = {"restart": Restart.TEMPORARY}
TRANSIENT = {"restart": Restart.TRANSIENT}


def words(text: str) -> list[str]:
    """Return a trace that is written as in the rule book."""
    return text.split(", ") if text else []


class TestStarting:
    def test_children_start_one_after_the_other(self) -> None:
        """The next start begins when the previous one has succeeded (SUP-301)."""
        world = World(tree("a", "b", "c"), starts={"b": "h"})
        world.begin()
        assert list(world.live) == ["a", "b"]
        assert not world.ready
        world.settle("b", "s")
        assert world.up == ["a", "b", "c"]
        assert world.ready
        assert world.machine.phase is Phase.RUNNING

    def test_a_supervisor_without_children_is_ready_at_once(self) -> None:
        """The supervisor has nothing to wait for."""
        assert World(tree()).begin().ready

    @pytest.mark.parametrize("fields", [{}, TRANSIENT, TEMPORARY])
    def test_a_first_start_that_fails_is_final(self, fields: dict[str, Restart]) -> None:
        """Started children are stopped in reverse; no retry, no count (SUP-306, 307, 309)."""
        world = World(tree("a", "b", child("c", **fields), "d"), starts={"c": "f"}).begin()
        assert world.trace == []
        assert world.finish is not None
        assert world.finish.reason == Shutdown(FailedToStart("c", NOPE))
        assert world.finish.failure == Failure("c", NOPE)
        assert world.restarts_counted() == 0
        assert not world.ready

    def test_a_first_start_that_fails_is_told_in_order(self) -> None:
        """Started, started, start_error, stopped in reverse, ended; d is never mentioned."""
        world = World(tree("a", "b", "c", "d"), starts={"c": "f"})
        world.send(Begin())
        assert world.trace == words("s a, s b, f c, q b, z b, q a, z a")
        assert world.contexts() == [("c", Context.START_ERROR)]
        started, failed, stopped = Fact.STARTED, Fact.START_FAILED, Fact.STOPPED
        assert world.facts() == [
            *[("a", started), ("b", started), ("c", failed)],
            *[("b", stopped), ("a", stopped), ("", Fact.ENDED)],
        ]

    @pytest.mark.parametrize(("fields", "stays"), [({}, 1), (TRANSIENT, 1), (TEMPORARY, 0)])
    def test_who_declines_to_start_holds_nobody_up(
        self, fields: dict[str, Restart], stays: bool
    ) -> None:
        """Its spec is kept, not running, unless temporary; nothing is reported (SUP-310)."""
        world = World(tree("a", child("b", **fields), "c"), starts={"b": "i"})
        world.send(Begin())
        assert world.up == ["a", "c"]
        assert ("b" in world.children) == stays
        assert world.facts() == [("a", Fact.STARTED), ("c", Fact.STARTED)]
        assert world.ready

    def test_an_end_during_the_start_of_siblings_waits_its_turn(self) -> None:
        """It does not fail the start, and is handled when all children have started (SUP-314)."""
        world = World(tree("a", "b"), starts={"b": "h"})
        world.begin()
        world.die("a")
        assert world.trace == ["die a"]
        world.settle("b", "s")
        assert world.trace == words("die a, s b, s a")
        assert world.restarts_counted() == 1

    def test_an_end_before_readiness_is_a_start_that_failed(self) -> None:
        """A child that ends while it starts has not started."""
        world = World(tree("a", "b"), starts={"b": "h"}).begin()
        world.die("b")
        assert world.finish is not None
        assert world.finish.reason == Shutdown(FailedToStart("b", BOOM))


class TestGroups:
    """SUP-601 to SUP-622; the golden traces show the plain cases."""

    def test_temporary_bystanders_are_stopped_and_forgotten(self) -> None:
        """They are not started again (SUP-606)."""
        world = World(tree("a", child("b", **TEMPORARY), "c", strategy=ALL)).begin()
        world.die("a")
        assert world.trace == words("die a, q c, z c, q b, z b, s a, s c")
        assert list(world.children) == ["a", "c"]

    def test_whoever_is_down_comes_up_with_the_group(self) -> None:
        """Children that were stopped by hand, finished or declined are all started (SUP-607)."""
        spec = tree("a", "b", child("c", **TRANSIENT), "d", strategy=ALL)
        world = World(spec, starts={"d": "i"}).begin()
        world.ask(TerminateChild(1, "b"))
        world.die("c", reason=Normal())
        assert world.up == ["a"]
        world.forget()
        world.die("a")
        assert world.trace == words("die a, s a, s b, s c, s d")

    @pytest.mark.parametrize(
        ("strategy", "trace", "counted"),
        [
            (Strategy.ONE_FOR_ONE, "die a, die c, s a, s c", 2),
            (ALL, "die a, die c, q b, z b, s a, s b, s c", 1),
            (REST, "die a, die c, q b, z b, s a, s b, s c", 1),
        ],
    )
    def test_of_two_ends_at_once_a_group_counts_one(
        self, strategy: Strategy, trace: str, counted: int
    ) -> None:
        """The stop of the group includes the second, with its real reason (SUP-608, AIO-16)."""
        world = World(tree("a", "b", "c", strategy=strategy)).begin()
        world.die("a", "c")
        assert world.trace == words(trace)
        assert world.restarts_counted() == counted
        context = Context.CHILD_TERMINATED if counted == 2 else Context.SHUTDOWN_ERROR
        assert world.contexts() == [("a", Context.CHILD_TERMINATED), ("c", context)]

    def test_an_end_while_the_group_stops_is_consumed_by_it(self) -> None:
        """The child is handled in its turn of the stop, and not restarted separately (SUP-608)."""
        world = World(tree("a", "b", "c", strategy=ALL), ends={"c": HELD}).begin()
        world.die("a")
        world.die("b")
        world.gone("c")
        assert world.trace == words("die a, q c, die b, z c, s a, s b, s c")
        assert world.restarts_counted() == 1

    def test_an_end_while_the_group_starts_is_dealt_with_after_it(self) -> None:
        """The end of the new life costs another restart."""
        world = World(tree("a", "b", strategy=ALL), starts={"b": "sh"}).begin()
        world.die("a")
        world.die("a")
        assert world.trace == words("die a, q b, z b, s a, die a")
        world.settle("b", "s")
        assert world.trace[-5:] == words("s b, q b, z b, s a, s b")
        assert world.restarts_counted() == 2

    def test_bystanders_stop_strictly_one_after_the_other(self) -> None:
        """The next is asked when the previous one is gone (SUP-605)."""
        world = World(tree("a", "b", "c", strategy=ALL), ends={"c": HELD}).begin()
        world.die("a")
        assert world.trace == words("die a, q c")
        world.gone("c")
        assert world.trace == words("die a, q c, z c, q b, z b, s a, s b, s c")

    @pytest.mark.parametrize("strategy", [ALL, REST])
    def test_members_after_the_one_that_failed_stay_down(self, strategy: Strategy) -> None:
        """Children before it stay up; it waits for its retry, here with a delay (SUP-617)."""
        c = child("c", backoff=Backoff.sequence(7))
        world = World(tree("a", "b", c, "d", strategy=strategy), starts={"c": "sf"}).begin()
        world.die("b")
        assert world.status("c") == "restarting"
        assert world.status("d") == "undefined"
        assert world.up == ["a", "b"]
        world.advance(7)
        assert world.up == ["a", "b", "c", "d"]

    def test_a_failed_member_is_retried_with_its_group(self) -> None:
        """one_for_all begins again with the first child, and each retry counts (SUP-614, 618)."""
        starts = {"c": "sff"}
        world = World(tree("a", "b", "c", "d", strategy=ALL, intensity=3), starts=starts).begin()
        world.die("b")
        assert world.trace == words(
            "die b, q d, z d, q c, z c, q a, z a, s a, s b, f c, "
            "q b, z b, q a, z a, s a, s b, f c, q b, z b, q a, z a, s a, s b, s c, s d"
        )
        assert world.restarts_counted() == 3

    def test_a_retry_waits_behind_what_is_queued(self) -> None:
        """Requests are served between retries; a stop by hand ends the retries (SUP-613, 621)."""
        world = World(tree("a", "z", intensity=3), starts={"a": "sh"}).begin()
        world.die("a")
        world.send(TerminateChild("stop", "a"))
        world.settle("a", "f")
        assert world.replies["stop"].refusal is None
        assert world.status("a") == "undefined"
        assert world.restarts_counted() == 1
        assert world.finish is None

    def test_a_transient_child_that_does_not_start_again_escalates(self) -> None:
        """The retry ignores the restart type (SUP-616)."""
        spec = tree(child("a", **TRANSIENT), intensity=2)
        world = World(spec, starts={"a": "sfff"}).begin()
        world.die("a")
        assert world.trace == words("die a, f a, f a")
        assert world.finish is not None

    def test_declining_a_restart_ends_the_tries(self) -> None:
        """It stays down, the others of the group go on, and it counts once (SUP-313)."""
        world = World(tree("a", "b", "c", strategy=ALL), starts={"b": "si"}).begin()
        world.die("a")
        assert world.trace[-3:] == words("s a, i b, s c")
        assert world.status("b") == "undefined"
        assert world.restarts_counted() == 1


def steps_of_a_restart(children: int) -> int:
    """Return how many instructions the restart of the middle child takes."""
    world = World(tree(*map(str, range(children)), intensity=9)).begin()
    steps = 0

    def count(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal steps
        _frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        world.die(str(children // 2))
    finally:
        sys.settrace(before)
    assert world.restarts_counted() == 1
    return steps


def test_one_of_many_children_is_found_without_a_scan() -> None:
    """AIO-27: a restart takes as many steps among a thousand children as among ten."""
    assert steps_of_a_restart(1000) <= steps_of_a_restart(10) + 10
