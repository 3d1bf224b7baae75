"""Replacing the spec of a running supervisor (SUP-122)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy._core.backoff import Backoff
from otpy._core.protocol import (
    AddChild,
    DeleteChild,
    Event,
    Fact,
    Reconfigure,
    Refusal,
    RestartChild,
    ShutdownAsked,
    TerminateChild,
)
from otpy._core.reason import Normal, Restart, Shutdown
from otpy._core.spec import (
    AutoShutdown,
    ChildSpec,
    DynamicSpec,
    Intensity,
    Strategy,
    SupervisorSpec,
)
from otpy._core.window import RestartWindow
from tests.core.world import HELD, World, child, tree
from tests.examples import examples

TRANSIENT = {"restart": Restart.TRANSIENT}


def change(world: World, *children: ChildSpec | str, **fields: object) -> None:
    """Give the machine another spec."""
    spec = tree(*children, **fields)
    assert world.ask(Reconfigure(object(), spec)).refusal is None
    assert world.machine.spec is spec


class TestTheTable:
    def test_the_order_is_that_of_the_new_list_then_the_vanished(self) -> None:
        """SUP-122: nothing is started, nothing is stopped."""
        world = World(tree("a", "b", "c", "d")).begin()
        change(world, "c", "new", "a")
        assert list(world.children) == ["c", "new", "a", "b", "d"]
        assert world.up == ["c", "a", "b", "d"]
        assert world.status("new") == "undefined"
        assert world.trace == []

    def test_a_known_child_keeps_its_life(self) -> None:
        """SUP-122: incarnation and restarts stay; the spec is the new one."""
        world = World(tree("a", "b")).begin()
        world.die("a")
        spec = child("a", **TRANSIENT)
        change(world, spec, "b")
        a = world.children["a"]
        assert (a.incarnation, a.restarts, a.spec) == (2, 1, spec)
        world.die("a", reason=Normal())
        assert world.status("a") == "undefined"

    def test_the_new_order_is_the_one_it_stops_in(self) -> None:
        """SUP-122: the supervisor stops in reverse, children that vanished from the list first."""
        world = World(tree("a", "b", "c")).begin()
        change(world, "b", "a")
        world.stop()
        assert ", ".join(world.trace) == "q c, z c, q a, z a, q b, z b"

    def test_a_new_child_is_started_by_hand_or_with_its_group(self) -> None:
        """SUP-122, SUP-607: like any child that is down; a vanished one can be deleted."""
        world = World(tree("a", "b")).begin()
        change(world, "a", "n", strategy=Strategy.ONE_FOR_ALL)
        assert world.ask(RestartChild(object(), "n")).child is world.children["n"]
        world.ask(TerminateChild(object(), "n"))
        world.die("a")
        assert world.up == ["a", "n", "b"]
        world.ask(TerminateChild(object(), "b"))
        assert world.ask(DeleteChild(object(), "b")).refusal is None

    def test_a_child_that_waits_for_its_restart_goes_on_waiting(self) -> None:
        """SUP-122: its new spec applies to the restart."""
        world = World(tree(child("a", backoff=Backoff.sequence(9)))).begin()
        world.die("a")
        spec = child("a")
        change(world, spec)
        assert world.status("a") == "backing off"
        world.advance(9)
        assert world.up == ["a"]
        assert world.children["a"].spec is spec

    def test_what_was_significant_ends_nothing_under_a_spec_without(self) -> None:
        """SUP-122: a vanished child keeps its spec, and `NEVER` means never."""
        lost = child("a", significant=True, **TRANSIENT)
        world = World(tree(lost, "b", auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)).begin()
        change(world, "b")
        world.die("a", reason=Normal())
        assert world.up == ["b"]
        assert world.finish is None


class TestTheFlags:
    def test_the_strategy_is_replaced(self) -> None:
        """SUP-122: the new strategy handles the next failure, in the new order."""
        world = World(tree("a", "b", "c")).begin()
        change(world, "c", "b", "a", strategy=Strategy.REST_FOR_ONE)
        world.die("b")
        assert ", ".join(world.trace) == "die b, q a, z a, s b, s a"

    def test_restarts_of_the_past_count_against_the_new_limit(self) -> None:
        """SUP-122, SUP-503: a lower limit is reached at once, a higher one later."""
        for intensity, ends in ((1, True), (4, False)):
            world = World(tree("a", intensity=3, period=5)).begin()
            world.die("a")
            world.die("a")
            change(world, "a", intensity=intensity, period=5)
            world.die("a")
            assert (world.finish is not None) is ends
            if ends:
                assert world.facts(Fact.GAVE_UP)

    def test_a_longer_window_counts_what_the_shorter_one_still_held(self) -> None:
        """SUP-122: restarts that had left the old window are forgotten, as in OTP."""
        window = RestartWindow(3, 5)
        window.change(2, 100)
        assert [window.add(0), window.add(10), window.add(12)] == [True, True, False]
        window = RestartWindow(3, 5)
        assert [window.add(0), window.add(10), window.add(12)] == [True, True, True]
        window.change(3, 100)
        assert len(window) == 2
        assert [window.add(20), window.add(30)] == [True, False]

    def test_a_child_with_another_window_of_its_own_counts_anew(self) -> None:
        """SUP-122: a child with the same window goes on counting."""
        mine = Intensity(1, 60)
        for after, ends in ((mine, True), (Intensity(1, 50), False)):
            world = World(tree(child("a", intensity=mine))).begin()
            world.die("a")
            change(world, child("a", intensity=after))
            world.die("a")
            assert (world.finish is not None) is ends


class TestItsTurn:
    def test_it_waits_behind_what_is_in_progress(self) -> None:
        """SUP-612: a restart in progress follows the old spec to its end."""
        world = World(tree("a", "b", strategy=Strategy.ONE_FOR_ALL), ends={"b": HELD}).begin()
        world.die("a")
        world.send(Reconfigure("ref", tree("b", "a")))
        assert "ref" not in world.replies
        world.end("b")
        world.drain()
        assert world.up == ["b", "a"]
        assert ", ".join(world.trace) == "die a, q b, z b, s a, s b"
        assert world.replies["ref"].refusal is None

    def test_one_that_ends_takes_no_new_spec(self) -> None:
        """SUP-122: the change is refused, whether it came before the stop or after."""
        world = World(tree("a", "b"), ends={"b": HELD}).begin()
        world.send(TerminateChild("t", "b"), Reconfigure("early", tree("a")))
        world.stop()
        world.send(Reconfigure("late", tree("a")))
        assert {world.replies[ref].refusal for ref in ("early", "late")} == {Refusal.NOT_RUNNING}

    def test_a_dynamic_supervisor_has_no_list_to_change(self) -> None:
        """The machine refuses the request, which no code sends."""
        world = World(DynamicSpec("top")).begin()
        assert world.ask(Reconfigure("ref", tree("a"))).refusal is Refusal.NOT_FOUND


IDS = st.sampled_from("abcd")
LISTS = st.lists(IDS, unique=True, max_size=4)


def over(ids: list[str], strategy: Strategy) -> SupervisorSpec:
    """Return a supervisor with a high limit over children with these ids."""
    return tree(*ids, strategy=strategy, intensity=50)


def adding(name: str) -> AddChild:
    """Return the request to add a child with that id."""
    return AddChild(object(), child(name))


SPECS = st.builds(over, LISTS, st.sampled_from(Strategy))
REQUESTS = st.one_of(
    st.builds(Reconfigure, st.builds(object), SPECS),
    st.builds(adding, IDS),
    st.builds(TerminateChild, st.builds(object), IDS),
    st.builds(RestartChild, st.builds(object), IDS),
    st.builds(DeleteChild, st.builds(object), IDS),
)


@settings(max_examples=examples(150), derandomize=True, database=None)
@given(first=SPECS, steps=st.lists(REQUESTS | IDS, max_size=12))
def test_whatever_it_is_changed_to_it_keeps_what_runs_and_ends_in_order(
    first: SupervisorSpec, steps: list[Event | str]
) -> None:
    """SUP-122: after any history the table is the list and then the rest, and all of it stops."""
    world = World(first).begin()
    for step in steps:
        if isinstance(step, str):
            if step in world.live:
                world.die(step)
            continue
        before = list(world.children)
        lives = dict(world.live)
        world.send(step)
        if isinstance(step, Reconfigure):
            listed = [spec.id for spec in step.spec.children]
            assert list(world.children) == listed + [k for k in before if k not in listed]
            assert world.live == lives
    order = world.up
    world.forget()
    world.send(ShutdownAsked(Shutdown()))
    assert [line[2:] for line in world.trace if line[0] == "q"] == order[::-1]
    assert world.finish is not None
