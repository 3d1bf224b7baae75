"""What a machine leaves out when it need not be done changes nothing of what it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy._core.backoff import Backoff
from otpy._core.child import Status
from otpy._core.dynamic import DynamicMachine
from otpy._core.protocol import (
    AddChild,
    Begin,
    ChildExited,
    DeleteChild,
    KillAsked,
    RestartChild,
    RetryNow,
    ShutdownAsked,
    Stop,
    TerminateChild,
)
from otpy._core.reason import Killed, Normal, Restart, Shutdown
from otpy._core.spec import (
    BRUTAL_KILL,
    INFINITY,
    ChildSpec,
    DynamicSpec,
    Intensity,
    Strategy,
    SupervisorSpec,
)
from tests.core.world import BOOM, HELD, World, swift, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

    from otpy._core.protocol import Effect, Event

IDS = "abcd"
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "restart": st.sampled_from(Restart),
        "backoff": st.none() | st.just(Backoff.sequence(0, 2, reset_after=1)),
        "intensity": st.none() | st.sampled_from([Intensity(1, 5), Intensity(INFINITY, 5)]),
        "shutdown": st.sampled_from([5.0, BRUTAL_KILL, INFINITY]),
    }
)
KEYS = st.sampled_from(IDS)
STEPS = st.one_of(
    st.tuples(
        st.just("die"),
        st.lists(KEYS, min_size=1, max_size=3, unique=True),
        st.sampled_from([BOOM, Normal(), Shutdown("x"), Killed()]),
    ),
    st.tuples(st.just("die"), st.just("a"), st.just(BOOM)),  # again and again
    st.tuples(st.just("wait"), st.sampled_from([1.0, 2.0, 6.0])),
    st.tuples(
        st.sampled_from([TerminateChild, RestartChild, DeleteChild, RetryNow, AddChild]), KEYS
    ),
    st.just(("stop",)),
    st.just(("kill",)),
    st.tuples(st.just("gone"), KEYS),
)


class Prompt(World):
    """A world in which nothing happens between a start and the news that it went well."""

    def answer(self, key: str, how: str) -> None:
        """Let a start go well, and let that be the next thing that the machine hears."""
        super().answer(key, how)
        self.news.appendleft(self.news.pop())


class Hasty(World):
    """A world that asks for the short answer to every end first, as the runtime does.

    Attributes:
        hits: To how many ends there was one.
    """

    hits = 0

    def take(self, event: Event) -> Sequence[Effect]:
        """Hand one event to the machine, by the short way if there is one."""
        effects = self._after(event) if isinstance(event, ChildExited) else None
        if effects is None:
            return super().take(event)
        self.hits += 1
        for effect in effects:
            self.perform(effect)
        return effects

    def _after(self, event: ChildExited) -> list[Effect] | None:
        machine, child = self.machine, self.children.get(event.key)
        if child is None:
            return None
        if isinstance(machine, DynamicMachine):
            if machine.forgets(child, event.incarnation, event.reason):
                return []
        elif child.status is Status.STOPPING:
            following = machine.follows(child, event.reason)
            return None if following is None else [Stop(following, kill=False)]
        if machine.replaces(child, event.incarnation, event.reason, self.now):
            return [child]
        if isinstance(machine, DynamicMachine):
            return None
        finish = machine.gives_up(child, event.incarnation, event.reason, self.now)
        return None if finish is None else [finish]


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
        elif what == "gone":
            if details[0] in world.asked:
                world.gone(details[0])
        elif what == "kill":
            world.send(KillAsked())
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
def histories(draw: st.DrawFn) -> tuple[Callable[..., World], list[Any], dict[str, Any]]:
    """Return how to make a world of children that run `start`; what happens; the children."""
    fields = {key: draw(FIELDS) for key in IDS}
    strategy = draw(st.none() | st.sampled_from(Strategy))
    limits: dict[str, Any] = {
        "intensity": draw(st.integers(0, 4) | st.sampled_from([9, INFINITY])),
        "period": 5,
    }
    many = draw(st.integers(1, len(IDS)))
    most: Any = draw(st.sampled_from([INFINITY, 4, 6]))
    ends: dict[str, Any] = draw(st.dictionaries(KEYS, st.sampled_from([BOOM, Normal(), HELD])))

    def world(kind: type[World], start: Any, audience: Sized) -> World:
        if strategy is None:
            spec = DynamicSpec("top", **limits, max_children=most)
            return kind(spec, audience=audience, ends=ends, now=5.0)
        children = [ChildSpec(key, start, **fields[key]) for key in IDS[:many]]
        static = SupervisorSpec("top", children, strategy=strategy, **limits)
        return kind(static, audience=audience, ends=ends, now=5.0)

    return world, draw(st.lists(STEPS, max_size=12)), fields


def seen(
    history: Any, start: Any, audience: Sized = ("me",), kind: type[World] = Prompt
) -> tuple[dict[str, object], World]:
    """Let a history happen to children that run `start`."""
    make, steps, fields = history
    world = make(kind, start, audience)
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


@settings(max_examples=1000)
@given(histories())
def test_a_short_answer_is_the_long_one(history: Any) -> None:
    """Who is started and stopped, in which order, and what the machine remembers, is the same."""
    slowly, _ = seen(history, swift, (), World)
    quickly, _ = seen(history, swift, (), Hasty)
    assert quickly == slowly


def test_what_comes_most_often_has_a_short_answer() -> None:
    """A crash within the limits and beyond, a child that is forgotten, an ordered stop."""
    children = [ChildSpec(key, swift) for key in IDS]
    world = Hasty(SupervisorSpec("top", children, intensity=2), audience=())
    world.begin().die("a", "b")
    assert (world.hits, world.trace) == (2, ["die a", "die b", "s a", "s b"])
    world.stop()
    assert (world.hits, world.trace[4:]) == (
        2 + len(IDS) - 1,
        ["q d", "z d", "q c", "z c", "q b", "z b", "q a", "z a"],
    )
    alone = Hasty(SupervisorSpec("top", children[:1], intensity=1), audience=())
    alone.begin().die("a")
    alone.die("a")
    assert (alone.hits, alone.trace) == (2, ["die a", "s a", "die a"])
    assert alone.finish is not None
    assert alone.finish.failure is not None
    pool = Hasty(DynamicSpec("pool"), audience=())
    pool.begin().add(ChildSpec("a", swift, restart=Restart.TEMPORARY))
    pool.add(ChildSpec("b", swift))
    pool.die("a", "b")
    assert (pool.hits, pool.trace) == (2, ["s a", "s b", "die a", "die b", "s b"])


def test_a_supervisor_whose_other_children_live_gives_up_the_long_way() -> None:
    """They are stopped first."""
    children = [ChildSpec(key, swift) for key in "ab"]
    world = Hasty(SupervisorSpec("top", children, intensity=0), audience=())
    world.begin().die("a")
    assert (world.hits, world.trace) == (0, ["die a", "q b", "z b"])
    assert world.finish is not None


def test_with_an_audience_a_restart_has_a_short_answer_and_nothing_else() -> None:
    """What is told of a restart is always the same; who performs it tells it."""
    world = Hasty(SupervisorSpec("top", [ChildSpec("a", swift)], intensity=1))
    world.begin().die("a")
    assert (world.hits, world.tells) == (1, [])
    world.die("a")
    assert world.hits == 1
    assert len(world.tells) == 3  # its end, that of the supervisor, and why
    pool = Hasty(DynamicSpec("pool"))
    pool.begin().add(ChildSpec("a", swift, restart=Restart.TEMPORARY))
    pool.die("a")
    assert pool.hits == 0


def test_while_something_is_in_progress_no_answer_is_short() -> None:
    """A crash waits until a stop by hand is over."""
    children = [ChildSpec(key, swift) for key in "ab"]
    world = Hasty(SupervisorSpec("top", children), audience=(), ends={"a": HELD})
    world.begin().send(TerminateChild(1, "a"))
    world.die("b")
    assert (world.hits, world.trace) == (0, ["q a", "die b"])
    world.gone("a")
    assert (world.hits, world.trace[2:]) == (0, ["z a", "s b"])
