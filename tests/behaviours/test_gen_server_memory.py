"""A crash does not keep its server alive for ever."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, GenServer, Normal, SupervisorSpec
from otpy.server import Stop
from otpy.testing import settled
from tests.runtime.children import Boom

LIVES = 10


class Crashing(GenServer[Any, Any, Any]):
    """A server that crashes with its first message."""

    def init(self) -> Any:
        return self

    def handle_cast(self, request: Any, state: Any) -> Any:
        raise Boom


class Slow(Crashing):
    """A server that needs a task for `terminate`."""

    async def terminate(self, reason: Any, state: Any) -> None:
        await asyncio.sleep(0)


class Twice(Crashing):
    """A server that also crashes in `terminate`."""

    def terminate(self, reason: Any, state: Any) -> None:
        raise Boom


class Last(Twice):
    """A server that crashes only in `terminate`."""

    def handle_cast(self, request: Any, state: Any) -> Any:
        stop: Stop[Any, Any] = Stop(Normal(), state)
        return stop


@pytest.mark.parametrize("server", [Crashing, Slow, Twice, Last])
async def test_crashes_keep_the_last_two_lives_at_most(server: type[Crashing]) -> None:
    """The next end clears the frames of a crash, including those of the loop's call."""
    callbacks: list[weakref.ref[Any]] = []

    class Watched(server):  # type: ignore[valid-type, misc] # a parameter of the test
        def init(self) -> Any:
            callbacks.append(weakref.ref(self))
            return super().init()

    spec = SupervisorSpec("app", [ChildSpec("s", Watched)], intensity=2 * LIVES)
    async with otpy.start(spec, hooks=()) as app:
        for _ in range(LIVES):
            Watched.at("app/s", app).cast(None)
            await settled(app)
        gc.collect()
        assert len(callbacks) == LIVES + 1
        assert sum(ref() is not None for ref in callbacks) <= 2


@pytest.mark.usefixtures("clock")
async def test_a_tree_that_has_ended_leaves_no_deadline_behind() -> None:
    """The timer for callers, which outlives their calls, ends with the tree."""
    loop: Any = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = loop._scheduled
    before = [timer for timer in timers if not timer.cancelled()]
    async with otpy.start(SupervisorSpec("app", [ChildSpec("s", Crashing)]), hooks=()) as app:
        await Crashing.at("app/s", app).get_state()
        assert [timer for timer in timers if not timer.cancelled()] != before
    assert [timer for timer in timers if not timer.cancelled()] == before
