"""Random histories: the promises of `Witness` hold, whatever happens, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Do
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from otpy._core.backoff import Backoff
from otpy._core.phase import Phase
from otpy._core.protocol import (
    AddChild,
    Begin,
    DeleteChild,
    HasteAsked,
    KillAsked,
    Query,
    RestartChild,
    RetryNow,
    ShutdownAsked,
    TerminateChild,
)
from otpy._core.reason import Abandoned, Killed, Normal, Restart, Shutdown
from otpy._core.spec import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    DynamicSpec,
    Intensity,
    Strategy,
    SupervisorSpec,
    Then,
)
from tests.core.witness import Witness
from tests.core.world import BOOM, swift, work
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

Child: TypeAlias = ChildSpec | SupervisorSpec

IDS = st.sampled_from("abcdef")
REASONS = st.sampled_from(
    [Normal(), Shutdown(), Shutdown("x"), Killed(), BOOM, Abandoned(("x.py:1",))]
)
BACKOFFS = st.none() | st.sampled_from(
    [
        Backoff.none(),
        Backoff.sequence(0, 2),
        Backoff.exponential(1, max=8, jitter=0.5, reset_after=3),
    ]
)
INTENSITIES = st.none() | st.builds(
    Intensity, st.integers(0, 2), st.integers(1, 10), st.sampled_from(Then)
)
WORKERS = st.builds(
    ChildSpec,
    IDS,
    st.sampled_from([work, swift]),
    restart=st.sampled_from(Restart),
    shutdown=st.sampled_from([5.0, 0.0, INFINITY, BRUTAL_KILL]),
    backoff=BACKOFFS,
    intensity=INTENSITIES,
)
CHILDREN = WORKERS | st.builds(SupervisorSpec, IDS, restart=st.sampled_from(Restart))
LIMITS: dict[str, Any] = {
    "intensity": st.sampled_from([10, 3, 1, 0, INFINITY]),
    "period": st.integers(1, 10),
}


@st.composite
def trees(draw: st.DrawFn) -> SupervisorSpec:
    """Return a supervisor of one to five children."""
    auto = draw(st.sampled_from(AutoShutdown))
    children = draw(st.lists(CHILDREN, min_size=1, max_size=5, unique_by=lambda c: c.id))
    return SupervisorSpec(
        "top",
        [draw(significance(child, auto)) for child in children],
        strategy=draw(st.sampled_from(Strategy)),
        auto_shutdown=auto,
        **{name: draw(values) for name, values in LIMITS.items()},
    )


@st.composite
def significance(draw: st.DrawFn, child: Child, auto: AutoShutdown) -> Child:
    """Return the child, significant if it may be."""
    if auto is AutoShutdown.NEVER or child.restart is Restart.PERMANENT:
        return child
    return child.replace(significant=draw(st.booleans()))


class Histories(RuleBasedStateMachine):
    """Everything that can happen to a supervisor, in any order."""

    world: Witness

    def _pick(self, data: st.DataObject, keys: Iterable[str]) -> str:
        return data.draw(st.sampled_from(sorted(keys)))

    # --- children and time -----------------------------------------------------------------------

    @precondition(lambda self: self.world.unready)
    @rule(data=st.data(), how=st.sampled_from("sssssffi"))
    def a_start_is_over(self, data: st.DataObject, how: str) -> None:
        """A start succeeds, fails, or is declined."""
        self.world.answer(self._pick(data, self.world.unready), how)

    @precondition(lambda self: self.world.asked)
    @rule(data=st.data(), reason=st.none() | REASONS)
    def a_stop_is_over(self, data: st.DataObject, reason: Any) -> None:
        """A child that was told to end has ended, or was abandoned."""
        self.world.end(self._pick(data, self.world.asked), reason)

    @rule()
    def all_goes_well(self) -> None:
        """Every start succeeds, every stop is over, every event has reached the machine."""
        self.world.smooth()

    @precondition(lambda self: self.world.live and not self.world.news)
    @rule(data=st.data(), starts=st.text("sssffi", min_size=1, max_size=4))
    def a_child_crashes_at_rest(self, data: st.DataObject, starts: str) -> None:
        """A child crashes, and the next starts, of any child, go as planned."""
        world = self.world
        world.end(self._pick(data, world.live), BOOM, word="die")
        for how in starts:
            while world.news:
                world.deliver()
            for key in sorted(world.asked):
                world.end(key)
            for key in sorted(world.unready):
                world.answer(key, how)

    @precondition(lambda self: len(self.world.live) > 1)
    @rule(data=st.data(), reasons=st.lists(REASONS, min_size=2, max_size=3))
    def children_end_at_once(self, data: st.DataObject, reasons: list[Any]) -> None:
        """Several children end before the machine learns of the first."""
        for reason in reasons[: len(self.world.live)]:
            self.world.end(self._pick(data, self.world.live), reason, word="die")

    @precondition(lambda self: self.world.live)
    @rule(data=st.data(), reason=REASONS)
    def a_child_ends(self, data: st.DataObject, reason: Any) -> None:
        """A child ends by itself, ready or not."""
        self.world.end(self._pick(data, self.world.live), reason, word="die")

    @precondition(lambda self: self.world.news)
    @rule(most=st.integers(1, 5))
    def news_arrive(self, most: int) -> None:
        """The machine gets the oldest events."""
        for _ in range(min(most, len(self.world.news))):
            self.world.deliver()

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5, 20.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes without anything becoming due."""
        due = [due for due, _ in self.world.timers.values()]
        self.world.now = max(self.world.now, min([self.world.now + seconds, *due]))

    @precondition(lambda self: self.world.timers)
    @rule(data=st.data())
    def a_restart_is_due(self, data: st.DataObject) -> None:
        """The timer of a waiting child is due."""
        self.world.due(self._pick(data, self.world.timers))

    @precondition(lambda self: self.world.history)
    @rule(data=st.data())
    def old_news_arrive_again(self, data: st.DataObject) -> None:
        """An old event arrives once more."""
        history = self.world.history
        self.world.replay(*history[data.draw(st.integers(0, len(history) - 1))])

    # --- requests --------------------------------------------------------------------------------

    @rule(id=IDS, kind=st.sampled_from([TerminateChild, RestartChild, DeleteChild, RetryNow]))
    def somebody_asks_for_a_child(self, id: str, kind: type[TerminateChild]) -> None:
        """A request about some child, known or unknown, in any state."""
        self.world.request(kind(object(), id))

    @rule()
    def somebody_asks(self) -> None:
        """A request about no particular child."""
        self.world.request(Query(object()))

    @rule(spec=CHILDREN)
    def somebody_adds_a_child(self, spec: ChildSpec) -> None:
        """A request to add a child, perhaps with a known id."""
        self.world.request(AddChild(object(), spec))

    # --- the end ---------------------------------------------------------------------------------

    @rule(chance=st.integers(0, 19), reason=st.sampled_from([Normal(), Shutdown()]))
    def it_is_stopped(self, chance: int, reason: Any) -> None:
        """The user stops the supervisor, at any moment."""
        if chance == 0:
            self.world.take(ShutdownAsked(reason))

    @rule(chance=st.integers(0, 29), grace=st.sampled_from([0, 1, 2]))
    def it_is_killed(self, chance: int, grace: float) -> None:
        """The user kills the supervisor, at any moment, with or without grace."""
        if chance == 0:
            self.world.take(KillAsked(grace))

    @rule(chance=st.integers(0, 29))
    def time_runs_short(self, chance: int) -> None:
        """The supervisor above was killed while this one stops, or after it has ended."""
        if chance == 0 and self.world.machine.phase in (Phase.STOPPING, Phase.ENDED):
            self.world.take(HasteAsked())

    @precondition(lambda self: self.world.later and self.world.finish is None)
    @rule()
    def the_grace_is_half_over_or_over(self) -> None:
        """The machine gets an event that it asked to be told later."""
        self.world.take(self.world.later.pop(0)[1])

    @invariant()
    def what_must_hold_at_rest_holds(self) -> None:
        """Check everything that can be checked now."""
        self.world.check_quiet()

    def teardown(self) -> None:
        """Stop the supervisor: once every child has ended, it has ended too."""
        if not hasattr(self, "world") or self.world.broken:
            return  # the error is already being raised
        world = self.world
        world.take(ShutdownAsked(Shutdown()))
        world.smooth()
        assert world.finish is not None, "it did not end"
        assert world.machine.phase is Phase.ENDED
        assert set(world.replies) == set(world.requests)
        assert world.owed == set(world.told) & world.owed


class StaticHistories(Histories):
    """Histories of a static supervisor."""

    @initialize(spec=trees(), smoothly=st.sampled_from([True, True, True, False]))
    def begin(self, spec: SupervisorSpec, smoothly: bool) -> None:
        """Start the supervisor, completely or in part."""
        self.world = Witness(spec)
        self.world.take(Begin())
        if smoothly:
            self.world.smooth()


class DynamicHistories(Histories):
    """Histories of a dynamic supervisor."""

    @initialize(
        spec=st.builds(
            DynamicSpec,
            st.just("top"),
            max_children=st.just(INFINITY) | st.integers(0, 4),
            **LIMITS,
        ),
        children=st.lists(CHILDREN, max_size=4),
    )
    def begin(self, spec: DynamicSpec, children: list[Child]) -> None:
        """Start the supervisor, with some children."""
        self.world = Witness(spec)
        self.world.take(Begin())
        for child in children:
            self.world.request(AddChild(object(), child))


SOME = settings(
    max_examples=examples(80),
    stateful_step_count=40,
    derandomize=True,
    database=None,
    phases=[Do.generate, Do.shrink],
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.mark.hypothesis
def test_whatever_happens_to_a_static_supervisor_its_promises_hold() -> None:
    """This is checked with random trees and histories, after every step."""
    run_state_machine_as_test(StaticHistories, settings=SOME)


@pytest.mark.hypothesis
def test_whatever_happens_to_a_dynamic_supervisor_its_promises_hold() -> None:
    """This is checked with random children that come and go, after every step."""
    run_state_machine_as_test(DynamicHistories, settings=SOME)
