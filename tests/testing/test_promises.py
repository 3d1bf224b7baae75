"""How long a stop may take, by the promises of a simulated tree."""

from __future__ import annotations

import pytest

import otpy
from otpy import INFINITY, ChildSpec, SupervisorSpec
from otpy._core.spec import ShutdownLimit
from otpy.testing.promises import longest_stop
from tests.testing.toy import steady


@pytest.mark.parametrize(("limit", "seconds"), [(INFINITY, 2 * 66.0), (0.5, 6.5), (300, 2 * 66.0)])
async def test_all_that_runs_has_its_time_within_that_of_its_supervisor(
    limit: ShutdownLimit, seconds: float
) -> None:
    """A supervisor whose own limit is over kills everything below it at once (SUP-715)."""
    workers = [ChildSpec(name, steady, shutdown=60) for name in "ab"]
    below = SupervisorSpec("sub", workers, shutdown=limit)
    async with otpy.start(SupervisorSpec("app", [below]), hooks=()) as root:
        assert longest_stop(root) == seconds
