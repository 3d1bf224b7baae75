"""Cancelling the host of a tree before each single step of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import otpy
from otpy import SupervisorFailed, SupervisorSpec
from otpy.testing import MockClock
from tests.runtime.stage import ORDER, SHUTDOWN, Stage, before_each_step

ALL = [
    *(mark + name for name in ORDER for mark in "(+"),
    *("!y", ")y", ")z", ")x"),
    *(mark + name for name in "xyz" for mark in "(+"),
    *(f"){name}" for name in reversed(ORDER)),
]


class Run:
    """One run, from start to stop, with an act before chosen steps.

    Attributes:
        stage: A record of the tree.
        host: The task that hosted the tree; it is done.
        told: How many of the cancellations came before it was done.
        steps: How many steps the loop took until then.
    """

    def __init__(self, *, waits_for_end: bool = False, **limits: Any) -> None:
        self.stage = Stage(waits_for_end=waits_for_end)
        self.host: asyncio.Task[None]
        self.told = 0
        self.steps = 0
        self._limits = limits
        self._first: float | None = None

    def cancel(self) -> None:
        """Cancel the task of the host."""
        self.note(took=self.host.cancel())

    def note(self, *, took: bool) -> None:
        """Count a cancellation that the task accepted, and record the time of the first."""
        if took:
            self.told += 1
            if self._first is None:
                self._first = self.host.get_loop().time()

    def go(
        self,
        *steps: int,
        host: Callable[[], Coroutine[Any, Any, None]] | None = None,
        act: Callable[[], object] | None = None,
    ) -> None:
        """Run `host`, call `act` before these `steps`, and check what must always hold."""
        MockClock().run(self._go(steps, host or self.live, act or self.cancel))

    async def live(self) -> None:
        """Host the tree."""
        await self.stage.host(**self._limits)

    async def _go(
        self,
        steps: tuple[int, ...],
        host: Callable[[], Coroutine[Any, Any, None]],
        act: Callable[[], object],
    ) -> None:
        loop, unhandled = asyncio.get_running_loop(), list[Any]()
        loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
        before = asyncio.all_tasks()
        self.host = asyncio.create_task(host())

        def step(n: int) -> None:
            if not self.host.done():
                self.steps = n
                if n in steps:
                    act()

        with before_each_step(step):
            await asyncio.wait([self.host], timeout=100)
        assert self.host.done(), "a stop always ends"
        assert asyncio.all_tasks() == before
        assert unhandled == []
        if self._first is not None:
            assert loop.time() - self._first <= SHUTDOWN * len(ORDER)
        self.stage.check()


@cache
def steps(*, waits_for_end: bool = False, **limits: Any) -> range:
    """Return all steps of an undisturbed run."""
    run = Run(waits_for_end=waits_for_end, **limits)
    run.go()
    return range(1, run.steps + 2)


def test_an_undisturbed_run_does_everything() -> None:
    """The other tests rely on this: the tree starts, restarts a group and stops."""
    run = Run()
    run.go()
    assert run.stage.lines == ALL
    assert run.steps > 100


@pytest.mark.parametrize("gap", [None, 1, 7])
def test_the_host_is_cancelled_before_each_step(gap: int | None) -> None:
    """Cancelled once, or twice in a short time, the host ends cancelled, after a stop in order.

    The task still counts every cancellation that it accepted, for the code around it.
    """
    taken = 0
    for k in steps():
        run = Run()
        run.go(k, *([] if gap is None else [k + gap]))
        assert run.host.cancelled() is (run.told > 0), k
        assert run.host.cancelling() == run.told, k
        assert run.told or run.stage.lines == ALL
        taken += run.told
    assert taken >= len(steps()) - 1


def test_a_cancelled_scope_ends_the_block_before_each_step() -> None:
    """Anyio's scope swallows its own cancellation, and leaves no other behind."""
    caught = 0
    for k in steps():
        run = Run()
        scopes: list[anyio.CancelScope] = []

        async def host(run: Run = run, scopes: list[anyio.CancelScope] = scopes) -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await run.live()
                await anyio.lowlevel.checkpoint()  # it came after the last wait inside
            await asyncio.sleep(0)  # a cancellation that is left over would arrive here

        def cancel(run: Run = run, scopes: list[anyio.CancelScope] = scopes) -> None:
            for scope in scopes:
                run.note(took=True)
                scope.cancel()

        run.go(k, host=host, act=cancel)
        assert not run.host.cancelled(), k
        assert run.host.exception() is None, k
        assert run.host.cancelling() == 0, k
        assert scopes[0].cancelled_caught or run.stage.lines == ALL, k
        caught += scopes[0].cancelled_caught
    assert caught > len(steps()) - 10


@pytest.mark.parametrize("cancelled_too", [False, True])
def test_a_timeout_ends_the_block_before_each_step(*, cancelled_too: bool) -> None:
    """`asyncio.timeout` raises `TimeoutError`, unless other code cancelled the host as well."""
    expired = 0
    for k in steps():
        run, timeout = Run(), asyncio.Timeout(None)

        async def host(run: Run = run, timeout: asyncio.Timeout = timeout) -> None:
            async with timeout:
                await run.live()

        def act(run: Run = run, timeout: asyncio.Timeout = timeout) -> None:
            if cancelled_too:
                run.cancel()
            if timeout.when() is None and run.stage.lines:
                timeout.reschedule(0)

        run.go(k, host=host, act=act)
        error = None if run.host.cancelled() else run.host.exception()
        assert run.host.cancelled() is (run.told > 0), k
        assert run.host.cancelling() == run.told, k
        assert isinstance(error, TimeoutError) is (timeout.expired() and not run.told), k
        expired += timeout.expired()
    assert expired > len(steps()) - 20


@pytest.mark.parametrize("waits_for_end", [False, True])
def test_a_host_whose_tree_fails_is_cancelled_before_each_step(*, waits_for_end: bool) -> None:
    """A cancellation by other code prevails over the failure of the root."""
    for k in steps(waits_for_end=waits_for_end, intensity=0):
        run = Run(waits_for_end=waits_for_end, intensity=0)
        run.go(k)
        assert run.host.cancelled() is (run.told > 0), k
        assert run.host.cancelling() == run.told, k
        if not run.told:
            assert isinstance(run.host.exception(), SupervisorFailed)


@pytest.mark.parametrize("error", [None, ValueError()])
def test_a_tree_that_fails_in_a_step_of_its_host(error: Exception | None) -> None:
    """The tree takes back its own cancellation, but not one by other code.

    The body ends, with or without an error, before either of them can reach it.
    """
    spec = SupervisorSpec("app", [SupervisorSpec("empty")], intensity=0)

    async def host() -> None:
        try:
            async with otpy.start(spec, hooks=()) as root:
                await asyncio.sleep(0)
                empty = root.child("empty").supervisor
                assert empty is not None
                empty.kill()
                assert root.ended
                if error is not None:
                    raise error
        finally:
            await asyncio.sleep(0)

    ends: list[bool] = []
    for k in range(1, 10):
        run = Run()
        run.go(k, host=host)
        assert run.host.cancelled() is (run.told > 0), k
        assert run.host.cancelling() == run.told, k
        if not run.told:
            assert isinstance(run.host.exception(), SupervisorFailed)
        ends.append(run.host.cancelled())
    assert {*ends} == {True, False}
