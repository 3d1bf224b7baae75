"""The grace of a killed supervisor: which children are asked, hastened and killed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from otpy._core.backoff import Backoff
from otpy._core.protocol import (
    AddChild,
    Context,
    HasteAsked,
    KillAsked,
    KillChild,
    Query,
    Refusal,
    StopChild,
    TerminateChild,
)
from otpy._core.reason import Crashed, Killed, Normal, Shutdown
from otpy._core.spec import BRUTAL_KILL, DynamicSpec, Strategy, SupervisorSpec
from otpy._runtime.wreck import Wreck
from tests.core.world import HELD, World, child, tree

GRACE = 1.0
SUP = SupervisorSpec("sup")


def static(*children: Any, **more: Any) -> World:
    """Return a static supervisor over `children`, each of which ends when the test says so."""
    spec = tree(*children)
    return World(spec, ends=dict.fromkeys([c.id for c in spec.children], HELD), **more).begin()


def dynamic(*children: Any, **more: Any) -> World:
    """Return a dynamic supervisor over the same children."""
    specs = [child(c) if isinstance(c, str) else c for c in children]
    world = World(DynamicSpec("top"), ends=dict.fromkeys([c.id for c in specs], HELD), **more)
    world.begin()
    for spec in specs:
        world.add(spec)
    world.forget()
    return world


BOTH = pytest.mark.parametrize("made", [static, dynamic])


@BOTH
def test_all_are_asked_at_once_with_killed(made: Any) -> None:
    """SUP-719: as by links, so a brutal limit has no effect; the last end is the supervisor's."""
    world = made("a", child("b", shutdown=BRUTAL_KILL), SUP)
    world.kill(GRACE)
    asked = ["q a", "q b", "q sup"]
    assert world.trace == (asked if made is dynamic else asked[::-1])
    assert world.reasons == dict.fromkeys(["a", "b", "sup"], Killed())
    for key in ("b", "sup", "a"):
        assert world.finish is None
        world.gone(key)
    assert world.finish is not None
    assert world.finish.reason == Killed()


@BOTH
def test_supervisors_below_hear_when_half_of_the_time_is_over(made: Any) -> None:
    """When the time is over, every child that is left is killed."""
    world = made("a", SUP, "b")
    world.kill(GRACE)
    world.gone("b")
    world.forget()
    world.elapse()
    assert (world.trace, world.now) == (["h sup"], GRACE / 2)
    world.elapse()
    assert (sorted(world.trace[1:]), world.now) == (["k a", "k sup"], GRACE)
    world.gone("a")
    world.gone("sup")
    assert world.finish is not None


@BOTH
def test_no_grace_asks_nobody(made: Any) -> None:
    """The children are killed instead."""
    world = made("a", "b")
    world.kill(0)
    assert sorted(world.trace) == ["k a", "k b"]
    assert world.later == []


@BOTH
def test_a_start_in_progress_is_hurried_and_then_asked(made: Any) -> None:
    """The caller gets the child; a failed start is not waited for."""
    for how in "sfi":
        world = made("a", starts={"x": "h"})
        world.ends["x"] = HELD
        world.send(AddChild("add", child("x")))
        started = world.children["x"]
        world.kill(GRACE)
        assert (world.hurried, world.trace) == (["x"], ["q a"])
        world.settle("x", how)
        assert world.replies["add"].child is (None if how == "i" else started)
        if how == "s":
            assert world.reasons["x"] == Killed()
            world.gone("x")
        world.gone("a")
        assert world.finish is not None


@BOTH
def test_a_start_that_outlasts_the_grace_is_killed(made: Any) -> None:
    """The caller of the start is told."""
    world = made("a", starts={"x": "h"})
    world.ends["x"] = HELD
    world.send(AddChild("add", child("x")))
    world.kill(GRACE)
    world.elapse()
    world.elapse()
    assert sorted(world.trace) == ["k a", "k x", "q a"]
    world.gone("x", Killed())
    assert world.replies["add"].refusal is Refusal.START_FAILED
    world.gone("a")
    assert world.finish is not None


@BOTH
def test_requests_are_refused_and_restarts_are_dropped(made: Any) -> None:
    """As in an orderly stop, a stop by hand in progress gets its reply."""
    world = made("a", child("x", backoff=Backoff.sequence(60)))
    world.die("x")
    world.send(TerminateChild("t", "a"))
    world.kill(GRACE)
    assert world.ask(Query("q")).refusal is Refusal.NOT_RUNNING
    assert world.timers == {}
    world.gone("a")
    assert world.replies["t"].refusal is None
    assert world.finish is not None


@BOTH
def test_a_shorter_grace_holds_and_a_longer_one_does_not(made: Any) -> None:
    """No child is asked twice; a kill without grace kills every child."""
    world = made("a")
    world.kill(10)
    world.kill(20)
    assert [delay for delay, _ in world.later] == [5, 10]
    world.kill(4)
    assert [delay for delay, _ in world.later] == [5, 10, 2, 4]
    assert world.trace == ["q a"]
    world.kill(0)
    world.kill(0)
    world.kill(1)
    assert world.trace == ["q a", "k a"]
    world.gone("a")
    assert world.finish is not None


@BOTH
def test_a_kill_with_grace_overtakes_a_stop(made: Any) -> None:
    """A child is asked only once, and the supervisor ends `killed`."""
    world = made("a", "b", "c")
    world.stop(Normal())
    asked = list(world.trace)
    world.kill(GRACE)
    assert sorted(world.trace) == ["q a", "q b", "q c"]
    assert world.trace[: len(asked)] == asked
    for key in "cba":
        world.gone(key)
    assert world.finish is not None
    assert world.finish.reason == Killed()


@BOTH
def test_haste_is_handed_down_by_those_that_are_being_stopped(made: Any) -> None:
    """Living supervisors get it; the reason of the stop in progress stays."""
    world = made("a", SUP)
    world.stop(Shutdown("x"))
    world.send(HasteAsked(), HasteAsked())
    assert sorted(world.trace) == ["h sup", "h sup", "q a", "q sup"]
    world.gone("sup")
    world.forget()
    world.send(HasteAsked())
    assert world.trace == []
    world.gone("a")
    assert world.finish is not None
    assert world.finish.reason == Shutdown("x")
    world.send(HasteAsked())
    world.send(KillAsked(GRACE))


def test_haste_gives_up_the_order() -> None:
    """Every child is asked at once; children with a brutal limit are killed, as in order."""
    world = static("a", child("b", shutdown=BRUTAL_KILL), SUP, "c", "d")
    world.stop()
    assert world.trace == ["q d"]
    world.die("a")
    world.send(HasteAsked())
    assert world.trace == ["q d", "die a", "q c", "q sup", "k b", "h sup"]
    assert world.reasons == {}
    for key in ("c", "b", "sup", "d"):
        assert world.finish is None
        world.gone(key)
    assert world.finish is not None


@pytest.mark.parametrize("how", ["s", "f", "i"])
def test_haste_waits_for_a_start_that_is_hurried(how: str) -> None:
    """The start is hurried once; the child is asked when ready, and gone if it never is."""
    world = static("a", "b", starts={"b": "sh"})
    world.die("b")
    world.stop()
    world.send(HasteAsked())
    assert (world.hurried, world.trace) == (["b"], ["die b", "q a"])
    world.gone("a")
    world.settle("b", how)
    if how == "s":
        assert world.trace[-1] == "q b"
        world.gone("b")
    assert world.finish is not None


def test_a_kill_in_the_middle_of_a_restart_starts_nobody() -> None:
    """The supervisor waits for a child that is being stopped, and asks no child twice."""
    spec = tree("a", "b", "c", strategy=Strategy.ONE_FOR_ALL)
    world = World(spec, ends=dict.fromkeys("abc", HELD)).begin()
    world.die("a")
    world.die("b")
    world.kill(GRACE)
    assert world.trace == ["die a", "q c", "die b"]
    world.gone("c", Crashed(RuntimeError()))
    assert world.finish is not None
    assert world.finish.failure is None


@BOTH
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_restart_that_fails_is_an_error_of_who_made_it_fail(made: Any, by_itself: bool) -> None:
    """A failure of its own is a start error, as in OTP; one by the stop is a shutdown error."""
    world = made("b", starts={"b": "sh"})
    world.die("b")
    world.stop()
    world.forget()
    world.settle("b", "f") if by_itself else world.gone("b", Killed())
    context = Context.START_ERROR if by_itself else Context.SHUTDOWN_ERROR
    assert world.contexts() == [("b", context)]


def test_a_wreck_lets_whole_supervisors_ask() -> None:
    """A broken machine stops its children with grace, and kills them without."""
    world = static("a", SUP)
    for record in world.children.values():
        record.process = SimpleNamespace(alive=True)
    wreck = Wreck(world.machine, RuntimeError())
    assert {type(effect) for effect in wreck.handle(KillAsked(GRACE), 0)} == {StopChild}
    assert {type(effect) for effect in wreck.handle(KillAsked(), 0)} == {KillChild}
    assert wreck.handle(HasteAsked(), 0) == []
