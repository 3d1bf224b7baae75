"""Plans as values: validated, printed, compared, drawn."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

import otpy
from otpy import Exit, InvalidSpec, Normal, Shutdown
from otpy.testing import Fault, FaultPlan, faults
from otpy.testing.path_pattern import matches
from otpy.testing.planned_error import fresh

NAMES = {**vars(otpy), "FaultPlan": FaultPlan, "faults": faults}

counts = st.integers(1, 9)
times = st.none() | counts
seconds = st.floats(0, 1e6)
above_0 = st.floats(0, 1e6, exclude_min=True)
ids = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1)
paths = st.lists(ids, min_size=1, max_size=4).map("/".join)
plain_errors = st.one_of(
    st.builds(ValueError, st.text()),
    st.builds(OSError, st.integers(1, 30), st.text()),
    st.builds(KeyError, st.tuples(st.integers(), st.text())),
    st.builds(SystemExit, st.integers()),
    st.builds(Exit, st.just(Normal()) | st.builds(Shutdown, st.text())),
)
errors = plain_errors | st.builds(
    BaseExceptionGroup, st.text(), st.lists(plain_errors, min_size=1, max_size=3)
)
moments = {"nth": counts, "after": st.none() | seconds, "times": times}
any_fault = st.one_of(
    st.builds(faults.crash, paths, errors, **moments),
    st.builds(faults.crash, paths, errors, at=st.just("message"), **moments),
    st.builds(
        faults.crash,
        paths,
        errors,
        at=st.sampled_from(["start", "cleanup"]),
        nth=counts,
        times=times,
    ),
    st.builds(faults.hang, paths, at=st.sampled_from(["start", "stop"]), nth=counts, times=times),
    st.builds(faults.slow_ready, paths, above_0, nth=counts, times=times),
    st.builds(faults.ignore_cancellation, paths, nth=counts, times=times),
    st.builds(faults.return_early, paths, **moments),
    st.builds(faults.cancel, paths, **moments),
    st.builds(faults.kill_process, paths, after=seconds, times=times),
    st.builds(faults.clock_jump, above_0 | above_0.map(float.__neg__), after=seconds),
)
plans = st.lists(any_fault, max_size=5).map(FaultPlan)


def replayed(plan: FaultPlan) -> object:
    return eval(repr(plan), dict(NAMES))  # noqa: S307 - this is the promise


@given(plans)
def test_a_printed_plan_evaluates_to_an_equal_one(plan: FaultPlan) -> None:
    """A plan prints Python text that creates it again."""
    assert replayed(plan) == plan
    assert str(plan) == repr(plan)
    assert hash(replayed(plan)) == hash(plan)


@given(st.randoms(use_true_random=False), st.integers(0, 30), above_0)
def test_a_drawn_plan_evaluates_to_an_equal_one(
    rng: random.Random, count: int, within: float
) -> None:
    """Plans that were drawn are printed and replayed like any other."""
    plan = FaultPlan.random(rng, ["app/a", "app/b"], faults=count, within=within)
    assert len(plan.faults) == count
    assert replayed(plan) == plan


def test_one_seed_draws_one_plan() -> None:
    """The same state of the generator gives the same plan, another state another."""

    def drawn(seed: int) -> FaultPlan:
        return FaultPlan.random(random.Random(seed), ["app/a", "app/b"], faults=9, within=60)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert {fault.path for fault in drawn(1).faults} == {"app/a", "app/b"}


def test_defaults_are_not_printed() -> None:
    """A plan prints only what its author would write."""
    plan = FaultPlan(
        (
            faults.crash("app/db", ValueError("x"), at="start", nth=2),
            faults.hang("app/*", times=None),
            faults.clock_jump(-3600, after=1.5),
        )
    )
    assert repr(plan) == (
        "FaultPlan([\n"
        "    faults.crash('app/db', ValueError('x'), at='start', nth=2),\n"
        "    faults.hang('app/*', times=None),\n"
        "    faults.clock_jump(-3600, after=1.5),\n"
        "])"
    )
    assert repr(FaultPlan()) == "FaultPlan([])"


def test_faults_are_equal_if_they_say_the_same() -> None:
    """Exceptions are compared by type and arguments, everything else by value."""
    fault = faults.crash("app/db", ValueError("x"))
    assert fault == faults.crash("app/db", ValueError("x"))
    assert fault != faults.crash("app/db", ValueError("y"))
    assert fault != faults.crash("app/db", TypeError("x"))
    assert fault != faults.crash("app/db", ValueError("x"), times=2)


CRASH: Callable[..., Fault] = faults.crash


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: faults.hang(""), "faults.hang '': path is '', wanted ids joined by"),
        (lambda: faults.hang("app//db"), "path is 'app//db'"),
        (lambda: CRASH(7, ValueError()), "faults.crash 7: path is 7"),
        (lambda: CRASH("a", ValueError), "error is <class 'ValueError'>, wanted an exception, not"),
        (lambda: CRASH("a", GeneratorExit()), "error is GeneratorExit()"),
        (lambda: CRASH("a", ValueError(), at="stop"), "at is 'stop', wanted 'start' or 'await' or"),
        (lambda: CRASH("a", ValueError(), nth=0), "nth is 0, wanted a whole number of at least 1"),
        (lambda: CRASH("a", ValueError(), nth=True), "nth is True"),
        (lambda: CRASH("a", ValueError(), times=0), "times is 0"),
        (lambda: CRASH("a", ValueError(), after=-1), "after is -1, wanted seconds of at least 0"),
        (lambda: CRASH("a", ValueError(), after=float("inf")), "after is inf"),
        (lambda: CRASH("a", ValueError(), at="start", after=1), "after is 1, wanted None with at="),
        (lambda: faults.slow_ready("a", 0), "seconds is 0, wanted seconds above 0"),
        (lambda: faults.clock_jump(0), "faults.clock_jump: seconds is 0, wanted"),
        (lambda: faults.clock_jump(float("nan")), "seconds is nan"),
        (lambda: faults.kill_process("a", after=float("nan")), "after is nan"),
    ],
)
def test_a_fault_that_can_never_work_is_refused(make: Callable[[], Fault], message: str) -> None:
    """The error names the fault, the value got and the one wanted, where it is written."""
    with pytest.raises(InvalidSpec) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FaultPlan(["app/db"]),  # type: ignore[list-item]
        lambda: FaultPlan(7),  # type: ignore[arg-type]
        lambda: FaultPlan.random(random.Random(), [], faults=1, within=1),
        lambda: FaultPlan.random(random.Random(), "app", faults=1, within=1),
        lambda: FaultPlan.random(random.Random(), ["app"], faults=-1, within=1),
        lambda: FaultPlan.random(random.Random(), ["app"], faults=1, within=0),
        lambda: FaultPlan.random(random.Random(), ["app"], faults=1, within=float("inf")),
    ],
)
def test_a_plan_that_can_never_work_is_refused(make: Callable[[], FaultPlan]) -> None:
    """A plan holds faults and nothing else, and is drawn from what can be drawn from."""
    with pytest.raises(InvalidSpec):
        make()


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("app/db", ["app/db"], ["app", "app/db/x", "app/DB", "xapp/db"]),
        ("app/*", ["app/db", "app/a.b"], ["app", "app/db/x", "appx/db"]),
        ("app/db-*", ["app/db-", "app/db-1"], ["app/db", "app/db-1/x"]),
        ("*/d*b", ["app/db", "x/dcb"], ["db", "app/x/db"]),
        ("**", ["app", "app/db", "app/x/db"], []),
        ("app/**", ["app", "app/db", "app/x/db"], ["apps/db", "x/app"]),
        ("app/**/db", ["app/db", "app/x/db", "app/x/y/db"], ["db", "app/x", "app/xdb"]),
        ("**/db", ["db", "app/db", "app/x/db"], ["app/xdb", "db/x"]),
        ("app/[1].?", ["app/[1].?"], ["app/1.x"]),
    ],
)
def test_patterns_stand_for_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    """`*` stays within a segment, `**` takes any number of them, all else is itself."""
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


class Strange(Exception):
    """Its constructor does not take its `args`."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Single(Exception):
    """There is only one of it."""

    count = 0

    def __new__(cls, *args: Any) -> Self:
        cls.count += 1
        if cls.count > 1:
            raise TypeError("only one")
        return super().__new__(cls, *args)


@pytest.mark.parametrize(
    "error", [ValueError("x"), Strange(code=7), OSError(2, "gone"), copy.error("x"), SystemExit(3)]
)
def test_each_crash_raises_a_copy(error: BaseException) -> None:
    """The plan's own exception is never raised, and what is raised is equal in all it says."""
    error.__cause__ = KeyError("why")
    made = fresh(error)
    assert made is not error
    assert type(made) is type(error)
    assert (made.args, vars(made), str(made)) == (error.args, vars(error), str(error))
    assert made.__cause__ is error.__cause__


def test_an_exception_that_cannot_be_copied_is_raised_itself() -> None:
    """The given exception is better than another one."""
    error = Single("x")
    assert fresh(error) is error
