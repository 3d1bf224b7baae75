"""Errors, reasons and reports can be copied and sent to other programs unchanged."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Any

import pytest

import otpy
from otpy import (
    Abandoned,
    ChildSpec,
    Crashed,
    Exit,
    ExitReason,
    Ignore,
    Killed,
    Normal,
    Process,
    Shutdown,
    SupervisorSpec,
    errors,
    reports,
)
from otpy._core.reason import FailedToStart
from otpy.cli.extras import MissingExtra
from otpy.cli.target import BadTarget
from otpy.snapshot import RestartRecord
from otpy.tasks import TaskFailed
from otpy.testing import (
    Deadlock,
    FaultImpossible,
    FaultPlan,
    NoProgress,
    NotSettled,
    PromiseBroken,
    Simulation,
    SimulationFailed,
    VirtualLoop,
)
from tests.runtime.children import Boom, forever

PROCESS = object()
"""Stands for a process where the example of an error or a report holds one."""

REASONS: list[ExitReason] = [
    Normal(),
    Shutdown(),
    Shutdown("no more work"),
    Shutdown(FailedToStart("db", Crashed(Boom("why")))),
    Killed(),
    Crashed(Boom("why")),
    Abandoned(("child (file.py:1)", "f (file.py:2)")),
]
RUN = Simulation(
    seed=1, faults=FaultPlan(), time=1.0, reports=(), failure=None, record=(0.5, "app/db")
)
RECORD = RestartRecord("app/db", 2, 0.5, Crashed(Boom("why")))


def failed(kind: type[errors.SupervisorFailed]) -> errors.SupervisorFailed:
    """Return an error whose history has not been read yet."""
    history = (record for record in [RECORD])
    return kind("app/db", "gave up", reasons=REASONS, history=history, abandoned=["app/web"])


def deadlock() -> Deadlock:
    """Return the error of a loop without tasks."""
    loop = VirtualLoop()
    loop.close()
    return Deadlock(loop)


ERRORS: dict[type[BaseException], Callable[[], BaseException]] = {
    **{
        kind: partial(kind, "a message")
        for kind in (
            errors.OtpyError,
            errors.InvalidSpec,
            errors.NotSupervised,
            errors.TaskTimeout,
            errors.NotOwner,
            errors.KeysNotUnique,
            errors.PartitionError,
            Ignore,
            BadTarget,
            MissingExtra,
            FaultImpossible,
            NoProgress,
            PromiseBroken,
        )
    },
    **{
        kind: partial(kind, "app/db", "a detail")
        for kind in (
            errors.ChildError,
            errors.StartFailed,
            errors.StartTimeout,
            errors.ChildNotReady,
            errors.CannotInterrupt,
            errors.AlreadyPresent,
            errors.NotFound,
            errors.ChildRunning,
            errors.RestartPending,
            errors.MaxChildren,
            errors.CallingSelf,
            errors.WrongThread,
            errors.NotRunning,
            errors.CallTimeout,
            errors.MailboxFull,
            errors.BadReturn,
            errors.Demonitored,
        )
    },
    errors.StepOverran: lambda: errors.StepOverran("app/db", 1.0, 0.5),
    errors.AlreadyStarted: lambda: errors.AlreadyStarted("app/db", PROCESS),
    errors.CallFailed: lambda: errors.CallFailed("app/db", Crashed(Boom("why")), "a detail"),
    errors.AlreadyRegistered: lambda: errors.AlreadyRegistered("app/names", ("k", 1), PROCESS),
    errors.NotRegistered: lambda: errors.NotRegistered("app/names", ("k", 1)),
    errors.SupervisorFailed: lambda: failed(errors.SupervisorFailed),
    errors.TreeStartFailed: lambda: failed(errors.TreeStartFailed),
    Exit: lambda: Exit(Shutdown("no more work")),
    TaskFailed: lambda: TaskFailed("app/tasks/f", Crashed(Boom("why"))),
    SimulationFailed: lambda: SimulationFailed(RUN, "simulate(tree, seed=1)", Boom("why")),
    NotSettled: lambda: NotSettled("app", 5.0, ("app/db is starting",)),
    Deadlock: deadlock,
}
REPORTS: dict[type[reports.Report], dict[str, Any]] = {
    reports.ChildStarted: {},
    reports.ChildStartFailed: {"reason": REASONS[5], "context": reports.ErrorContext.START_ERROR},
    reports.ChildExited: {"reason": REASONS[5], "context": reports.ErrorContext.CHILD_TERMINATED},
    reports.ChildRestarting: {"reason": REASONS[5], "delay": 1.5},
    reports.ChildStopped: {"reason": Killed(), "context": reports.ErrorContext.SHUTDOWN_ERROR},
    reports.ChildAbandoned: {"what": "task", "stack": ("f (file.py:2)",)},
    reports.ChildGaveUp: {"reason": REASONS[5]},
    reports.MailboxGrown: {"waiting": 1000, "dropped": 3},
    reports.MessageUnhandled: {"message": "'hello'"},
    reports.SupervisorGaveUp: {"child": "app/db", "reason": REASONS[5]},
    reports.SupervisorStopped: {"reason": Shutdown()},
    reports.HookFailed: {"hook": "<function f>", "error": Boom("why")},
}

Way = Callable[[Any], Any]


def pickled(protocol: int) -> Way:
    return lambda thing: pickle.loads(pickle.dumps(thing, protocol))  # noqa: S301 - our own


WAYS: dict[str, Way] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"protocol {number}": pickled(number) for number in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def look(thing: object, process: Process) -> list[str]:
    """Return everything visible of `thing`, with `process` shown as its path."""
    attributes = dict(vars(thing)) if isinstance(thing, BaseException) else {}
    attributes.pop("_history", None)
    attributes |= {"history": thing.history} if isinstance(thing, errors.SupervisorFailed) else {}
    for name, value in attributes.items():
        if value is process:
            attributes[name] = process.path
    return [type(thing).__name__, str(thing), repr(thing), *map(repr, attributes.items())]


def classes(root: type[Any]) -> Iterator[type[Any]]:
    """Yield every public class of otpy that is a `root`, from all modules."""
    for module in pkgutil.walk_packages(otpy.__path__, "otpy."):
        if module.name.endswith("__main__"):
            continue
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            ours = kind.__module__.partition(".")[0] == "otpy" and not name.startswith("_")
            if ours and issubclass(kind, root):
                yield kind


@pytest.fixture
async def process() -> Process:
    """Return a process that has ended."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("db", forever)])) as root:
        return root.child("db")


def made(kind: type[BaseException], process: Process) -> BaseException:
    """Return an example of an error."""
    error = ERRORS[kind]()
    if getattr(error, "process", None) is PROCESS:
        error.process = process  # type: ignore[attr-defined]
    return error


async def test_there_is_an_example_of_every_error_and_report() -> None:
    """A new class that cannot be pickled is noticed."""
    assert set(classes(BaseException)) == set(ERRORS)
    assert set(classes(reports.Report)) == {reports.Report, *REPORTS}


@pytest.mark.parametrize("kind", ERRORS)
async def test_an_error_comes_back_as_it_was(kind: type[BaseException], process: Process) -> None:
    """Type, text and attributes stay; a process in it becomes its path in another program."""
    for name, way in WAYS.items():
        error = made(kind, process)
        error.add_note("seen in the night")
        again = way(error)
        assert look(again, process) == look(error, process), name
        assert again is not error
        assert again.args == error.args


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_comes_back_as_it_was(kind: type[reports.Report]) -> None:
    """Reports are values: a hook may keep or send them."""
    report = kind(path="app/db", time=1.5, incarnation=2, restarts=1, **REPORTS[kind])
    for way in WAYS.values():
        assert repr(way(report)) == repr(report)


@pytest.mark.parametrize(
    "value", [*REASONS, RECORD, otpy.INFINITY, otpy.snapshot.RESTARTING], ids=str
)
def test_a_reason_comes_back_as_it_was(value: object) -> None:
    """A member of an enum comes back as the same object."""
    for way in WAYS.values():
        again = way(value)
        assert repr(again) == repr(value)
        assert again is value or not isinstance(value, Enum)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_process_travels_as_its_path(way: Way) -> None:
    """A copy is the process itself; another program gets its path, which leads to it."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("db", forever)])) as root:
        process = root.child("db")
        here = way in {copy.copy, copy.deepcopy}
        assert way(process) == (process if here else "app/db")
        with pytest.raises(errors.AlreadyStarted) as caught:
            await root.start_child(ChildSpec("db", forever))
        again = way(caught.value)
        assert again.process == (process if here else "app/db")
        assert root.whereis(again.path) is process
        assert way(root.snapshot()) == root.snapshot()
    down = await process.monitor()
    assert repr(way(down)) == (
        repr(down) if here else "Down(process='app/db', reason=Shutdown(detail=None))"
    )


async def serve(number: int, *, port: int) -> None:
    """Take arguments of both kinds."""


def test_a_spec_travels_as_far_as_its_arguments_do() -> None:
    """A whole tree is one value, for another program too."""
    worker = ChildSpec("w", serve, [1], {"port": 2}, backoff=otpy.Backoff.exponential(1))
    pool = otpy.DynamicSupervisor.spec("pool", max_children=3)
    spec = SupervisorSpec("app", [worker, SupervisorSpec("sub", [pool], intensity=otpy.INFINITY)])
    for way in WAYS.values():
        for one in (spec, worker, pool):
            again = way(one)
            assert again == one
            assert repr(again) == repr(one)
    assert copy.copy(worker).ready_at_once


async def test_a_failure_travels_with_its_history() -> None:
    """A program can send the failure of a tree to another program."""

    async def crash() -> None:
        raise Boom("why")

    with pytest.raises(otpy.SupervisorFailed) as caught:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("db", crash)], intensity=1)) as root:
            await root.wait()
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert str(again) == str(caught.value)
    assert [str(record) for record in again.history] == [str(r) for r in caught.value.history]


async def test_an_error_of_ones_own_need_not_mind() -> None:
    """A subclass of ours may word its message freely."""
    again = pickle.loads(pickle.dumps(Full(7)))  # noqa: S301 - our own
    assert (str(again), again.path, again.seats) == (
        "app/hall: did not start: 7 seats",
        "app/hall",
        7,
    )


class Full(errors.StartFailed):
    """A program's own error, a subclass of one of ours."""

    def __init__(self, seats: int) -> None:
        super().__init__("app/hall", f"{seats} seats")
        self.seats = seats
