"""`simulate`: a tree, or a whole async program, in virtual time and by a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

from attrs import field, frozen

from otpy import OtpyError, SupervisorFailed
from otpy._core.checks import check_optional, is_number, refuse
from otpy._core.spec import DynamicSpec, SupervisorSpec
from otpy._runtime.root import WAITS_FOR_NOTHING
from otpy.testing.clock import in_a_loop
from otpy.testing.fault_plan import FaultPlan
from otpy.testing.schedule import NoProgress
from otpy.testing.shrinking import shrunk
from otpy.testing.simulated_loop import SeededClock
from otpy.testing.simulated_tree import Story, Until, live
from otpy.testing.trace import lines_of
from otpy.testing.virtual_loop import Deadlock

if TYPE_CHECKING:
    from otpy.reports import Report
    from otpy.testing.schedule import Entry

_TAIL = 20  # lines of the trace that a failure shows


@final
@frozen(kw_only=True)
class Simulation:
    """What happened in one run.

    Attributes:
        seed: What its choices were made from.
        faults: The plan it was subject to.
        time: Virtual seconds it took, the stop included.
        reports: What the tree reported, in order; nothing for a program, whose trees have hooks of
            their own.
        failure: Why the tree gave up, or did not start; None if neither.
        record: What `trace` is written from.
    """

    seed: int
    faults: FaultPlan
    time: float
    reports: tuple[Report, ...] = field(repr=False)
    failure: SupervisorFailed | None
    record: tuple[Entry, ...] = field(repr=False)

    @property
    def trace(self) -> tuple[str, ...]:
        """The steps of tasks and the reports, in order, one line each with its time.

        The same for the same seed and plan in every process; and on every Python version that we
        support, as far as the code that ran takes the same steps there.
        """
        return lines_of(self.record)


Check: TypeAlias = Callable[[Simulation], object]
"""What must hold of a run, beside what every tree promises; it raises if it does not."""


@final
class SimulationFailed(OtpyError):
    """A simulation went wrong; the first line of the message is the call that shows it again.

    What went wrong is its `__cause__`.

    Attributes:
        line: That line; `tree` stands for what was simulated.
        simulation: What happened, up to the failure.
    """

    def __init__(self, simulation: Simulation, line: str, cause: BaseException) -> None:
        """Name the `cause`; the caller chains it."""
        self.simulation = simulation
        self.line = line
        steps = simulation.trace
        first = max(0, len(steps) - _TAIL)
        shown = "\n".join(f"  {step}" for step in steps[first:])
        text = f"{type(cause).__name__}: {cause}".replace("\n", "\n  ")
        super().__init__(
            f"{line}\n{text}\nlast {len(steps) - first} of {len(steps)} steps:\n{shown}"
        )


def simulate(
    tree: SupervisorSpec | DynamicSpec | Callable[[], Coroutine[Any, Any, object]],
    *,
    seed: int,
    faults: FaultPlan | None = None,
    until: Until | None = None,
    check: Check | None = None,
) -> Simulation:
    """Run a tree or a program in virtual time, its tasks in an order drawn from `seed`.

    The same seed gives the same run, and so the same trace, in every process; what must hold for
    that, and which orders can occur, is told in `docs/explanation/simulation.md`. Blocks until it
    is over, and needs a thread without a running loop.

    A tree is started, lives until `until`, and is stopped. Then must hold, beside `check`: no task
    is left, unless a child was abandoned; each life of a child has begun once and ended once in the
    reports; the stop took no longer than all the deadlines of what ran, together; no exception
    came to nobody but the loop. A program need only return.

    If a run with faults fails, it is run again with ever fewer and simpler ones, 200 times at most,
    and the smallest plan that fails in the same way is what is reported.

    Args:
        tree: A supervisor's spec. Or, as a program, a coroutine function without arguments, such as
            a test that starts its own trees. It may run many times, and must find the same world
            each time.
        seed: Any whole number.
        faults: The faults to inject; none by default.
        until: For a tree only. How long it lives: a number of virtual seconds, 60 by default; or a
            function of its root. One that is awaitable is awaited, and may drive the tree and make
            demands. One that returns a bool is called whenever nothing can run without time
            passing, until it is true. A tree that ends by itself ends the run too.
        check: Called with what happened, when all is over; it fails the run by raising. The default
            demands that the tree started and never gave up.

    Returns:
        What happened.

    Raises:
        SimulationFailed: What was run raised, gave up, broke a promise or did not pass `check`,
            or made no progress: a million callbacks at one moment, or a day after it should have
            been over.
        InvalidSpec: An argument can never work.
        RuntimeError: A loop runs already in this thread.
    """
    __tracebackhide__ = True
    if in_a_loop():
        raise RuntimeError("simulate() needs a thread without a running loop")
    if not isinstance(seed, int):
        refuse("simulate", "seed", seed, "a whole number")
    check_optional("simulate", "faults", faults, FaultPlan)
    if check is not None and not callable(check):
        refuse("simulate", "check", check, "a function of the Simulation, or None")
    plan = FaultPlan() if faults is None else faults
    run = _prepared(tree, until, check)
    simulation, error = run(seed, plan)
    if error is None:
        return simulation

    def fails(smaller: FaultPlan) -> bool:
        return type(run(seed, smaller)[1]) is type(error)

    smallest = shrunk(plan, fails)
    if smallest != plan:
        simulation, again = run(seed, smallest)
        error = again or error
    raise SimulationFailed(simulation, _line(simulation, until, check), error) from error


def explore(
    tree: SupervisorSpec | DynamicSpec | Callable[[], Coroutine[Any, Any, object]],
    *,
    seeds: Iterable[int] = range(1000),
    faults: Callable[[random.Random], FaultPlan] | None = None,
    until: Until | None = None,
    check: Check | None = None,
) -> SimulationFailed | None:
    """Simulate with one seed after the other until one fails.

    ```python
    failure = explore(tree, faults=lambda rng: FaultPlan.random(rng, paths, faults=3, within=10))
    if failure is not None:
        raise failure
    ```

    Args:
        tree: What to run, as of `simulate`.
        seeds: Which seeds.
        faults: Draws the plan for a seed, from a generator that was made from it.
        until: As of `simulate`.
        check: As of `simulate`.

    Returns:
        The first failure, its plan shrunk; None if there was none.

    Raises:
        InvalidSpec: An argument can never work.
        RuntimeError: A loop runs already in this thread.
    """
    if faults is not None and not callable(faults):
        wanted = "a function of a random.Random that returns a FaultPlan, or None"
        refuse("explore", "faults", faults, wanted)
    for seed in seeds:
        plan = None if faults is None else faults(random.Random(seed))
        try:
            simulate(tree, seed=seed, faults=plan, until=until, check=check)
        except SimulationFailed as failure:
            return failure
    return None


def _survived(simulation: Simulation) -> None:
    if simulation.failure is not None:
        raise simulation.failure


_Run: TypeAlias = Callable[[int, FaultPlan], tuple[Simulation, BaseException | None]]


def _prepared(tree: object, until: Until | None, check: Check | None) -> _Run:
    """Return what runs `tree` once, by a seed and a plan."""
    if isinstance(tree, SupervisorSpec | DynamicSpec):
        limit = 60.0 if until is None else until
        if not callable(limit) and not (is_number(limit) and limit >= 0):
            refuse("simulate", "until", until, "seconds of at least 0, or a function of the root")
        return partial(_run, partial(live, tree, limit), check)
    if not callable(tree):
        refuse("simulate", "tree", tree, "a supervisor's spec or a coroutine function")
    if until is not None:
        refuse("simulate", "until", until, "None: a program says itself when it is over")
    return partial(_run, lambda _: _started(tree), check)


def _started(program: Callable[[], object]) -> Coroutine[Any, Any, object]:
    made = program()
    if not asyncio.iscoroutine(made):
        refuse("simulate", "tree()", made, "a coroutine; a spec is given as it is, and not called")
    return made


def _run(
    program: Callable[[Story], Coroutine[Any, Any, object]],
    check: Check | None,
    seed: int,
    plan: FaultPlan,
) -> tuple[Simulation, BaseException | None]:
    """Run `program` once; return what happened, and what went wrong if anything did."""
    clock = SeededClock(seed)
    story = Story()
    error: BaseException | None = None

    async def main() -> None:
        try:
            WAITS_FOR_NOTHING.set(True)
            with plan.active():
                await program(story)
        finally:  # what comes now is the end of the loop, and no part of what was simulated
            story.end = (clock.now, tuple(clock.schedule.record))

    try:
        clock.run(main())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # noqa: BLE001 - a test framework's failure is not an Exception
        # Of a program that got stuck, its loop also says that it could not be closed.
        stuck = isinstance(raised.__context__, NoProgress | Deadlock)
        error = raised.__context__ if stuck else raised
    time, record = story.end
    simulation = Simulation(
        seed=seed,
        faults=plan,
        time=time,
        reports=tuple(story.reports),
        failure=story.failure,
        record=record,
    )
    if error is None:
        try:
            (check or _survived)(simulation)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - as above
            error = raised
    return simulation, error


def _line(simulation: Simulation, until: Until | None, check: Check | None) -> str:
    shown = [f"seed={simulation.seed}"]
    if simulation.faults.faults:
        shown.append(f"faults=FaultPlan([{', '.join(map(repr, simulation.faults.faults))}])")
    if until is not None:
        shown.append(f"until={_name(until)}")
    if check is not None:
        shown.append(f"check={_name(check)}")
    return f"simulate(tree, {', '.join(shown)})"


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)
