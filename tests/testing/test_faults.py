"""Each fault, in each kind of child: it looks the same as the real failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otpy import Exit, Ignore, Killed, Shutdown
from otpy.testing import Fault, FaultPlan, faults
from tests.runtime.conftest import logs
from tests.testing.failing_children import (
    FailsAt,
    FailsAtAwait,
    FailsAtStart,
    FailsInClean,
    HangsAtStart,
    HangsAtStop,
    Ignores,
    IsCancelledAt,
    IsSlow,
    Returns,
    Script,
    child,
    context,
    in_anyio_group,
    in_group,
    in_hidden_group,
    in_timeout,
    later,
    observed,
    observed_task,
    plain,
    ready,
)

__all__ = ["logs"]

LOOPING = [plain, ready, later]
GROUPS = [in_group, in_anyio_group, in_hidden_group]
STARTING = [plain, ready, *GROUPS, in_timeout, context]
ALL = [*STARTING, later]

ERRORS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: ValueError("x"),
    "exit in good order": lambda: Exit(Shutdown("enough")),
    "exit killed": lambda: Exit(Killed()),
    "system exit": lambda: SystemExit(3),
    "group": lambda: ExceptionGroup("two", [ValueError("a"), OSError("b")]),
    "base group": lambda: BaseExceptionGroup("one", [SystemExit(1)]),
    "wrapped exit": lambda: ExceptionGroup("one", [Exit(Shutdown("enough"))]),
}
any_error = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)


def name(start: Callable[..., Any]) -> str:
    return start.__name__


async def compare(
    start: Callable[..., Any], script: Script, *injected: Fault, dynamic: bool = False
) -> None:
    """Check that the healthy child under the faults gives the reports of the failing one."""
    really = await observed(child(start, script), FaultPlan(), dynamic=dynamic)
    healthy = await observed(child(start, Script()), FaultPlan(injected), dynamic=dynamic)
    assert healthy == really
    assert really != await observed(child(start, Script()), FaultPlan(), dynamic=dynamic)


@any_error
@pytest.mark.parametrize("start", STARTING, ids=name)
async def test_a_crash_at_the_start(
    start: Callable[..., Any], error: Callable[[], BaseException]
) -> None:
    """It fails the start of a child that announces its readiness, and ends any other."""
    await compare(start, FailsAtStart(error()), faults.crash("app/c", error(), at="start"))


@any_error
async def test_a_crash_of_a_function_that_makes_its_child(
    error: Callable[[], BaseException],
) -> None:
    """The call itself fails, before any child could be ready."""

    def fails(_: Script) -> None:
        raise error()

    really = await observed(child(fails, Script()), FaultPlan())
    fault = faults.crash("app/c", error(), at="start")
    assert await observed(child(later, Script()), FaultPlan([fault])) == really


@pytest.mark.parametrize("start", [ready, context], ids=name)
async def test_a_child_declines_to_run(start: Callable[..., Any]) -> None:
    """`Ignore` at the start is no failure."""
    await compare(start, FailsAtStart(Ignore()), faults.crash("app/c", Ignore(), at="start"))


@any_error
@pytest.mark.parametrize("start", LOOPING, ids=name)
async def test_a_crash_at_the_kth_await(
    start: Callable[..., Any], error: Callable[[], BaseException]
) -> None:
    """The third await raises, in place of waiting."""
    await compare(start, FailsAtAwait(error(), 3), faults.crash("app/c", error(), nth=3))


@any_error
@pytest.mark.parametrize("start", [*LOOPING, in_timeout], ids=name)
async def test_a_crash_after_some_time(
    start: Callable[..., Any], error: Callable[[], BaseException]
) -> None:
    """The await in progress at that time raises."""
    await compare(start, FailsAt(error(), 2.75), faults.crash("app/c", error(), after=2.75))


@pytest.mark.parametrize("error", [ValueError("x"), ExceptionGroup("two", [OSError("b")])])
@pytest.mark.parametrize("start", GROUPS, ids=name)
async def test_a_crash_of_a_child_that_waits_for_its_task_group(
    start: Callable[..., Any], error: Exception
) -> None:
    """A task of the group raises: the others are cancelled, and the group wraps the error."""
    await compare(start, FailsAt(error, 2.5), faults.crash("app/c", error, after=2.5))


@any_error
@pytest.mark.parametrize("start", ALL, ids=name)
async def test_a_crash_in_the_clean_up(
    start: Callable[..., Any], error: Callable[[], BaseException]
) -> None:
    """A child that is stopped ends with what its clean-up raised."""
    await compare(start, FailsInClean(error()), faults.crash("app/c", error(), at="cleanup"))


@pytest.mark.parametrize("start", [ready, context], ids=name)
async def test_a_hang_at_the_start(start: Callable[..., Any]) -> None:
    """A child that is never ready is ended by its `start_timeout`."""
    await compare(start, HangsAtStart(ValueError()), faults.hang("app/c", at="start"))


@pytest.mark.parametrize("start", [ready, context], ids=name)
async def test_a_child_that_is_slow_to_be_ready(start: Callable[..., Any]) -> None:
    """It is started when it is ready, and not before."""
    await compare(start, IsSlow(ValueError()), faults.slow_ready("app/c", 2))


@pytest.mark.parametrize("start", ALL, ids=name)
async def test_a_hang_at_the_stop(start: Callable[..., Any]) -> None:
    """It is killed when its `shutdown` is over."""
    await compare(start, HangsAtStop(ValueError()), faults.hang("app/c"))


@pytest.mark.otpy(leaks=False)  # the real child is left to the end of the loop
@pytest.mark.parametrize("start", LOOPING, ids=name)
async def test_cancellation_ignored(start: Callable[..., Any]) -> None:
    """It is cancelled again, and given up."""
    await compare(start, Ignores(), faults.ignore_cancellation("app/c"))


@pytest.mark.parametrize("start", [*LOOPING, *GROUPS, in_timeout], ids=name)
async def test_an_early_return(start: Callable[..., Any]) -> None:
    """A permanent child that has nothing more to do is started again."""
    await compare(start, Returns(2.75), faults.return_early("app/c", after=2.75))


@pytest.mark.parametrize("start", [*LOOPING, in_timeout], ids=name)
async def test_a_stranger_cancels(start: Callable[..., Any]) -> None:
    """The child counts as killed (AIO-08)."""
    await compare(start, IsCancelledAt(2.75), faults.cancel("app/c", after=2.75))


FAILURES: dict[str, tuple[Callable[[], Script], Callable[[str], Fault]]] = {
    "start": (
        lambda: FailsAtStart(ValueError("x")),
        lambda path: faults.crash(path, ValueError("x"), at="start"),
    ),
    "await": (
        lambda: FailsAtAwait(ValueError("x"), 3),
        lambda path: faults.crash(path, ValueError("x"), nth=3),
    ),
    "time": (
        lambda: FailsAt(ValueError("x"), 2.5),
        lambda path: faults.crash(path, ValueError("x"), after=2.5),
    ),
    "return": (lambda: Returns(2.5), lambda path: faults.return_early(path, after=2.5)),
    "cancel": (lambda: IsCancelledAt(2.5), lambda path: faults.cancel(path, after=2.5)),
    "hang": (lambda: HangsAtStop(ValueError()), faults.hang),
    "clean-up": (
        lambda: FailsInClean(ValueError("x")),
        lambda path: faults.crash(path, ValueError("x"), at="cleanup"),
    ),
}
any_failure = pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)


@any_failure
async def test_children_that_were_started_at_run_time(
    failure: tuple[Callable[[], Script], Callable[[str], Fault]],
) -> None:
    """A child of a dynamic supervisor fails like any other."""
    script, fault = failure
    await compare(plain, script(), fault("app/c"), dynamic=True)


@any_failure
async def test_tasks(failure: tuple[Callable[[], Script], Callable[[str], Fault]]) -> None:
    """A task of a `TaskSupervisor` fails like any other, and its owner hears of it."""
    script, fault = failure
    really = await observed_task(script(), FaultPlan())
    assert await observed_task(Script(), FaultPlan([fault("app/plain*")])) == really
