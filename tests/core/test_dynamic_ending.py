"""The dynamic machine: stopping, killing, and news that come too late."""

from __future__ import annotations

from typing import Any

import pytest

from otpy._core.backoff import Backoff
from otpy._core.phase import Phase
from otpy._core.protocol import (
    AddChild,
    ChildExited,
    ChildIgnored,
    ChildReady,
    ChildStartFailed,
    Context,
    Event,
    Query,
    Refusal,
    Request,
    RetryNow,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import Killed, Normal, Restart, Shutdown
from otpy._core.spec import DynamicSpec
from tests.core.world import BOOM, HELD, NOPE, World, child

TEMPORARY: dict[str, Any] = {"restart": Restart.TEMPORARY}


def pool(*ids: str, fields: dict[str, Any] | None = None, **more: Any) -> World:
    """Return a dynamic supervisor with some children; `fields` are the supervisor's."""
    world = World(DynamicSpec("pool", **(fields or {})), **more).begin()
    for name in ids:
        world.add(name)
    world.forget()
    return world


class TestEnding:
    def test_all_are_asked_at_once(self) -> None:
        """It ends when the last is gone (SUP-709, DYN-14)."""
        world = pool("a", "b", "c", ends=dict.fromkeys("abc", HELD))
        world.stop(Normal())
        assert world.trace == ["q c", "q b", "q a"]
        for key in "bca":
            assert world.finish is None
            world.gone(key)
        assert world.finish is not None
        assert world.finish.reason == Normal()
        assert world.machine.phase is Phase.ENDED
        assert world.machine.settled

    def test_without_children_it_ends_at_once(self) -> None:
        """There is nothing to wait for."""
        world = pool()
        world.stop()
        assert world.finish is not None

    def test_those_that_start_are_stopped_and_those_that_wait_dropped(self) -> None:
        """Whoever waits for an answer gets one."""
        world = pool(starts={"new": "h"}, ends={"new": HELD})
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x")
        world.send(AddChild("add", child("new")))
        world.stop()
        assert world.replies["add"].refusal is Refusal.NOT_RUNNING
        assert world.timers == {}
        assert list(world.children) == ["new"]
        world.gone("new")
        assert world.finish is not None

    def test_a_stop_by_hand_in_progress_is_not_asked_again(self) -> None:
        """It is awaited, and answered."""
        world = pool("a", "b", ends={"a": HELD})
        world.send(TerminateChild(1, "a"))
        world.stop()
        assert world.trace == ["q a", "q b", "z b"]
        world.gone("a")
        assert 1 in world.replies
        assert world.finish is not None

    def test_who_dies_during_the_stop_is_not_restarted(self) -> None:
        """Its real reason is judged."""
        world = pool("a", "b", ends=dict.fromkeys("ab", HELD))
        world.stop()
        world.die("a")
        world.gone("b")
        assert world.contexts() == [("a", Context.SHUTDOWN_ERROR)]
        assert world.finish is not None

    def test_a_second_stop_changes_nothing(self) -> None:
        """Nobody is asked twice, and the first reason stands."""
        world = pool("a", ends={"a": HELD})
        world.stop(Normal())
        world.stop(Shutdown("again"))
        world.gone("a")
        assert world.finish is not None
        assert world.finish.reason == Normal()

    def test_a_kill_overtakes_everything(self) -> None:
        """Asked, starting or running: all are killed, and it ends `killed`."""
        world = pool("a", "b", starts={"new": "h"}, ends=dict.fromkeys(["a", "b", "new"], HELD))
        world.send(TerminateChild(1, "a"), AddChild(2, child("new")))
        world.kill()
        assert world.trace == ["q a", "k new", "k b", "k a"]
        assert world.replies[2].refusal is Refusal.NOT_RUNNING
        for key in ("a", "new", "b"):
            world.gone(key)
        assert world.finish is not None
        assert world.finish.reason == Killed()

    def test_a_kill_overtakes_a_stop(self) -> None:
        """Those that were asked and have not ended are killed, and it ends `killed`."""
        world = pool("a", "b", ends=dict.fromkeys("ab", HELD))
        world.stop(Normal())
        world.gone("b")
        world.kill()
        world.gone("a")
        assert world.trace == ["q b", "q a", "z b", "k a", "z a"]
        assert world.finish is not None
        assert world.finish.reason == Killed()

    def test_a_kill_keeps_the_failure_it_interrupts(self) -> None:
        """Why it was giving up is not lost."""
        world = pool("a", "b", fields={"intensity": 0}, ends={"b": HELD})
        world.die("a")
        world.kill()
        world.gone("b")
        assert world.finish is not None
        assert world.finish.failure is not None
        assert world.finish.failure.child_id == "a"

    def test_requests_are_refused_from_the_stop_on(self) -> None:
        """While it ends and after it has ended."""
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
            ChildStartFailed("x", 1, NOPE),
            ChildStartFailed("x", 2, NOPE),
            ChildIgnored("x", 2),
            ChildExited("x", 1, BOOM),
            ChildExited("nobody", 1, BOOM),
            TimerDue("x", 1),
        ],
        ids=str,
    )
    def test_news_that_come_twice_or_too_late_are_dropped(self, event: Event) -> None:
        """The second life runs; nothing is done, told or counted."""
        world = pool("x")
        world.die("x")
        assert world.take(event) == []
        assert world.restarts_counted() == 1

    def test_an_end_that_is_told_twice_counts_once(self) -> None:
        """Also while the child waits for its restart."""
        world = pool()
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x")
        assert world.take(ChildExited("x", 1, BOOM)) == []
        assert world.restarts_counted() == 1

    def test_a_timer_that_was_cancelled_does_nothing(self) -> None:
        """Its token is not the one of the timer that is set."""
        world = pool()
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.die("x")
        _, token = world.timers["x"]
        assert world.take(TimerDue("x", token + 1)) == []
        assert world.status("x") == "backing off"
