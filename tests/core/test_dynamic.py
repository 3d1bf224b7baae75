"""The dynamic machine: children that come and go, each on its own."""

from __future__ import annotations

from typing import Any

import pytest

from otpy._core.backoff import Backoff
from otpy._core.protocol import (
    AddChild,
    Context,
    DeleteChild,
    Fact,
    Query,
    Refusal,
    RestartChild,
    RetryNow,
    TerminateChild,
)
from otpy._core.reason import Killed, Restart, Shutdown
from otpy._core.spec import BRUTAL_KILL, DynamicSpec, Intensity, Then
from tests.core.world import HELD, NOPE, World, child

TEMPORARY: dict[str, Any] = {"restart": Restart.TEMPORARY}


def pool(*ids: str, fields: dict[str, Any] | None = None, **more: Any) -> World:
    """Return a dynamic supervisor with some children; `fields` belong to the supervisor."""
    world = World(DynamicSpec("pool", **(fields or {})), **more).begin()
    for name in ids:
        world.add(name)
    world.forget()
    return world


class TestAdding:
    def test_it_begins_empty_and_ready(self) -> None:
        """Children are added one by one (DYN-03)."""
        world = pool()
        assert world.ready
        assert world.children == {}
        assert world.machine.settled

    def test_the_answer_comes_when_the_child_is_ready(self) -> None:
        """The reply comes no earlier, and names the child."""
        world = pool(starts={"x": "h"})
        world.send(AddChild("ref", child("x")))
        assert world.replies == {}
        assert not world.machine.settled
        world.settle("x", "s")
        assert world.replies["ref"].child is world.children["x"]

    def test_a_slow_start_delays_nobody(self) -> None:
        """This differs from OTP, where starts queue."""
        world = pool(starts={"x": "h"})
        world.send(AddChild("slow", child("x")), AddChild("fast", child("y")), Query("query"))
        assert set(world.replies) == {"fast", "query"}

    def test_equal_ids_get_keys_of_their_own(self) -> None:
        """The first keeps its id; each other gets a number that no other child has (DYN-03)."""
        world = pool("x", "x", "x")
        assert list(world.children) == ["x", "x#2", "x#3"]
        assert [c.spec.id for c in world.children.values()] == ["x", "x", "x"]
        world.die("x#2")
        assert world.children["x"].incarnation == 1
        assert world.children["x#2"].incarnation == 2

    def test_a_number_that_is_taken_is_skipped(self) -> None:
        """This holds even if another child's id merely looks like such a number."""
        world = pool("x#2", "x", "x")
        assert list(world.children) == ["x#2", "x", "x#3"]

    def test_a_failing_start_leaves_nothing_behind(self) -> None:
        """The start is refused with the reason; no error report, no count (DYN-08)."""
        world = pool(fields={"intensity": 0}, starts={"x": "f"})
        reply = world.add("x")
        assert (reply.refusal, reply.reason) == (Refusal.START_FAILED, NOPE)
        assert world.children == {}
        assert world.contexts() == []
        assert world.facts() == [("x", Fact.START_FAILED)]
        assert world.restarts_counted() == 0

    def test_declining_leaves_nothing_behind(self) -> None:
        """The reply names no child (DYN-08)."""
        world = pool(starts={"x": "i"})
        reply = world.add("x")
        assert (reply.child, reply.refusal) == (None, None)
        assert world.children == {}

    def test_an_end_before_readiness_is_a_start_that_failed(self) -> None:
        """A child that ends while it starts has not started."""
        world = pool(starts={"x": "h"})
        world.send(AddChild("ref", child("x")))
        world.die("x")
        assert world.replies["ref"].refusal is Refusal.START_FAILED


class TestMaxChildren:
    def test_it_holds_no_more_than_it_may(self) -> None:
        """A full supervisor accepts another child as soon as one is gone (DYN-07)."""
        world = pool("a", "b", fields={"max_children": 2})
        assert world.add("c").refusal is Refusal.MAX_CHILDREN
        world.ask(TerminateChild(1, "a"))
        assert world.add("c").refusal is None
        assert world.up == ["b", "c"]

    def test_none_at_all_is_a_limit_too(self) -> None:
        """A limit of 0 refuses every child."""
        assert pool(fields={"max_children": 0}).add("a").refusal is Refusal.MAX_CHILDREN

    @pytest.mark.parametrize("plan", ["sh", "sf"])
    def test_those_that_start_or_wait_count(self, plan: str) -> None:
        """A child that starts again counts, and so does one that waits to (DYN-07)."""
        world = pool(fields={"max_children": 1}, starts={"x": plan})
        world.add(child("x", backoff=Backoff.sequence(0, 60)))
        world.die("x")
        assert world.status("x") == ("starting" if plan == "sh" else "restarting")
        assert world.add("y").refusal is Refusal.MAX_CHILDREN

    def test_those_that_back_off_or_stop_count(self) -> None:
        """Such children still belong to the supervisor."""
        world = pool(fields={"max_children": 2}, ends={"y": HELD})
        world.add(child("x", backoff=Backoff.sequence(60)))
        world.add("y")
        world.die("x")
        world.send(TerminateChild(1, "y"))
        assert world.add("z").refusal is Refusal.MAX_CHILDREN
        world.gone("y")
        assert world.add("z").refusal is None

    @pytest.mark.parametrize("how", ["f", "i"])
    def test_a_start_that_did_not_happen_frees_its_place(self, how: str) -> None:
        """The start failed, or the child declined."""
        world = pool(fields={"max_children": 1}, starts={"x": how})
        world.add("x")
        assert world.add("y").refusal is None


class TestRestarting:
    def test_each_is_restarted_for_itself(self) -> None:
        """The child keeps its place and starts its next life; no sibling is touched (SUP-624)."""
        world = pool("a", "b", "c")
        world.die("b")
        assert world.trace == ["die b", "s b"]
        assert list(world.children) == ["a", "b", "c"]
        assert (world.children["b"].incarnation, world.children["b"].restarts) == (2, 1)

    def test_restarts_run_beside_each_other(self) -> None:
        """A slow restart does not delay any other."""
        world = pool("a", "b", starts={"a": "sh"})
        world.starts["a"].clear()
        world.starts["a"].append("h")
        world.die("a")
        world.die("b")
        assert world.trace == ["die a", "die b", "s b"]

    def test_declining_a_restart_removes_it(self) -> None:
        """The child is removed without an error (DYN-09)."""
        world = pool("x", starts={"x": "si"})
        world.die("x")
        assert world.children == {}
        assert world.contexts() == [("x", Context.CHILD_TERMINATED)]

    def test_a_restart_that_fails_is_tried_and_counted_again(self) -> None:
        """Each attempt counts once (DYN-10)."""
        world = pool("x", starts={"x": "sff"}, fields={"intensity": 3})
        world.die("x")
        assert world.trace == ["die x", "f x", "f x", "s x"]
        assert world.restarts_counted() == 3
        assert world.contexts()[1:] == [("x", Context.START_ERROR)] * 2

    def test_one_window_for_all(self) -> None:
        """After too many restarts the supervisor stops all others and ends `shutdown` (DYN-17)."""
        world = pool("a", "b", "c", fields={"intensity": 1})
        world.die("a")
        world.die("b")
        assert world.trace == ["die a", "s a", "die b", "q a", "z a", "q c", "z c"]
        assert world.contexts()[-1] == ("b", Context.SHUTDOWN)
        assert world.finish is not None
        assert world.finish.reason == Shutdown()
        assert world.finish.failure is not None
        assert world.finish.failure.child_id == "b"

    def test_a_retry_can_be_the_one_too_many(self) -> None:
        """The supervisor then ends as after a crash."""
        world = pool("x", "y", starts={"x": "sff"}, fields={"intensity": 1})
        world.die("x")
        assert world.trace == ["die x", "f x", "q y", "z y"]
        assert world.finish is not None

    @pytest.mark.parametrize(("then", "ends"), [(Then.GIVE_UP, False), (Then.ESCALATE, True)])
    @pytest.mark.parametrize("plan", ["ss", "sf"])
    def test_a_window_of_its_own(self, then: Then, ends: bool, plan: str) -> None:
        """Only the child goes, or the supervisor too; the siblings' restarts are not used up."""
        world = pool("y", starts={"x": plan}, fields={"intensity": 0})
        world.add(child("x", intensity=Intensity(1, 60, then)))
        world.die("x")
        if plan == "ss":
            assert world.up == ["y", "x"]
            world.die("x")
        assert "x" not in world.children
        assert (world.finish is not None) is ends
        fact = Fact.GAVE_UP if ends else Fact.CHILD_GAVE_UP
        assert ("x", fact) in world.facts()

    def test_a_delay_blocks_nobody(self) -> None:
        """The restart counts when it is decided, and takes place when it is due."""
        world = pool("y", fields={"intensity": 2})
        world.add(child("x", backoff=Backoff.sequence(5)))
        world.forget()
        world.die("x")
        world.die("y")
        assert world.status("x") == "backing off"
        assert world.machine.settled
        world.advance(5)
        assert world.trace == ["die x", "die y", "s y", "s x"]
        assert world.restarts_counted() == 2


class TestByHand:
    def test_a_stop_is_answered_when_the_child_is_gone(self) -> None:
        """The supervisor keeps nothing of the child, not even its id (DYN-13)."""
        world = pool("x", ends={"x": HELD})
        world.send(TerminateChild(1, "x"), TerminateChild(2, "x"))
        assert 1 not in world.replies
        world.gone("x")
        assert [world.replies[ref].refusal for ref in (1, 2)] == [None, None]
        assert world.children == {}
        assert world.ask(TerminateChild(3, "x")).refusal is Refusal.NOT_FOUND

    def test_an_end_of_its_own_answers_the_stop_too(self) -> None:
        """The real reason is reported, and the child is not restarted (SUP-713)."""
        world = pool("x", ends={"x": HELD})
        world.send(TerminateChild(1, "x"))
        world.die("x")
        assert world.replies[1].refusal is None
        assert world.trace == ["q x", "die x"]
        assert world.contexts() == [("x", Context.SHUTDOWN_ERROR)]

    def test_a_stop_lets_a_start_finish(self) -> None:
        """AIO-10: the start is hurried once, both callers get a reply, and the child is stopped."""
        world = pool(starts={"x": "h"}, ends={"x": HELD})
        world.send(AddChild("add", child("x")), TerminateChild(1, "x"), TerminateChild(2, "x"))
        assert world.hurried == ["x"]
        assert world.replies == {}
        world.settle("x", "s")
        assert world.trace == ["s x", "q x"]
        assert world.replies["add"].child is world.children["x"]
        assert set(world.replies) == {"add"}
        world.gone("x")
        assert [world.replies[ref].refusal for ref in (1, 2)] == [None, None]
        assert world.children == {}
        assert world.facts() == [("x", Fact.STARTED), ("x", Fact.STOPPED)]

    @pytest.mark.parametrize("how", ["f", "i", "end"])
    def test_a_stop_during_a_start_that_does_not_happen(self, how: str) -> None:
        """The start failed, was declined, or ended because it took too long: the child is gone."""
        world = pool(starts={"x": "h"})
        world.send(AddChild("add", child("x")), TerminateChild("stop", "x"))
        world.gone("x", Killed()) if how == "end" else world.settle("x", how)
        assert world.replies["stop"].refusal is None
        assert world.replies["add"].refusal is (None if how == "i" else Refusal.START_FAILED)
        assert world.children == {}
        assert world.contexts() == []  # the caller that asked for the start is told

    @pytest.mark.parametrize("how", ["s", "f", "i"])
    def test_a_stop_during_a_restart_lets_it_finish(self, how: str) -> None:
        """The child is then stopped, or gone: a failed restart is not tried again."""
        world = pool("x", starts={"x": "sh"})
        world.die("x")
        world.forget()
        world.send(TerminateChild("stop", "x"))
        assert world.hurried == ["x"]
        world.settle("x", how)
        assert world.trace == (["s x", "q x", "z x"] if how == "s" else [f"{how} x"])
        assert world.replies["stop"].refusal is None
        assert (world.children, world.timers) == ({}, {})

    @pytest.mark.parametrize("status", ["backing off", "restarting"])
    def test_a_stop_ends_the_wait_for_a_restart(self, status: str) -> None:
        """The child is gone at once, and so is its timer."""
        world = pool(starts={"x": "sf"})
        delays = (60,) if status == "backing off" else (0, 60)
        world.add(child("x", backoff=Backoff.sequence(*delays)))
        world.die("x")
        assert world.status("x") == status
        assert world.ask(TerminateChild(1, "x")).refusal is None
        assert world.children == {}
        assert world.timers == {}

    @pytest.mark.parametrize(("status", "counted"), [("backing off", 1), ("restarting", 2)])
    def test_retry_now_ends_the_wait_with_a_restart(self, status: str, counted: int) -> None:
        """A failed restart counts again, a delayed one does not."""
        world = pool(starts={"x": "sf" if status == "restarting" else ""})
        delays = (60,) if status == "backing off" else (0, 60)
        world.add(child("x", backoff=Backoff.sequence(*delays)))
        world.die("x")
        assert world.ask(RetryNow(1, "x")).child is world.children["x"]
        assert world.up == ["x"]
        assert world.timers == {}
        assert world.restarts_counted() == counted

    def test_retry_now_of_who_does_not_wait_does_nothing(self) -> None:
        """The reply names no child; an unknown id is refused."""
        world = pool("x")
        assert world.ask(RetryNow(1, "x")).child is None
        assert world.ask(RetryNow(2, "y")).refusal is Refusal.NOT_FOUND
        assert world.trace == []

    @pytest.mark.parametrize("request_", [RestartChild, DeleteChild])
    def test_there_is_nothing_to_restart_or_delete(self, request_: Any) -> None:
        """A child that has ended is forgotten (DYN-16)."""
        world = pool("x")
        assert world.ask(request_(1, "x")).refusal is Refusal.NOT_FOUND
        assert world.up == ["x"]

    def test_a_brutal_kill_is_one(self) -> None:
        """This holds for a stop by hand too."""
        world = pool()
        world.add(child("x", shutdown=BRUTAL_KILL))
        world.ask(TerminateChild(1, "x"))
        assert world.trace == ["s x", "k x", "z x"]
