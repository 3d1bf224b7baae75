"""The short way to add a child to a dynamic supervisor leads where the long one does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy._core.backoff import Backoff
from otpy._core.dynamic import DynamicMachine
from otpy._core.protocol import AddChild, KillAsked, Reply, RetryNow, ShutdownAsked, TerminateChild
from otpy._core.reason import Killed, Normal, Restart, Shutdown
from otpy._core.spec import INFINITY, ChildSpec, DynamicSpec, Intensity, SupervisorSpec
from tests.core.world import BOOM, World, swift, work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy._core.child import Child
    from otpy._core.protocol import Effect, Event
    from otpy._core.spec import AnySpec

NAMES = ("a", "b", "a#2", "a#3")
SPECS: st.SearchStrategy[AnySpec] = st.one_of(
    st.builds(
        ChildSpec,
        st.sampled_from(NAMES[:3]),
        st.sampled_from([swift, swift, work]),
        restart=st.sampled_from(Restart),
        backoff=st.none() | st.just(Backoff.sequence(0, 2, reset_after=3)),
        intensity=st.none() | st.just(Intensity(1, 5)),
    ),
    st.just(SupervisorSpec("b")),
)
STEPS = st.one_of(
    st.tuples(st.just("add"), SPECS),
    st.tuples(st.just("add"), SPECS),  # most of the time
    st.tuples(
        st.just("die"),
        st.sampled_from(NAMES),
        st.sampled_from([BOOM, Normal(), Shutdown("x"), Killed()]),
    ),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 2.0, 6.0])),
    st.tuples(st.sampled_from([TerminateChild, RetryNow]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from([ShutdownAsked(Shutdown()), KillAsked()])),
)


class Hasty(World):
    """A world that asks for the short way to add a child first, as the runtime does.

    Attributes:
        hits: How many children were added by it.
    """

    hits = 0

    def take(self, event: Event) -> Sequence[Effect]:
        """Hand one event to the machine, by the short way if there is one."""
        if isinstance(event, AddChild) and isinstance(self.machine, DynamicMachine):
            child = self.machine.adds(event.spec, self.now)
            if child is not None:
                self.hits += 1
                effects: list[Effect] = [child, Reply(event.ref, child)]
                for effect in effects:
                    self.perform(effect)
                return effects
        return super().take(event)


def paced(child: Child) -> object:
    """Return what a backoff goes by."""
    pace = child.pace
    return pace and (pace.attempt, pace.due, pace.started_at)


def live(world: World, steps: list[Any]) -> dict[str, object]:
    """Let all `steps` happen, and return everything that can be seen of it."""
    world.begin()
    for number, (what, *details) in enumerate(steps):
        if world.finish is not None:
            break
        if what == "add":
            world.send(AddChild(number, *details))
        elif what == "die":
            name, reason = details
            world.die(*({name} & set(world.live)), reason=reason)
        elif what == "wait":
            world.advance(*details)
        else:
            world.send(what(number, *details) if details else what)
    replies = world.replies.items()
    return {
        "trace": world.trace,
        "replies": {r: (one.refusal, one.child and one.child.key) for r, one in replies},
        "table": {
            key: (child.status, child.incarnation, child.restarts, child.last_exit, paced(child))
            for key, child in world.children.items()
        },
        "delays": world.delays,
        "counted": world.restarts_counted(),
        "finish": world.finish,
    }


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=15), st.just(INFINITY) | st.integers(0, 3))
def test_a_child_added_by_the_short_way_lives_as_any_other(steps: list[Any], limit: Any) -> None:
    """Names, replies, restarts, delays and the end are the same."""
    spec = DynamicSpec("pool", intensity=4, max_children=limit)
    assert live(Hasty(spec, audience=()), steps) == live(World(spec, audience=()), steps)


def test_only_what_is_ready_at_once_and_heard_by_nobody_takes_the_short_way() -> None:
    """And only while the supervisor runs and has room."""
    pool = Hasty(DynamicSpec("pool", max_children=2), audience=())
    pool.begin().add(ChildSpec("a", swift))
    pool.add(ChildSpec("a", work))
    assert (pool.hits, pool.trace) == (1, ["s a", "s a#2"])
    assert pool.add(ChildSpec("a", swift)).refusal is not None
    pool.stop()
    assert pool.add(ChildSpec("a", swift)).refusal is not None
    heard = Hasty(DynamicSpec("pool")).begin()
    heard.add(ChildSpec("a", swift))
    assert (pool.hits, heard.tells != []) == (1, True)
