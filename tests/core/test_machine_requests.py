"""The static machine's requests: every cell of the section-8 table, and their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from otpy._core.backoff import Backoff
from otpy._core.protocol import (
    AddChild,
    DeleteChild,
    Query,
    Refusal,
    Request,
    RestartChild,
    RetryNow,
    TerminateChild,
)
from otpy._core.reason import Normal, Restart
from otpy._core.spec import Strategy
from tests.core.world import BOOM, HELD, NOPE, World, child, tree

TEMPORARY = {"restart": Restart.TEMPORARY}
TRANSIENT = {"restart": Restart.TRANSIENT}


def scene(state: str) -> World:
    """Return a world in which child `x` is in the given state; `a` runs beside it."""
    delayed = child("x", backoff=Backoff.sequence(60))
    if state == "unknown":
        return World(tree("a")).begin()
    if state == "running":
        return World(tree("a", "x")).begin()
    if state == "undefined":
        world = World(tree("a", "x")).begin()
        world.ask(TerminateChild("before", "x"))
    elif state == "restarting":
        spec = child("x", backoff=Backoff.sequence(0, 60))
        world = World(tree("a", spec), starts={"x": "sf"}).begin()
        world.die("x")
    else:
        world = World(tree("a", delayed)).begin()
        world.die("x")
    assert world.status("x") == state
    world.forget()
    return world


def add_x(ref: object, key: str) -> AddChild:
    """Return the request to add a child of that id."""
    return AddChild(ref, child(key))


OK, FOUND = None, Refusal.NOT_FOUND
ALREADY, PRESENT = Refusal.ALREADY_STARTED, Refusal.ALREADY_PRESENT
RUNNING, RESTARTING = Refusal.RUNNING, Refusal.RESTARTING
STATES = ["unknown", "running", "undefined", "restarting", "backing off"]
TABLE: list[tuple[Callable[[object, str], Request], list[Refusal | None], list[str]]] = [
    # the request, then its reply and what happens in each state
    (add_x, [OK, ALREADY, PRESENT, PRESENT, PRESENT], ["s x", "", "", "", ""]),
    (TerminateChild, [FOUND, OK, OK, OK, OK], ["", "q x, z x", "", "", ""]),
    (RestartChild, [FOUND, RUNNING, OK, RESTARTING, RESTARTING], ["", "", "s x", "", ""]),
    (DeleteChild, [FOUND, RUNNING, OK, RESTARTING, RESTARTING], ["", "", "", "", ""]),
    (RetryNow, [FOUND, OK, OK, OK, OK], ["", "", "", "s x", "s x"]),
]


@pytest.mark.parametrize(
    ("make", "state", "refusal", "trace"),
    [
        pytest.param(make, state, refusal, trace, id=f"{make.__name__} {state}")
        for make, refusals, traces in TABLE
        for state, refusal, trace in zip(STATES, refusals, traces, strict=True)
    ],
)
def test_every_request_in_every_state(
    make: Callable[[object, str], Request], state: str, refusal: Refusal | None, trace: str
) -> None:
    """The table of section 8, with `retry_now` and `backing off` added; siblings are left alone."""
    world = scene(state)
    counted = world.restarts_counted()
    reply = world.ask(make("ref", "x"))
    assert reply.refusal is refusal
    assert ", ".join(world.trace) == trace
    assert world.status("a") == "running"
    assert world.children["a"].incarnation == 1
    retried = make is RetryNow and state == "restarting"
    assert world.restarts_counted() == counted + retried
    if refusal not in (None, Refusal.NOT_FOUND):
        assert reply.child is world.children["x"]
    if make is TerminateChild and state != "unknown":
        assert world.status("x") == "undefined"
        assert world.timers == {}
    if make is DeleteChild:
        assert ("x" in world.children) is (refusal in (RUNNING, RESTARTING))


class TestAdding:
    def test_a_new_child_comes_last(self) -> None:
        """The child is appended to the start order, and the reply names it (SUP-611, SUP-802)."""
        world = World(tree("a")).begin()
        assert world.add("x").child is world.children["x"]
        assert list(world.children) == ["a", "x"]

    def test_one_that_does_not_start_is_not_kept(self) -> None:
        """No error report, no count, and the id is free (SUP-803)."""
        world = World(tree("a", intensity=0), starts={"x": "f"}).begin()
        reply = world.add("x")
        assert (reply.refusal, reply.reason) == (Refusal.START_FAILED, NOPE)
        assert list(world.children) == ["a"]
        assert world.contexts() == []
        assert world.restarts_counted() == 0
        assert world.add("x").refusal is None

    @pytest.mark.parametrize(("fields", "stays"), [({}, True), (TEMPORARY, False)])
    def test_one_that_declines_is_kept_unless_it_is_temporary(
        self, fields: dict[str, Restart], stays: bool
    ) -> None:
        """The reply names no child; the id is kept, or free again (SUP-311, SUP-312)."""
        world = World(tree("a"), starts={"x": "i"}).begin()
        reply = world.add(child("x", **fields))
        assert (reply.child, reply.refusal) == (None, None)
        assert ("x" in world.children) is stays
        wanted = Refusal.ALREADY_PRESENT if stays else None
        assert world.add("x").refusal is wanted

    def test_a_child_that_is_dead_but_not_mourned_counts_as_running(self) -> None:
        """The recorded status decides, because the end waits behind the request."""
        world = World(tree("a", "x"), starts={"new": "h"}).begin()
        world.send(AddChild("busy", child("new")), RestartChild("first", "x"))
        world.die("x")
        world.settle("new", "s")
        assert world.replies["first"].refusal is Refusal.RUNNING
        assert world.trace == ["die x", "s new", "s x"]


class TestStopping:
    def test_a_stop_is_answered_when_the_child_is_gone(self) -> None:
        """The reply comes no earlier, and the child stays down (SUP-808, SUP-809)."""
        world = World(tree("a", "x"), ends={"x": HELD}).begin()
        world.send(TerminateChild("ref", "x"))
        assert "ref" not in world.replies
        world.gone("x")
        assert world.replies["ref"].refusal is None
        assert world.status("x") == "undefined"
        assert world.restarts_counted() == 0

    @pytest.mark.parametrize(("fields", "again"), [({}, None), (TEMPORARY, FOUND)])
    def test_a_temporary_child_is_forgotten_when_stopped(
        self, fields: dict[str, Restart], again: Refusal | None
    ) -> None:
        """Any other child is kept, and stopping it again does nothing (SUP-806)."""
        world = World(tree("a", child("x", **fields))).begin()
        assert world.ask(TerminateChild(1, "x")).refusal is None
        assert world.ask(TerminateChild(2, "x")).refusal is again

    def test_an_end_behind_the_stop_is_consumed_by_it(self) -> None:
        """There is no restart, and one shutdown_error with the real reason (SUP-713, AIO-16)."""
        world = World(tree("a", "x"), starts={"new": "h"}).begin()
        world.send(AddChild("busy", child("new")), TerminateChild("stop", "x"))
        world.die("x", reason=BOOM)
        world.forget()
        world.settle("new", "s")
        assert world.trace == ["s new"]
        assert [key for key, _ in world.contexts()] == ["x"]
        assert world.tells[-1].reason == BOOM
        assert world.status("x") == "undefined"

    def test_an_end_before_the_stop_is_dealt_with_first(self) -> None:
        """The child is restarted, then stopped (SUP-713)."""
        world = World(tree("a", "x"), starts={"new": "h"}).begin()
        world.send(AddChild("busy", child("new")))
        world.die("x")
        world.send(TerminateChild("stop", "x"))
        world.settle("new", "s")
        assert world.trace == ["die x", "s new", "s x", "q x", "z x"]

    def test_a_temporary_child_that_ended_first_is_unknown_to_the_stop(self) -> None:
        """Its end is handled first, and then no child has that id (SUP-714)."""
        world = World(tree("a", child("x", **TEMPORARY)), starts={"new": "h"}).begin()
        world.send(AddChild("busy", child("new")))
        world.die("x")
        world.send(TerminateChild("stop", "x"))
        world.settle("new", "s")
        assert world.replies["stop"].refusal is Refusal.NOT_FOUND

    @pytest.mark.parametrize("strategy", Strategy)
    def test_requests_never_touch_the_group(self, strategy: Strategy) -> None:
        """This holds for stopping, starting, deleting and adding (SUP-610)."""
        world = World(tree("a", "x", "z", strategy=strategy)).begin()
        for request in (TerminateChild, RestartChild, TerminateChild, DeleteChild):
            assert world.ask(request(object(), "x")).refusal is None
        world.add("x")
        assert world.trace == ["q x", "z x", "s x", "q x", "z x", "s x"]
        assert list(world.children) == ["a", "z", "x"]


class TestStartingByHand:
    def test_its_place_is_kept(self) -> None:
        """A child that is stopped and started again keeps its place (SUP-611)."""
        world = scene("undefined")
        world.ask(RestartChild("ref", "x"))
        assert list(world.children) == ["a", "x"]
        assert world.children["x"].incarnation == 2
        assert world.children["x"].restarts == 0

    def test_a_failure_changes_nothing(self) -> None:
        """The child stays down: no report, no count, no retry (SUP-805)."""
        world = World(tree("a", "x", intensity=0), starts={"x": "sf"}).begin()
        world.ask(TerminateChild(1, "x"))
        world.forget()
        reply = world.ask(RestartChild(2, "x"))
        assert (reply.refusal, reply.reason) == (Refusal.START_FAILED, NOPE)
        assert world.status("x") == "undefined"
        assert world.contexts() == []
        assert world.restarts_counted() == 0
        assert world.machine.settled

    def test_declining_is_no_failure(self) -> None:
        """The reply names no child (SUP-312)."""
        world = World(tree("a", "x"), starts={"x": "ii"}).begin()
        reply = world.ask(RestartChild("ref", "x"))
        assert (reply.child, reply.refusal) == (None, None)
        assert world.status("x") == "undefined"

    def test_a_finished_child_can_be_brought_back(self) -> None:
        """This holds for a transient child that ended in good order (SUP-402)."""
        world = World(tree("a", child("x", **TRANSIENT))).begin()
        world.die("x", reason=Normal())
        assert world.ask(RestartChild("ref", "x")).child is world.children["x"]
        assert world.up == ["a", "x"]


class TestOrder:
    def test_one_request_at_a_time_in_order_of_arrival(self) -> None:
        """The second request waits for the first, a query for both."""
        world = World(tree("a", "x"), ends={"x": HELD}).begin()
        world.send(TerminateChild(1, "x"), RestartChild(2, "x"), Query(3))
        assert world.replies == {}
        world.gone("x")
        assert list(world.replies) == [1, 2, 3]
        assert [r.refusal for r in world.replies.values()] == [None, None, None]

    def test_requests_wait_behind_a_restart(self) -> None:
        """They see its result (SUP-302)."""
        world = World(tree("a", "x", strategy=Strategy.ONE_FOR_ALL), starts={"x": "sh"}).begin()
        world.die("a")
        world.send(Query(1), RestartChild(2, "x"))
        assert world.replies == {}
        world.settle("x", "s")
        assert [r.refusal for r in world.replies.values()] == [None, Refusal.RUNNING]

    def test_requests_wait_for_the_first_start(self) -> None:
        """They are served when all children have started."""
        world = World(tree("a", "x"), starts={"x": "h"}).begin()
        world.send(TerminateChild(1, "a"))
        assert world.replies == {}
        world.settle("x", "s")
        assert world.trace == ["s x", "q a", "z a"]

    def test_requests_wait_for_the_beginning(self) -> None:
        """This holds even for requests that come before it."""
        world = World(tree("a"))
        world.send(TerminateChild(1, "a"))
        assert world.replies == {}
        world.begin()
        assert world.replies[1].refusal is None
        assert world.up == []

    def test_a_first_start_that_fails_refuses_those_that_wait(self) -> None:
        """No request waits for ever."""
        world = World(tree("a", "x"), starts={"x": "h"}).begin()
        world.send(Query(1))
        world.settle("x", "f")
        assert world.replies[1].refusal is Refusal.NOT_RUNNING

    def test_retry_now_says_whether_there_was_anything_to_hurry(self) -> None:
        """The reply names the child if it was waiting."""
        assert scene("running").ask(RetryNow("ref", "x")).child is None
        waiting = scene("backing off")
        assert waiting.ask(RetryNow("ref", "x")).child is waiting.children["x"]
        assert waiting.timers == {}
        assert waiting.status("x") == "running"
