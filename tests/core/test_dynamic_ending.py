"""The dynamic machine: stopping, killing, and events that come too late."""

from __future__ import annotations

from typing import Any

import pytest

from otpy._core.backoff import Backoff
from otpy._core.phase import Phase
from otpy._core.protocol import (
    AddChild,
    ChildIgnored,
    ChildReady,
    Context,
    Event,
    ExitNoticed,
    Query,
    Refusal,
    Request,
    RetryNow,
    StartFailure,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import Killed, Normal, Restart, Shutdown
from otpy._core.spec import AutoShutdown, DynamicSpec, Intensity, Then
from tests.core.world import BOOM, HELD, NOPE, World, child

ANY, EVERY = AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT
TEMPORARY: dict[str, Any] = {"restart": Restart.TEMPORARY}


def pool(*ids: str, fields: dict[str, Any] | None = None, **more: Any) -> World:
    """Return a dynamic supervisor with some children; `fields` belong to the supervisor."""
    world = World(DynamicSpec("pool", **(fields or {})), **more).begin()
    for name in ids:
        world.add(name)
    world.forget()
    return world


def significant(auto: AutoShutdown, restart: Restart, **more: Any) -> World:
    """Return a pool of significant a and b, and an ordinary n."""
    world = pool(fields={"auto_shutdown": auto}, **more)
    for name in "ab":
        world.add(child(name, significant=True, restart=restart))
    world.add("n")
    world.forget()
    return world


class TestSignificance:
    @pytest.mark.parametrize("restart", [Restart.TRANSIENT, Restart.TEMPORARY])
    def test_any_ends_with_the_first(self, restart: Restart) -> None:
        """It ends with `shutdown` and without an error, as a static one does (SUP-902, SUP-904)."""
        world = significant(ANY, restart)
        world.die("a", reason=Normal())
        assert world.trace == ["die a", "q b", "z b", "q n", "z n"]
        assert world.finish is not None
        assert (world.finish.reason, world.finish.failure) == (Shutdown(), None)
        assert world.contexts() == []

    @pytest.mark.parametrize("restart", [Restart.TRANSIENT, Restart.TEMPORARY])
    def test_all_ends_with_the_last(self, restart: Restart) -> None:
        """All significant children count, even those that were added later (SUP-903, SUP-911)."""
        world = significant(EVERY, restart)
        world.die("b", reason=Normal())
        world.add(child("c", significant=True, restart=restart))
        world.die("a", reason=Normal())
        assert world.finish is None
        world.die("c", reason=Normal())
        assert world.finish is not None

    def test_others_end_nothing(self) -> None:
        """SUP-901, SUP-905: an ordinary child, and a crash followed by a restart."""
        world = significant(ANY, Restart.TRANSIENT)
        world.add(child("t", restart=Restart.TEMPORARY))
        world.die("t", "a")
        assert world.up == ["a", "b", "n"]
        assert world.finish is None

    def test_one_that_waits_for_its_restart_still_counts(self) -> None:
        """Under all_significant, such a child keeps the pool alive (SUP-903)."""
        world = significant(EVERY, Restart.TRANSIENT, starts={"a": "sfs"})
        world.die("a")
        world.die("b", reason=Normal())
        assert world.finish is None

    def test_a_stop_by_hand_never_ends_it(self) -> None:
        """A child that was or is being stopped no longer keeps the pool alive (SUP-906)."""
        for earlier in (False, True):
            world = significant(EVERY, Restart.TRANSIENT, ends={"a": HELD})
            if earlier:  # it has lost a significant child before, and so keeps a list of them
                world.add(child("e", significant=True, restart=Restart.TEMPORARY))
                world.die("e")
            world.send(TerminateChild(1, "a"))
            assert world.finish is None
            world.forget()
            world.die("b", reason=Normal())
            assert world.trace == ["die b", "q n", "z n"]
            world.gone("a")
            assert world.finish is not None

    def test_giving_up_a_significant_child_is_its_end_for_good(self) -> None:
        """The supervisor may end with the child, because it is never restarted."""
        world = pool(fields={"auto_shutdown": ANY})
        once = Intensity(0, 1, Then.GIVE_UP)
        world.add(child("x", significant=True, restart=Restart.TRANSIENT, intensity=once))
        world.die("x")
        assert world.finish is not None
        assert world.finish.failure is None


class TestEnding:
    def test_all_are_asked_at_once(self) -> None:
        """The supervisor ends when the last child is gone (SUP-709, DYN-14)."""
        world = pool("a", "b", "c", ends=dict.fromkeys("abc", HELD))
        world.stop(Normal())
        assert world.trace == ["q a", "q b", "q c"]
        for key in "bca":
            assert world.finish is None
            world.gone(key)
        assert world.finish is not None
        assert world.finish.reason == Normal()
        assert world.machine.phase is Phase.ENDED
        assert world.machine.settled

    def test_without_children_it_ends_at_once(self) -> None:
        """The supervisor has nothing to wait for."""
        world = pool()
        world.stop()
        assert world.finish is not None

    @pytest.mark.parametrize("cause", ["stop", "failure"])
    def test_starts_are_finished_and_those_that_wait_dropped(self, cause: str) -> None:
        """AIO-10: the caller of a start gets the child, which is then stopped in order."""
        world = pool("y", starts={"new": "h", "old": "sh"}, fields={"intensity": 2})
        world.add("old")
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x", "old")
        world.send(AddChild("add", child("new")))
        world.forget()
        world.stop() if cause == "stop" else world.die("y")
        assert world.hurried == ["old", "new"]
        assert (world.replies.get("add"), world.timers) == (None, {})
        added = world.children["new"]
        world.settle("new", "s")
        assert world.replies["add"].child is added
        assert world.finish is None
        world.settle("old", "s")
        ends = ["q y", "z y"] if cause == "stop" else ["die y"]
        assert world.trace == [*ends, "s new", "q new", "z new", "s old", "q old", "z old"]
        assert world.finish is not None
        assert (world.finish.failure is not None) is (cause == "failure")

    @pytest.mark.parametrize("how", ["f", "i", "end"])
    def test_starts_that_do_not_happen_hold_up_no_stop(self, how: str) -> None:
        """No restart is tried again, and each caller is told."""
        world = pool("old", starts={"new": "h", "old": "sh"})
        world.die("old")
        world.send(AddChild("add", child("new")))
        world.stop()
        for key in ("old", "new"):
            world.gone(key, Killed()) if how == "end" else world.settle(key, how)
        assert world.replies["add"].refusal is (None if how == "i" else Refusal.START_FAILED)
        assert world.finish is not None

    def test_a_stop_by_hand_of_a_start_is_not_hurried_twice(self) -> None:
        """The limit of the start runs from the first time."""
        world = pool(starts={"x": "h"})
        world.send(AddChild("add", child("x")), TerminateChild("stop", "x"))
        world.stop()
        assert world.hurried == ["x"]
        world.settle("x", "s")
        assert world.replies["add"].refusal is world.replies["stop"].refusal is None
        assert world.finish is not None

    def test_a_stop_by_hand_in_progress_is_not_asked_again(self) -> None:
        """The stop is awaited, and its caller gets a reply."""
        world = pool("a", "b", ends={"a": HELD})
        world.send(TerminateChild(1, "a"))
        world.stop()
        assert world.trace == ["q a", "q b", "z b"]
        world.gone("a")
        assert 1 in world.replies
        assert world.finish is not None

    def test_who_dies_during_the_stop_is_not_restarted(self) -> None:
        """The supervisor judges the real reason."""
        world = pool("a", "b", ends=dict.fromkeys("ab", HELD))
        world.stop()
        world.die("a")
        world.gone("b")
        assert world.contexts() == [("a", Context.SHUTDOWN_ERROR)]
        assert world.finish is not None

    def test_a_second_stop_changes_nothing(self) -> None:
        """No child is asked twice, and the first reason stands."""
        world = pool("a", ends={"a": HELD})
        world.stop(Normal())
        world.stop(Shutdown("again"))
        world.gone("a")
        assert world.finish is not None
        assert world.finish.reason == Normal()

    def test_a_kill_overtakes_everything(self) -> None:
        """Every asked, starting or running child is killed; the supervisor ends `killed`."""
        world = pool("a", "b", starts={"new": "h"}, ends=dict.fromkeys(["a", "b", "new"], HELD))
        world.send(TerminateChild(1, "a"), AddChild(2, child("new")))
        world.kill()
        assert world.trace == ["q a", "k a", "k b", "k new"]
        for key in ("a", "new", "b"):
            world.gone(key)
        assert world.replies[2].refusal is Refusal.START_FAILED
        assert world.finish is not None
        assert world.finish.reason == Killed()

    @pytest.mark.parametrize("how", ["s", "f", "i"])
    def test_a_start_that_is_killed_is_answered(self, how: str) -> None:
        """The caller gets the result of the start, whatever it was."""
        world = pool(starts={"x": "h"}, ends={"x": HELD})
        world.send(AddChild("add", child("x")))
        started = world.children["x"]
        world.kill()
        world.settle("x", how)
        assert world.replies["add"].child is (None if how == "i" else started)
        assert world.replies["add"].refusal is (Refusal.START_FAILED if how == "f" else None)
        assert (world.finish is None) is (how == "s")

    def test_a_kill_overtakes_a_stop(self) -> None:
        """Children that were asked and have not ended are killed; the supervisor ends `killed`."""
        world = pool("a", "b", ends=dict.fromkeys("ab", HELD))
        world.stop(Normal())
        world.gone("b")
        world.kill()
        world.gone("a")
        assert world.trace == ["q a", "q b", "z b", "k a", "z a"]
        assert world.finish is not None
        assert world.finish.reason == Killed()

    def test_a_kill_keeps_the_failure_it_interrupts(self) -> None:
        """The failure that made the supervisor give up is not lost."""
        world = pool("a", "b", fields={"intensity": 0}, ends={"b": HELD})
        world.die("a")
        world.kill()
        world.gone("b")
        assert world.finish is not None
        assert world.finish.failure is not None
        assert world.finish.failure.child_id == "a"

    def test_requests_are_refused_from_the_stop_on(self) -> None:
        """This holds while the supervisor ends and after it has ended."""
        world = pool("a", ends={"a": HELD})
        world.stop()
        requests: list[Request] = [AddChild(1, child("n")), TerminateChild(2, "a"), Query(3)]
        for request in [*requests, RetryNow(4, "a")]:
            assert world.ask(request).refusal is Refusal.NOT_RUNNING
        world.gone("a")
        assert world.ask(Query(5)).refusal is Refusal.NOT_RUNNING


class TestOldNews:
    @pytest.mark.parametrize(
        "event",
        [
            ChildReady("x", 1),
            ChildReady("x", 2),
            StartFailure("x", 1, NOPE),
            StartFailure("x", 2, NOPE),
            ChildIgnored("x", 2),
            ExitNoticed("x", 1, BOOM),
            ExitNoticed("nobody", 1, BOOM),
            TimerDue("x", 1),
        ],
        ids=str,
    )
    def test_news_that_come_twice_or_too_late_are_dropped(self, event: Event | ExitNoticed) -> None:
        """The second life is running; nothing is done, reported or counted."""
        world = pool("x")
        world.die("x")
        assert world.take(event) == []
        assert world.restarts_counted() == 1

    def test_an_end_that_is_told_twice_counts_once(self) -> None:
        """This holds even while the child waits for its restart."""
        world = pool()
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x")
        assert world.take(ExitNoticed("x", 1, BOOM)) == []
        assert world.restarts_counted() == 1

    def test_a_timer_that_was_cancelled_does_nothing(self) -> None:
        """Its token differs from that of the current timer."""
        world = pool()
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x")
        _, token = world.timers["x"]
        assert world.take(TimerDue("x", token + 1)) == []
        assert world.status("x") == "backing off"
