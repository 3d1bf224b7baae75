"""The same seed gives the same trace in every process and on every Python version."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256

import pytest

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Strategy, SupervisorSpec
from otpy.testing import FaultPlan, Simulation, faults, simulate
from tests.behaviours.servers import Add, Counter
from tests.testing.test_simulated_loop import groups
from tests.testing.toy import steady


async def flaky() -> None:
    """Crash after three seconds."""
    await asyncio.sleep(3)
    raise LookupError("lost")


def supervised() -> Simulation:
    """Simulate crashes, restarts with jitter and groups."""
    group = [ChildSpec("flaky", flaky), ChildSpec("steady", steady)]
    backoff = Backoff.exponential(0.5, jitter=0.5)
    children: list[ChildSpec | SupervisorSpec] = [
        ChildSpec("jittery", flaky, backoff=backoff),
        SupervisorSpec("all", group, strategy=Strategy.ONE_FOR_ALL, intensity=9),
        ChildSpec("last", steady),
    ]
    plan = FaultPlan(
        [faults.crash("app/last", OSError("x"), after=2.0), faults.hang("app/jittery")]
    )
    return simulate(SupervisorSpec("app", children, intensity=9), seed=11, until=9, faults=plan)


def served() -> Simulation:
    """Simulate servers with concurrent callers, one of which is killed and gone."""

    async def drive(root: otpy.DynamicSupervisor) -> None:
        first = await root.start_child(ChildSpec("first", Counter, (10,)))
        second = await root.start_child(ChildSpec("second", Counter))
        assert first is not None
        assert second is not None

        async def call(times: int) -> None:
            for n in range(times):
                await Counter.at(first.path, root).call(Add(n))
                Counter.at(second.path, root).cast(Add(n))
                await asyncio.sleep(n / 100)

        async with asyncio.TaskGroup() as group:
            for times in range(1, 6):
                group.create_task(call(times))
            await asyncio.sleep(0.03)
            second.kill()

    return simulate(DynamicSupervisor.spec("pool"), seed=12, until=drive)


def grouped() -> Simulation:
    """Simulate a program with task groups of asyncio and anyio."""
    return simulate(groups, seed=13)


CORPUS: dict[str, tuple[Callable[[], Simulation], str]] = {
    "supervised": (supervised, "14418c2586900ee0"),
    "served": (served, "de33d30f1544523f"),
    "grouped": (grouped, "b7cb8dc80b93c96e"),
}


def digest_of(simulation: Simulation) -> str:
    """Return a fingerprint of the trace."""
    return sha256("\n".join(simulation.trace).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", CORPUS)
def test_the_trace_is_the_recorded_one(name: str) -> None:
    """Python 3.11, 3.12, 3.13 and 3.14 all draw, and run, the same."""
    run, digest = CORPUS[name]
    assert digest_of(run()) == digest


_PROGRAM = """
import sys
from tests.testing.test_simulation_digests import CORPUS, digest_of
for run, digest in CORPUS.values():
    assert digest_of(run()) == digest, run
"""


@pytest.mark.real_time
@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_another_process_gives_the_same_trace(hash_seed: str) -> None:
    """It does so with any addresses and any hashes of strings."""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
        check=True,
        timeout=50,
    )
