"""The static machine's limits: giving up, escalation, own windows, delays, significant children."""

from __future__ import annotations

import pytest

from otpy._core.backoff import Backoff
from otpy._core.protocol import Context, Fact, RestartChild, RetryNow, TerminateChild
from otpy._core.reason import Normal, Restart, Shutdown
from otpy._core.spec import INFINITY, AutoShutdown, Intensity, Strategy, Then
from tests.core.world import BOOM, NOPE, World, child, tree

ANY, EVERY = AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT
ALL = Strategy.ONE_FOR_ALL
TEMPORARY = {"restart": Restart.TEMPORARY}
TRANSIENT = {"restart": Restart.TRANSIENT}
GIVE_UP, ESCALATE = Then.GIVE_UP, Then.ESCALATE


class TestGivingUp:
    def test_it_reports_stops_the_rest_and_ends_with_shutdown(self) -> None:
        """child_terminated, shutdown, the others in reverse, and why (SUP-508, SUP-509)."""
        world = World(tree("a", "b", "c", intensity=1)).begin()
        world.die("b")
        world.advance(2)
        world.forget()
        world.die("b", reason=Normal())
        assert world.trace == ["die b", "q c", "z c", "q a", "z a"]
        assert world.contexts() == [("b", Context.CHILD_TERMINATED), ("b", Context.SHUTDOWN)]
        assert world.finish is not None
        assert world.finish.reason == Shutdown()
        failure = world.finish.failure
        assert failure is not None
        assert (failure.child_id, failure.reason) == ("b", Normal())
        assert failure.limit == "more than 1 restart in 5 s"
        assert failure.history == ((0, "b", 1, BOOM), (2, "b", 2, Normal()))

    def test_all_children_share_one_window(self) -> None:
        """Crashes of two different children count as two (SUP-507)."""
        world = World(tree("a", "b", intensity=1)).begin()
        world.die("a")
        world.die("b")
        assert world.finish is not None
        assert world.finish.failure is not None
        assert [key for _, key, _, _ in world.finish.failure.history] == ["a", "b"]

    def test_two_ends_at_once_are_two_checks(self) -> None:
        """The first child is restarted, the second makes the supervisor give up (SUP-512)."""
        world = World(tree("a", "b", intensity=1)).begin()
        world.die("a", "b")
        assert world.trace == ["die a", "die b", "s a", "q a", "z a"]

    def test_restarts_far_apart_never_add_up(self) -> None:
        """One second more than the period is enough (SUP-505)."""
        world = World(tree("a", intensity=1, period=5)).begin()
        for _ in range(20):
            world.die("a")
            world.advance(6)
        assert world.finish is None

    def test_without_a_limit_it_never_gives_up(self) -> None:
        """`INFINITY` allows any number of restarts, and remembers none of them."""
        world = World(tree("a", intensity=INFINITY, period=60)).begin()
        for _ in range(5000):
            world.die("a")
        assert world.finish is None
        assert world.restarts_counted() == 0
        assert not world.machine._out._limits._history

    def test_a_failure_tells_of_those_restarts_that_count(self) -> None:
        """A failure lists only restarts that a limit counts; others do not crowd those out."""
        own, free = Intensity(1, 5), Intensity(INFINITY, 5)
        for intensity in (INFINITY, 3):
            children = child("a", intensity=own), child("b", intensity=free)
            world = World(tree(*children, "c", intensity=intensity)).begin()
            world.die("a")
            for _ in range(2000):
                world.die("b")
            world.die("c")
            world.die("a")
            assert world.finish is not None
            assert world.finish.failure is not None
            assert world.finish.failure.limit == "more than 1 restart in 5 s"
            told = [key for _, key, _, _ in world.finish.failure.history]
            assert told == (["a", "a"] if intensity is INFINITY else ["a", "c", "a"])

    def test_the_history_of_a_huge_limit_is_cut(self) -> None:
        """Each entry keeps an exception alive, so only the last 1001 are kept."""
        world = World(tree("a", intensity=10**30, period=60)).begin()
        for _ in range(1500):
            world.die("a")
        assert world.restarts_counted() == 1500
        assert len(world.machine._out._limits._history) == 4 * 1001

    def test_a_group_counts_once(self) -> None:
        """This holds however many children are restarted with the failed one (SUP-502)."""
        world = World(tree(*"abcdef", strategy=ALL, intensity=1)).begin()
        world.die("c")
        assert world.restarts_counted() == 1
        assert world.finish is None

    def test_n_counts_are_n_attempts(self) -> None:
        """One crash and failing starts make three attempts, then the end (SUP-615)."""
        world = World(tree("a", "z", intensity=3), starts={"a": "sffff"}).begin()
        world.die("a")
        assert world.trace == ["die a", "f a", "f a", "f a", "q z", "z z"]
        failed = [("a", Context.START_ERROR)] * 3
        expected = [("a", Context.CHILD_TERMINATED), *failed, ("a", Context.SHUTDOWN)]
        assert world.contexts() == expected
        assert world.finish is not None
        assert world.finish.failure is not None
        assert world.finish.failure.reason == NOPE

    def test_waiting_ends_are_not_restarted_when_it_gives_up(self) -> None:
        """A third end in the queue becomes part of the stop (SUP-711)."""
        world = World(tree("a", "b", "c", intensity=1)).begin()
        world.die("a", "b", "c")
        assert world.trace == ["die a", "die b", "die c", "s a", "q a", "z a"]
        assert world.contexts()[-1] == ("c", Context.SHUTDOWN_ERROR)


class TestOwnWindow:
    def test_it_spares_the_siblings_window(self) -> None:
        """Its restarts are counted separately, from the first one on."""
        x = child("x", intensity=Intensity(5, 10, GIVE_UP))
        world = World(tree("a", x, intensity=0)).begin()
        for _ in range(5):
            world.die("x")
        assert world.up == ["a", "x"]
        world.die("x")
        assert world.up == ["a"]
        assert world.finish is None

    def test_give_up_removes_only_the_child(self) -> None:
        """The child is reported and forgotten; siblings run on, whatever the strategy."""
        x = child("x", intensity=Intensity(0, 1, GIVE_UP))
        world = World(tree("a", x, "b", strategy=ALL)).begin()
        world.die("x")
        assert world.trace == ["die x"]
        assert world.facts() == [("x", Fact.EXITED), ("x", Fact.CHILD_GAVE_UP)]
        assert world.contexts() == [("x", Context.CHILD_TERMINATED), ("x", Context.SHUTDOWN)]
        assert world.up == ["a", "b"]
        assert "x" not in world.children

    @pytest.mark.parametrize("strategy", [ALL, Strategy.REST_FOR_ONE])
    def test_give_up_in_a_group_restart_brings_the_others_up(self, strategy: Strategy) -> None:
        """Siblings that were stopped because of the child do not stay down after it is gone."""
        x = child("x", intensity=Intensity(0, 5, GIVE_UP))
        world = World(tree("a", x, "b", strategy=strategy), starts={"x": "sf"}).begin()
        world.die("a")
        assert world.trace[-3:] == ["s a", "f x", "s b"]
        assert world.up == ["a", "b"]
        assert world.machine.settled

    @pytest.mark.parametrize("then", Then)
    def test_the_limit_of_a_start_that_fails_is_its_own_too(self, then: Then) -> None:
        """Retries count in that window as well (SUP-501)."""
        x = child("x", intensity=Intensity(2, 5, then))
        world = World(tree("a", x, intensity=0), starts={"x": "sffff"}).begin()
        world.die("x")
        assert world.trace[:3] == ["die x", "f x", "f x"]
        assert (world.finish is not None) is (then is ESCALATE)
        assert ("x" in world.children) is (then is ESCALATE)

    def test_escalate_is_the_supervisors_own_end(self) -> None:
        """The supervisor ends as at its own limit; the failure names the child's limit."""
        x = child("x", intensity=Intensity(0, 60))
        world = World(tree("a", x, intensity=9)).begin()
        world.die("x")
        assert world.trace == ["die x", "q a", "z a"]
        assert world.finish is not None
        assert world.finish.failure is not None
        assert world.finish.failure.limit == "more than 0 restarts in 60 s"

    @pytest.mark.parametrize(("auto", "ends"), [(ANY, True), (AutoShutdown.NEVER, False)])
    def test_giving_up_a_significant_child_is_its_end_for_good(
        self, auto: AutoShutdown, ends: bool
    ) -> None:
        """The supervisor may end with the child, because it is never restarted."""
        x = child("x", **TRANSIENT, significant=ends, intensity=Intensity(0, 1, GIVE_UP))
        world = World(tree("a", x, auto_shutdown=auto)).begin()
        world.die("x")
        assert (world.finish is not None) is ends
        if world.finish is not None:
            assert world.finish.failure is None


class TestBackoff:
    def test_a_delay_blocks_nobody(self) -> None:
        """Meanwhile siblings are restarted and requests are served."""
        x = child("x", backoff=Backoff.sequence(10))
        world = World(tree("a", x)).begin()
        world.die("x")
        assert world.status("x") == "backing off"
        assert world.machine.settled
        world.die("a")
        assert world.add("new").refusal is None
        assert world.up == ["a", "new"]
        world.advance(9.9)
        assert world.status("x") == "backing off"
        world.advance(0.1)
        assert world.trace == ["die x", "die a", "s a", "s new", "s x"]

    def test_a_delayed_restart_is_counted_once(self) -> None:
        """The restart counts when it is decided, not again when it is due."""
        x = child("x", backoff=Backoff.sequence(1))
        world = World(tree(x, intensity=1)).begin()
        world.die("x")
        world.advance(1)
        assert world.restarts_counted() == 1
        assert world.up == ["x"]

    def test_delays_follow_the_sequence_also_over_failing_starts(self) -> None:
        """A failed start waits for the next delay, and each retry counts."""
        x = child("x", backoff=Backoff.sequence(1, 2, 4))
        world = World(tree(x, intensity=9, period=60), starts={"x": "sff"}).begin()
        world.die("x")
        world.advance(60)
        assert world.delays == [1, 2, 4]
        assert world.trace == ["die x", "f x", "f x", "s x"]
        assert world.restarts_counted() == 3
        assert world.children["x"].restarts == 3

    def test_a_group_waits_for_the_one_that_failed(self) -> None:
        """The others are stopped at once, and all start together when the restart is due."""
        x = child("x", backoff=Backoff.sequence(5))
        world = World(tree("a", x, "b", strategy=ALL)).begin()
        world.die("x")
        assert world.trace == ["die x", "q b", "z b", "q a", "z a"]
        assert world.status("x") == "backing off"
        world.advance(5)
        assert world.trace[-3:] == ["s a", "s x", "s b"]

    def test_a_group_never_cuts_the_delay_of_a_member_short(self) -> None:
        """The group waits for the longest delay; the member's own timer is cancelled."""
        x = child("x", backoff=Backoff.sequence(10))
        world = World(tree("a", x, strategy=Strategy.REST_FOR_ONE)).begin()
        world.die("x")
        world.advance(4)
        world.die("a")
        assert world.status("a") == "backing off"
        assert world.status("x") == "undefined"
        world.advance(5.9)
        assert world.up == []
        world.advance(0.1)
        assert world.trace == ["die x", "die a", "s a", "s x"]

    def test_a_stop_ends_the_wait(self) -> None:
        """No timer remains."""
        world = World(tree("a", child("x", backoff=Backoff.sequence(10)))).begin()
        world.die("x")
        world.stop()
        assert world.timers == {}
        assert world.trace == ["die x", "q a", "z a"]
        assert world.finish is not None

    def test_retry_now_brings_the_whole_group(self) -> None:
        """The children that wait with it start as well; the call itself counts nothing."""
        x = child("x", backoff=Backoff.sequence(5))
        world = World(tree("a", x, strategy=ALL)).begin()
        world.die("x")
        world.ask(RetryNow("ref", "x"))
        assert world.up == ["a", "x"]
        assert world.restarts_counted() == 1

    def test_retry_now_of_a_failed_restart_is_counted(self) -> None:
        """It is a retry like any other, and can exceed the limit (SUP-614)."""
        x = child("x", backoff=Backoff.sequence(0, 60))
        world = World(tree(x, intensity=1), starts={"x": "sf"}).begin()
        world.die("x")
        world.ask(RetryNow("ref", "x"))
        assert world.finish is not None

    def test_the_fact_tells_the_delay(self) -> None:
        """The report of a restart says when it takes place."""
        world = World(tree(child("x", backoff=Backoff.sequence(7)))).begin()
        world.advance(3)
        world.die("x")
        (told,) = (tell for tell in world.tells if tell.fact is Fact.RESTARTING)
        assert told.delay == 7
        assert world.children["x"].due == 10


def significant(auto: AutoShutdown, fields: dict[str, Restart], **more: object) -> World:
    """Return a world of significant a and b, and an ordinary n."""
    a, b = (child(name, significant=True, **fields) for name in "ab")
    return World(tree(a, b, "n", auto_shutdown=auto, **more)).begin()


class TestSignificance:
    @pytest.mark.parametrize("fields", [TRANSIENT, TEMPORARY])
    def test_any_ends_with_the_first(self, fields: dict[str, Restart]) -> None:
        """The rest stops in reverse, with `shutdown` and without an error (SUP-902, SUP-904)."""
        world = significant(ANY, fields)
        world.die("a", reason=Normal())
        assert world.trace == ["die a", "q n", "z n", "q b", "z b"]
        assert world.finish is not None
        assert world.finish.reason == Shutdown()
        assert world.finish.failure is None
        assert world.contexts() == []

    @pytest.mark.parametrize("fields", [TRANSIENT, TEMPORARY])
    def test_all_ends_with_the_last(self, fields: dict[str, Restart]) -> None:
        """The first alone changes nothing (SUP-903)."""
        world = significant(EVERY, fields)
        world.die("b", reason=Normal())
        assert world.finish is None
        world.die("a", reason=Normal())
        assert world.finish is not None

    def test_never_does_not_end(self) -> None:
        """A child that is not significant does not end the supervisor either (SUP-901)."""
        world = World(tree(child("a", **TEMPORARY), "n", auto_shutdown=ANY)).begin()
        world.die("a")
        assert world.finish is None

    def test_a_crash_of_a_transient_child_is_a_restart(self) -> None:
        """The child is restarted, so the supervisor does not end (SUP-905)."""
        world = significant(ANY, TRANSIENT)
        world.die("a")
        assert world.up == ["a", "b", "n"]

    def test_a_crash_of_a_temporary_child_is_an_end(self) -> None:
        """A temporary child is never restarted, whatever the reason (SUP-901)."""
        world = significant(ANY, TEMPORARY)
        world.die("a")
        assert world.finish is not None
        assert world.contexts() == [("a", Context.CHILD_TERMINATED)]

    def test_one_that_waits_for_its_restart_still_counts(self) -> None:
        """Under all_significant, such a child keeps the supervisor alive (SUP-903)."""
        a = child("a", significant=True, **TRANSIENT, backoff=Backoff.sequence(9))
        b = child("b", significant=True, **TRANSIENT)
        world = World(tree(a, b, auto_shutdown=EVERY)).begin()
        world.die("a")
        world.die("b", reason=Normal())
        assert world.finish is None
        world.advance(9)
        world.die("a", reason=Normal())
        assert world.finish is not None

    def test_a_stop_by_hand_never_ends_it(self) -> None:
        """A child that was stopped no longer keeps the supervisor alive (SUP-906)."""
        world = significant(EVERY, TRANSIENT)
        world.ask(TerminateChild(1, "a"))
        world.ask(TerminateChild(2, "b"))
        assert world.finish is None
        world.ask(RestartChild(3, "a"))
        world.die("a", reason=Normal())
        assert world.finish is not None

    @pytest.mark.parametrize("fields", [TRANSIENT, TEMPORARY])
    @pytest.mark.parametrize("auto", [ANY, EVERY])
    def test_being_a_bystander_never_ends_it(
        self, auto: AutoShutdown, fields: dict[str, Restart]
    ) -> None:
        """A temporary bystander just disappears (SUP-907)."""
        world = significant(auto, fields, strategy=ALL)
        world.die("n")
        assert world.finish is None
        assert world.up == (["a", "b", "n"] if fields is TRANSIENT else ["n"])

    def test_declining_to_start_never_ends_it(self) -> None:
        """This holds for its first start and for a restart (SUP-908)."""
        a = child("a", significant=True, **TRANSIENT)
        world = World(tree(a, "n", auto_shutdown=ANY), starts={"a": "isi"}).begin()
        world.ask(RestartChild(1, "a"))
        world.die("a")
        assert world.status("a") == "undefined"
        assert world.finish is None

    def test_using_up_the_limit_is_a_failure_like_any_other(self) -> None:
        """The supervisor does not end in good order (SUP-909)."""
        world = significant(ANY, TRANSIENT, intensity=0)
        world.die("a")
        assert world.finish is not None
        assert world.finish.failure is not None
        assert world.contexts()[-1] == ("a", Context.SHUTDOWN)

    def test_one_that_was_added_later_counts_as_well(self) -> None:
        """The mode belongs to the supervisor, the significance to the child (SUP-911)."""
        world = World(tree("n", auto_shutdown=ANY)).begin()
        world.add(child("x", significant=True, **TEMPORARY))
        world.die("x")
        assert world.finish is not None
