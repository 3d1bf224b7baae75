"""Scenario: a thousand children, one of which crashes a hundred times a second."""

from __future__ import annotations

import asyncio
import time

import pytest

import otpy
from otpy import ChildSpec, GenServer, Intensity, SupervisorSpec
from otpy.reports import ChildExited, ChildGaveUp
from otpy.server import Caller, CallResult, Reply
from otpy.specs import GIVE_UP
from otpy.testing import Recording
from tests.runtime.children import Boom

CRASHES = 40


class Echo(GenServer[int, int, None]):
    """A server that sends back each request."""

    def init(self) -> None:
        return None

    def handle_call(self, request: int, caller: Caller[int], state: None) -> CallResult[int, None]:
        return Reply(request, state)


async def crashing() -> None:
    """Crash a hundred times a second, if restarted as often."""
    await asyncio.sleep(0.01)
    raise Boom


@pytest.mark.real_time
async def test_a_child_that_crashes_all_the_time_delays_no_message_of_its_siblings(
    reports: Recording,
) -> None:
    """Acceptance 27, SUP-503: their replies come within bound, and the limit stops the child."""
    limit = Intensity(CRASHES, within=60, then=GIVE_UP)
    siblings = [ChildSpec(f"echo{n}", Echo) for n in range(999)]
    spec = SupervisorSpec("app", [*siblings, ChildSpec("crashing", crashing, intensity=limit)])
    delays: list[float] = []
    async with otpy.start(spec, hooks=[reports]) as app:
        number = 0
        while not any(isinstance(report, ChildGaveUp) for report in reports):
            asked = time.perf_counter()
            assert await Echo.at(f"app/echo{number % 999}", root=app).call(number) == number
            delays.append(time.perf_counter() - asked)
            number += 1
            await asyncio.sleep(0.001)
        counts = await app.count_children()
        assert (counts.specs, counts.active) == (999, 999)
    crashes = [r for r in reports if isinstance(r, ChildExited) and r.path == "app/crashing"]
    assert len(crashes) == CRASHES + 1
    assert len(delays) > CRASHES
    # A tenth of a millisecond here; the bound allows for a machine busy with other work.
    assert sorted(delays)[len(delays) * 9 // 10] < 0.05
