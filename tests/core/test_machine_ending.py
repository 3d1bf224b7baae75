"""The static machine: stopping, killing, and events that come too late."""

from __future__ import annotations

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
    Fact,
    Query,
    Refusal,
    RestartChild,
    StartFailure,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import Crashed, Killed, Normal, Restart, Shutdown
from otpy._core.spec import BRUTAL_KILL, Strategy
from tests.core.world import BOOM, HELD, NOPE, World, child, tree

ALL, REST = Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE
TEMPORARY = {"restart": Restart.TEMPORARY}
TRANSIENT = {"restart": Restart.TRANSIENT}


def words(text: str) -> list[str]:
    """Return a trace that is written as in the rule book."""
    return text.split(", ") if text else []


class TestStopping:
    def test_children_stop_in_reverse_one_at_a_time(self) -> None:
        """Each child is gone before the next is asked (SUP-708)."""
        world = World(tree("a", "b", "c"), ends={"b": HELD}).begin()
        world.stop(Normal())
        assert world.trace == words("q c, z c, q b")
        world.gone("b")
        assert world.trace == words("q c, z c, q b, z b, q a, z a")
        assert world.finish is not None
        assert world.finish.reason == Normal()
        assert world.finish.failure is None

    def test_brutal_kill_does_not_ask(self) -> None:
        """The other children are asked (SUP-701)."""
        world = World(tree("a", child("b", shutdown=BRUTAL_KILL))).begin()
        world.stop()
        assert world.trace == words("k b, z b, q a, z a")

    def test_who_dies_during_the_stop_is_not_restarted(self) -> None:
        """Its real reason is judged when its turn comes (SUP-711)."""
        world = World(tree("a", "b"), ends={"b": HELD}).begin()
        world.stop()
        world.die("a")
        world.gone("b")
        assert world.trace == words("q b, die a, z b")
        assert world.contexts() == [("a", Context.SHUTDOWN_ERROR)]
        assert world.tells[-2].reason == BOOM

    def test_a_stop_during_a_restart_stops_what_runs(self) -> None:
        """Later starts are dropped, and the one in progress is hurried."""
        world = World(tree("a", "b", "c", strategy=ALL), starts={"b": "sh"}).begin()
        world.die("c")
        world.stop()
        assert world.hurried == ["b"]
        world.settle("b", "s")
        assert world.trace == words("die c, q b, z b, q a, z a, s a, s b, q b, z b, q a, z a")
        assert world.finish is not None

    @pytest.mark.parametrize("how", ["f", "i"])
    def test_a_stop_during_a_start_that_fails_stops_the_others(self, how: str) -> None:
        """The supervisor does not wait for a child whose start has failed."""
        world = World(tree("a", "b", "c"), starts={"b": "h"}).begin()
        world.stop()
        world.settle("b", how)
        assert world.trace == [f"{how} b", "q a", "z a"]
        assert world.finish is not None
        assert world.finish.failure is None

    def test_a_stop_while_a_bystander_stops_asks_nobody_twice(self) -> None:
        """The supervisor awaits the child that is being stopped, then stops the rest in reverse."""
        world = World(tree("a", "b", "c", "d", strategy=REST), ends={"c": HELD}).begin()
        world.die("b")
        world.stop()
        world.gone("c")
        assert world.trace == words("die b, q d, z d, q c, z c, q a, z a")

    def test_a_second_stop_changes_nothing(self) -> None:
        """The first reason stands."""
        world = World(tree("a"), ends={"a": HELD}).begin()
        world.stop(Normal())
        world.stop(Shutdown("again"))
        world.gone("a")
        assert world.finish is not None
        assert world.finish.reason == Normal()

    def test_requests_are_refused_from_the_stop_on(self) -> None:
        """Waiting and later requests are refused, each exactly once."""
        world = World(tree("a", "b"), ends={"b": HELD}).begin()
        world.send(TerminateChild("in progress", "b"), Query("waits"))
        world.stop()
        world.send(Query("late"))
        assert set(world.replies) == {"waits", "late"}
        world.gone("b")
        world.send(Query("too late"))
        assert world.replies.pop("in progress").refusal is None
        assert {ref: r.refusal for ref, r in world.replies.items()} == dict.fromkeys(
            ["waits", "late", "too late"], Refusal.NOT_RUNNING
        )

    @pytest.mark.parametrize("ask", ["stop", "kill"])
    @pytest.mark.parametrize("by_hand", [AddChild("ref", child("x")), RestartChild("ref", "b")])
    @pytest.mark.parametrize("how", ["s", "f", "i", "end"])
    def test_a_start_by_hand_in_progress_is_answered(
        self, ask: str, by_hand: AddChild | RestartChild, how: str
    ) -> None:
        """The reply is the child, none, or the reason of a failure; never `NOT_RUNNING`."""
        world = World(tree("a", "b"), starts={"x": "h", "b": "sh"}, ends={"a": HELD}).begin()
        world.ask(TerminateChild(1, "b"))
        world.send(by_hand)
        started = world.children["x" if isinstance(by_hand, AddChild) else "b"]
        world.ends[started.key] = HELD
        world.kill() if ask == "kill" else world.stop()
        assert "ref" not in world.replies
        if how == "end":
            world.gone(started.key, Killed())
        else:
            world.settle(started.key, how)
        reply = world.replies["ref"]
        assert reply.child is (None if how == "i" else started)
        assert reply.refusal is (Refusal.START_FAILED if how in {"f", "end"} else None)
        assert reply.reason == {"f": NOPE, "end": Killed()}.get(how)
        for key in sorted(world.live, reverse=True):
            world.gone(key)
        assert world.finish is not None

    def test_an_ended_supervisor_is_at_rest(self) -> None:
        """Nothing is left to handle, whatever happened during the stop."""
        world = World(tree("a", "b"), ends={"b": HELD}).begin()
        world.stop()
        assert not world.machine.settled
        world.die("a")
        world.gone("b")
        assert world.machine.phase is Phase.ENDED
        assert world.machine.settled


class TestKilling:
    def test_all_are_killed_at_once(self) -> None:
        """No child waits for another; the supervisor ends when the last is gone (SUP-719)."""
        world = World(tree("a", "b", "c"), ends=dict.fromkeys("abc", HELD)).begin()
        world.kill()
        assert world.trace == words("k a, k b, k c")
        for key in "bca":
            assert world.finish is None
            world.gone(key)
        assert world.finish is not None
        assert world.finish.reason == Killed()

    def test_a_kill_overtakes_a_stop(self) -> None:
        """A child that was asked before is killed too."""
        world = World(tree("a", "b"), ends=dict.fromkeys("ab", HELD)).begin()
        world.stop(Normal())
        world.kill()
        world.gone("a")
        world.gone("b")
        assert world.trace == words("q b, k a, k b, z a, z b")
        assert world.finish is not None
        assert world.finish.reason == Killed()

    def test_a_kill_takes_the_start_in_progress_too(self) -> None:
        """This holds whether the child becomes ready meanwhile or not."""
        world = World(tree("a", "b"), starts={"b": "h"}, ends={"b": HELD}).begin()
        world.kill()
        world.settle("b", "s")
        assert world.finish is None
        world.gone("b", Killed())
        assert world.trace == words("k a, z a, k b, s b, z b")
        assert world.finish is not None

    def test_a_kill_in_the_middle_of_a_restart_starts_nobody(self) -> None:
        """A death that waits is reported, and nothing is restarted."""
        world = World(tree("a", "b", "c", strategy=ALL), ends={"c": HELD}).begin()
        world.die("a")
        world.die("b")
        world.kill()
        world.gone("c")
        assert world.trace == words("die a, q c, die b, k c, z c")
        stopped = [("b", Fact.STOPPED), ("c", Fact.STOPPED)]
        assert world.facts(Fact.STOPPED) == stopped
        assert world.finish is not None

    def test_a_kill_keeps_the_failure_it_interrupts(self) -> None:
        """The failure that made the supervisor give up is not lost."""
        world = World(tree("a", "b", intensity=0), ends={"b": HELD}).begin()
        world.die("a")
        world.kill()
        world.gone("b")
        assert world.finish is not None
        assert world.finish.reason == Killed()
        assert world.finish.failure is not None
        assert world.finish.failure.child_id == "a"

    def test_a_second_kill_kills_nobody_twice(self) -> None:
        """The same holds for a kill after the end."""
        world = World(tree("a"), ends={"a": HELD}).begin()
        world.kill()
        world.kill()
        world.gone("a")
        world.kill()
        assert world.trace == words("k a, z a")


class TestOldNews:
    @pytest.mark.parametrize(
        "event",
        [
            ChildReady("a", 1),
            ChildReady("a", 2),
            StartFailure("a", 1, NOPE),
            ChildIgnored("a", 1),
            ExitNoticed("a", 1, BOOM),
            ExitNoticed("a", 3, BOOM),
            ExitNoticed("nobody", 1, BOOM),
            TimerDue("a", 1),
            TimerDue("nobody", 1),
        ],
        ids=str,
    )
    def test_news_of_another_life_are_dropped(self, event: Event | ExitNoticed) -> None:
        """AIO-14: the second life is running; nothing is done, reported or counted."""
        world = World(tree("a", "b", strategy=ALL)).begin()
        world.die("a")
        assert world.children["a"].incarnation == 2
        assert world.take(event) == []
        assert world.machine.settled
        assert world.restarts_counted() == 1
        world.die("a")  # and an event of the present life is handled as ever
        assert world.children["a"].incarnation == 3

    def test_a_timer_that_was_cancelled_does_nothing(self) -> None:
        """Its token differs from that of the current timer."""
        world = World(tree(child("a", backoff=Backoff.sequence(60)))).begin()
        world.die("a")
        _, token = world.timers["a"]
        assert world.take(TimerDue("a", token - 1)) == []
        assert world.take(TimerDue("a", token + 1)) == []
        assert world.status("a") == "backing off"

    def test_an_end_that_is_told_twice_counts_once(self) -> None:
        """This holds even while the first report of the end waits to be handled."""
        world = World(tree("a", "b"), starts={"b": "h"}).begin()
        world.die("a")
        world.send(ExitNoticed("a", 1, Crashed(RuntimeError("again"))))
        world.settle("b", "s")
        assert world.trace == words("die a, s b, s a")
        assert world.restarts_counted() == 1
        assert [tell.reason for tell in world.tells if tell.fact is Fact.EXITED] == [BOOM]
