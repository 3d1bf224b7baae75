"""Hooks and `on_exit` callbacks are user code: the tree goes on, whatever they raise."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, InvalidSpec, SupervisorSpec
from otpy.reports import ChildExited, HookFailed, Report
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, Journal, forever


class Unspeakable(BaseException):
    """An error that is not an `Exception`, just as a cancellation is not."""


ERRORS = [Boom, asyncio.CancelledError, GeneratorExit, Unspeakable, RecursionError]
INTERRUPTS = [SystemExit, KeyboardInterrupt]


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_a_hook_raises_the_others_hear_of_it(
    clock: MockClock, reports: Recording, error: type[BaseException]
) -> None:
    """The hook is removed, and the tree restarts and stops as usual."""

    def bad(_: Report) -> None:
        raise error

    spec = SupervisorSpec("app", [ChildSpec("c", forever)])
    async with otpy.start(spec, hooks=[bad, reports]) as app:
        app.child("c").kill()
        await app.wait_for_restart("c", after=1)
    failure = reports.one(HookFailed)
    assert isinstance(failure.error, error)
    assert "bad" in failure.hook


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_an_exit_callback_raises_its_child_is_restarted(
    clock: MockClock, reports: Recording, error: type[BaseException]
) -> None:
    """The supervisor of the child still learns of the end."""

    def bad(*_: object) -> None:
        raise error

    spec = SupervisorSpec("app", [ChildSpec("c", forever)])
    async with otpy.start(spec, hooks=[reports]) as app:
        app.child("c").on_exit(bad)
        app.child("c").kill()
        await app.wait_for_restart("c", after=1)
    assert isinstance(reports.one(HookFailed).error, error)


async def test_a_hook_that_cannot_be_shown_is_named_by_its_type(
    clock: MockClock, reports: Recording
) -> None:
    """The report of a failed hook does not need the hook's `repr`."""

    class Bad:
        def __call__(self, _: Report) -> None:
            raise Boom

        def __repr__(self) -> str:
            raise Boom

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", forever)]), hooks=[Bad(), reports]):
        pass
    assert "Bad" in reports.one(HookFailed).hook


@pytest.mark.parametrize("error", INTERRUPTS)
@pytest.mark.parametrize("event", ["child.started", "child.exited", "child.stopped"])
async def test_a_hook_that_wants_to_leave_is_obeyed_in_order(
    clock: MockClock, journal: Journal, error: type[BaseException], event: str
) -> None:
    """At the start, at a crash and at the stop, the children first end in reverse order."""

    def leave(report: Report) -> None:
        if report.event == event:
            raise error(3)

    tree = journal.tree("a", "b")
    with pytest.raises(error) as caught:
        async with otpy.start(tree, hooks=[leave]):
            await clock.advance(0)
            if event == "child.exited":
                journal.crash["a"].set()
            if event != "child.stopped":
                await forever()
    assert caught.value.args == (3,)
    assert journal.lines[-2:] in (["-b", "-a"], ["-a", "-b"], ["+a", "-a"])
    assert journal.lines.count("+a") == journal.lines.count("-a")
    assert journal.lines.count("+b") == journal.lines.count("-b")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("error", INTERRUPTS)
async def test_an_exit_callback_that_wants_to_leave_is_obeyed_in_order(
    clock: MockClock, journal: Journal, error: type[BaseException]
) -> None:
    """This works as for a hook."""

    def leave(*_: object) -> None:
        raise error

    with pytest.raises(error):
        async with otpy.start(journal.tree("a", "b")) as app:
            await clock.advance(0)
            app.child("b").on_exit(leave)
            app.child("b").kill()
            await forever()
    assert journal.lines[-1] == "-a"


async def test_hooks_may_call_the_tree(clock: MockClock, reports: Recording) -> None:
    """Their requests are served when the reported decision has been carried out."""
    asked: list[asyncio.Task[Any]] = []

    def meddle(report: Report) -> None:
        if isinstance(report, ChildExited):
            if report.path == "app/a":
                app.child("b").kill()
            asked.append(asyncio.ensure_future(app.start_child(ChildSpec("c", forever))))
            reports(report)

    spec = SupervisorSpec("app", [ChildSpec("a", forever), ChildSpec("b", forever)])
    async with otpy.start(spec, hooks=()) as app:
        unsubscribe = app.subscribe(meddle)
        app.child("a").kill()
        await clock.advance(0)
        unsubscribe()
        assert [app.child(name).incarnation for name in "abc"] == [2, 2, 1]
    assert [report.path for report in reports.of(ChildExited)] == ["app/a", "app/b"]
    assert isinstance(asked[1].exception(), otpy.errors.AlreadyStarted)


async def coroutine_function(_: Report) -> None:
    """Return a coroutine, which the tree would never await."""


class Callable:
    """An object whose call is a coroutine function."""

    async def __call__(self, _: Report) -> None: ...


@pytest.mark.parametrize("hook", [coroutine_function, partial(coroutine_function), Callable(), 7])
async def test_what_can_be_no_hook_is_refused_where_it_is_handed_over(hook: Any) -> None:
    """A coroutine function would never be awaited, and the first report is too late to say so."""
    spec = SupervisorSpec("app")
    with pytest.raises(InvalidSpec, match=r"start 'app': a hook is .*, wanted a .*function"):
        otpy.start(spec, hooks=[hook])
    async with otpy.start(spec, hooks=()) as app:
        with pytest.raises(InvalidSpec, match="subscribe 'app'"):
            app.subscribe(hook)


def test_hooks_are_a_list() -> None:
    """A single function instead of a list is a common mistake."""
    wrong: Any = print
    with pytest.raises(InvalidSpec, match="hooks is <built-in function print>, wanted a list"):
        otpy.start(SupervisorSpec("app"), hooks=wrong)


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize(
    ("leave", "status"),
    [("sys.exit(3)", 3), ("sys.exit('bye')", 1), ("raise KeyboardInterrupt", 130)],
)
def test_a_program_leaves_with_the_status_that_a_hook_wants(leave: str, status: int) -> None:
    """The children of the program have cleaned up before."""
    program = f"""
import asyncio, sys, otpy

async def child():
    try:
        await asyncio.sleep(60)
    finally:
        print("clean-up")

def hook(report):
    if report.event == "child.started":
        {leave}

otpy.run(otpy.SupervisorSpec("app", [otpy.ChildSpec("c", child)]), hooks=[hook])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == status, done.stderr
    assert ("bye" in done.stderr) is (status == 1)


class Quiet:
    """A hook that wants no reports of routine, or does."""

    def __init__(self, *, hears_routine: bool = False) -> None:
        self.hears_routine = hears_routine
        self.heard: list[str] = []

    def __call__(self, report: Report) -> None:
        self.heard.append(f"{report.path} {report.event}")


async def _crashes_once() -> None:
    if otpy.current().incarnation == 1:
        await asyncio.sleep(1)
        raise Boom
    await forever()


@pytest.mark.parametrize("pool", [False, True])
async def test_a_hook_that_wants_no_routine_hears_of_failures_only(
    clock: MockClock, *, pool: bool
) -> None:
    """A normal start or stop is not even made into a report."""
    quiet, spec = Quiet(), ChildSpec("c", _crashes_once)
    tree = otpy.DynamicSupervisor.spec("app") if pool else SupervisorSpec("app")
    async with otpy.start(tree, hooks=[quiet]) as app:
        await app.start_child(spec)
        await clock.advance(2)
    assert quiet.heard == ["app/c child.exited", "app/c child.restarting", "app supervisor.stopped"]


async def test_what_one_hook_wants_all_of_them_hear(clock: MockClock, reports: Recording) -> None:
    """A hook with a filter does not narrow the reports of the others, and gets the same ones."""
    quiet = Quiet()
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", forever)]), hooks=[quiet, reports]):
        pass
    told = [f"{report.path} {report.event}" for report in reports]
    assert (
        quiet.heard
        == told
        == ["app/c child.started", "app/c child.stopped", "app supervisor.stopped"]
    )


async def test_what_a_hook_wants_may_change_while_the_tree_runs(clock: MockClock) -> None:
    """Within a second it gets more reports, or fewer."""
    quiet = Quiet()
    async with otpy.start(otpy.DynamicSupervisor.spec("app"), hooks=[quiet]) as app:
        await app.start_child(ChildSpec("a", forever))
        quiet.hears_routine = True
        await clock.advance(1)
        await app.start_child(ChildSpec("b", forever))
        quiet.hears_routine = False
        await clock.advance(1)
        await app.start_child(ChildSpec("c", forever))
        assert quiet.heard == ["app/b child.started"]
