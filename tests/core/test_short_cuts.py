"""What a machine leaves out when it need not be done changes nothing of what it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from otpy._core.backoff import Backoff
from otpy._core.protocol import (
    AddChild,
    Begin,
    DeleteChild,
    RestartChild,
    RetryNow,
    ShutdownAsked,
    TerminateChild,
)
from otpy._core.reason import Killed, Normal, Restart, Shutdown
from otpy._core.spec import ChildSpec, DynamicSpec, Intensity, Strategy, SupervisorSpec
from tests.core.world import BOOM, World, swift, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

IDS = "abcd"
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "restart": st.sampled_from(Restart),
        "backoff": st.none() | st.just(Backoff.sequence(0, 2)),
        "intensity": st.none() | st.just(Intensity(1, 5)),
    }
)
KEYS = st.sampled_from(IDS)
STEPS = st.one_of(
    st.tuples(
        st.just("die"),
        st.lists(KEYS, min_size=1, max_size=3, unique=True),
        st.sampled_from([BOOM, Normal(), Shutdown("x"), Killed()]),
    ),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 2.0, 6.0])),
    st.tuples(
        st.sampled_from([TerminateChild, RestartChild, DeleteChild, RetryNow, AddChild]), KEYS
    ),
    st.just(("stop",)),
)


class Prompt(World):
    """A world in which nothing happens between a start and the news that it went well."""

    def answer(self, key: str, how: str) -> None:
        """Let a start go well, and let that be the next thing that the machine hears."""
        super().answer(key, how)
        self.news.appendleft(self.news.pop())


def live(world: World, steps: list[Any], children: dict[str, ChildSpec]) -> dict[str, object]:
    """Let all `steps` happen, and return everything that can be seen of it."""
    world.send(Begin())
    if not world.children:  # a dynamic supervisor
        for spec in children.values():
            world.send(AddChild(spec.id, spec))
    for number, (what, *details) in enumerate(steps):
        if world.finish is not None:
            break
        if what == "die":
            keys, reason = details
            world.die(*(key for key in keys if key in world.live), reason=reason)
        elif what == "wait":
            world.advance(details[0])
        elif what == "stop":
            world.send(ShutdownAsked(Shutdown()))
        else:
            (key,) = details
            world.send(what(number, children[key] if what is AddChild else key))
    return {
        "trace": world.trace,
        "refused": {ref: reply.refusal for ref, reply in world.replies.items()},
        "table": {
            key: (child.status, child.incarnation, child.restarts, child.last_exit)
            for key, child in world.children.items()
        },
        "delays": world.delays,
        "counted": world.restarts_counted(),
        "ready": world.ready,
        "finish": world.finish,
    }


@st.composite
def histories(draw: st.DrawFn) -> tuple[Callable[[Any, Sized], World], list[Any], dict[str, Any]]:
    """Return how to make a world of children that run `start`; what happens; the children."""
    fields = {key: draw(FIELDS) for key in IDS}
    strategy = draw(st.none() | st.sampled_from(Strategy))
    limits: dict[str, Any] = {"intensity": draw(st.integers(0, 4)), "period": 5}

    def world(start: Any, audience: Sized) -> World:
        if strategy is None:
            return Prompt(DynamicSpec("top", **limits), audience=audience)
        children = [ChildSpec(key, start, **fields[key]) for key in IDS]
        spec = SupervisorSpec("top", children, strategy=strategy, **limits)
        return Prompt(spec, audience=audience)

    return world, draw(st.lists(STEPS, max_size=12)), fields


def seen(history: Any, start: Any, audience: Sized = ("me",)) -> tuple[dict[str, object], World]:
    """Let a history happen to children that run `start`."""
    make, steps, fields = history
    world = make(start, audience)
    children = {key: ChildSpec(key, start, **fields[key]) for key in IDS}
    return live(world, steps, children), world


@given(histories())
def test_being_ready_at_once_is_the_same_as_saying_so_at_once(history: Any) -> None:
    """No news of readiness is waited for, and everything else happens as if it had come."""
    told, late = seen(history, work)
    untold, swiftly = seen(history, swift)
    assert untold == told
    assert swiftly.facts() == late.facts()
    assert swiftly.contexts() == late.contexts()


@given(histories())
def test_without_an_audience_nothing_is_told_and_the_same_is_done(history: Any) -> None:
    """Facts are left out, effects are not."""
    heard, _ = seen(history, swift)
    unheard, silent = seen(history, swift, audience=())
    assert unheard == heard
    assert silent.tells == []
