"""Children of every kind that can really fail, to compare injected failures with.

A healthy child is the same code with a script that does nothing: the code around the script never
knows what the script does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import attrs
from anyio.abc import TaskStatus

import otpy
from otpy import (
    Abandoned,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Shutdown,
    SupervisorFailed,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._core.reason import FailedToStart
from otpy._core.spec import AnySpec
from otpy.reports import Report
from otpy.testing import FaultPlan


class Script:
    """The real failures of one child; by default there are none."""

    async def start(self) -> None:
        """Run before anything else."""

    async def work(self) -> None:
        """Run again and again: one await of one second."""
        await asyncio.sleep(1)

    async def clean_up(self) -> None:
        """Run at the end, for any exit reason."""


def now() -> float:
    return asyncio.get_running_loop().time()


class Once(Script):
    """Fails in the first life that reaches it, and in no other."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.done = False

    def fail(self) -> None:
        if not self.done:
            self.done = True
            raise self.error


class FailsAtStart(Once):
    async def start(self) -> None:
        self.fail()


class FailsInClean(Once):
    async def clean_up(self) -> None:
        self.fail()


class FailsAtAwait(Once):
    def __init__(self, error: BaseException, nth: int) -> None:
        super().__init__(error)
        self.left = nth

    async def work(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.fail()
        await asyncio.sleep(1)


class FailsAt(Once):
    def __init__(self, error: BaseException, time: float) -> None:
        super().__init__(error)
        self.time = time

    async def work(self) -> None:
        left = self.time - now()
        if self.done or left > 1:
            await asyncio.sleep(1)
        else:
            await asyncio.sleep(left)
            self.fail()


class Returns(FailsAt):
    """Raises the exception on which the children below return."""

    def __init__(self, time: float) -> None:
        super().__init__(Done(), time)


class Done(Exception):
    pass


class IsCancelledAt(FailsAt):
    def __init__(self, time: float) -> None:
        super().__init__(Done(), time)

    async def work(self) -> None:
        task = asyncio.current_task()
        if task is not None and not self.done:
            self.done = True
            asyncio.get_running_loop().call_at(self.time, task.cancel)
        await asyncio.sleep(1)


class HangsAtStart(Once):
    async def start(self) -> None:
        if not self.done:
            self.done = True
            await asyncio.get_running_loop().create_future()


class IsSlow(Once):
    async def start(self) -> None:
        if not self.done:
            self.done = True
            await asyncio.sleep(2)


class HangsAtStop(Once):
    async def clean_up(self) -> None:
        if not self.done:
            self.done = True
            await asyncio.get_running_loop().create_future()


class Ignores(Script):
    async def work(self) -> None:
        until = now() + 1
        while now() < until:
            try:
                await asyncio.sleep(until - now())
            except asyncio.CancelledError:
                if not otpy.current().alive:  # else it would outlive the test
                    raise


# --- the children ---------------------------------------------------------------------------------


async def plain(script: Script) -> None:
    await script.start()
    try:
        while True:
            await script.work()
    except Done:
        pass
    finally:
        await script.clean_up()


async def ready(script: Script, *, task_status: TaskStatus[str]) -> None:
    await script.start()
    task_status.started("up")
    try:
        while True:
            await script.work()
    except Done:
        pass
    finally:
        await script.clean_up()


@asynccontextmanager
async def context(script: Script) -> AsyncGenerator[str]:
    await script.start()
    try:
        yield "up"
    finally:
        await script.clean_up()


async def in_timeout(script: Script) -> None:
    """Wait inside a timeout that is never over, and one that often is."""
    await script.start()
    try:
        async with asyncio.timeout(1000):
            while True:
                try:
                    async with asyncio.timeout(0.2):
                        await asyncio.sleep(1000)
                except TimeoutError:
                    pass
                with anyio.move_on_after(0.2):
                    await anyio.sleep(1000)
                await script.work()
    except Done:
        pass
    finally:
        await script.clean_up()


async def _looping(script: Script) -> None:
    while True:
        await script.work()


async def in_group(script: Script) -> None:
    await script.start()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_looping(Script()))
            group.create_task(_looping(script))
    except* Done:
        pass
    finally:
        await script.clean_up()


async def in_anyio_group(script: Script) -> None:
    await script.start()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_looping, Script())
            group.start_soon(_looping, script)
    except* Done:
        pass
    finally:
        await script.clean_up()


@asynccontextmanager
async def _crew(script: Script) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(_looping(script))
        yield


async def in_hidden_group(script: Script) -> None:
    """Wait for a group inside of a context manager that is an async generator."""
    await script.start()
    try:
        async with _crew(script):
            pass
    except* Done:
        pass
    finally:
        await script.clean_up()


def later(script: Script) -> Any:
    """Return a coroutine, as a plain function."""
    return plain(script)


def child(start: Callable[..., Any], script: Script) -> ChildSpec:
    return ChildSpec("c", start, (script,), shutdown=2, start_timeout=4)


# --- what a supervisor sees -----------------------------------------------------------------------


def _plain(value: object) -> object:
    """Return something that is equal if reports say the same; stacks have a test of their own."""
    if isinstance(value, Crashed):
        return "crashed", _plain(value.error)
    if isinstance(value, Shutdown) and isinstance(value.detail, FailedToStart):
        return "failed to start", value.detail.child_id, _plain(value.detail.reason)
    if isinstance(value, Abandoned):
        return "abandoned"
    if isinstance(value, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", value)
        return type(group), str(group), [_plain(error) for error in group.exceptions]
    if isinstance(value, BaseException):
        return type(value), value.args
    return value


def seen(report: Report, began: float) -> tuple[object, ...]:
    """Return all fields of `report`, with its time as seconds since `began`."""
    fields = attrs.asdict(report, recurse=False)
    fields.pop("stack", None)
    fields["time"] = round(report.time - began, 6)
    return report.event, *((name, _plain(value)) for name, value in fields.items())


async def observed(
    spec: AnySpec, plan: FaultPlan, *, seconds: float = 10.5, dynamic: bool = False
) -> list[tuple[object, ...]]:
    """Run `spec` as the only child of `app`, subject to `plan`, and return its reports."""
    began = now()
    reports: list[Report] = []
    ends: list[object] = []
    with plan.active() as injected:
        try:
            if dynamic:
                await _run_dynamic(spec, reports.append, seconds)
            else:
                tree = SupervisorSpec("app", [spec], intensity=2)
                async with otpy.start(tree, hooks=[reports.append]):
                    await asyncio.sleep(seconds)
        except SupervisorFailed as failed:
            ends.append((type(failed), failed.path, _plain(failed.__cause__)))
    assert injected.missed == ()
    return [*(seen(report, began) for report in reports), *((end,) for end in ends)]


async def _run_dynamic(spec: AnySpec, hook: Callable[[Report], object], seconds: float) -> None:
    async with otpy.start(DynamicSupervisor.spec("app"), hooks=[hook]) as app:
        await app.start_child(spec)
        await asyncio.sleep(seconds)


async def observed_task(script: Script, plan: FaultPlan) -> list[tuple[object, ...]]:
    """Run `plain` as a task of a `TaskSupervisor`; return the reports and the owner's result."""
    began = now()
    reports: list[Report] = []
    with plan.active() as injected:
        async with otpy.start(TaskSupervisor.spec("app"), hooks=[reports.append]) as app:
            task = await TaskSupervisor(app).spawn(plain, script)
            result = await task.poll(10.5)
            got = ("result", _plain(getattr(result, "reason", result)))
    assert injected.missed == ()
    return [*(seen(report, began) for report in reports), got]
