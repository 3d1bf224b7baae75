"""Circuits that several real processes share (C-33)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from otpy_agents.engine.circuits import CIRCUITS, CircuitChanged, CircuitKey, CircuitStore
from otpy_agents.log import EventLog

pytestmark = pytest.mark.real_time

HOST = """
import asyncio, sys
from pathlib import Path
from otpy_agents.engine.circuits import CIRCUITS, CircuitChanged, CircuitKey, CircuitRules
from otpy_agents.engine.circuits import CircuitStore
from otpy_agents.log import EventLog

async def main(log, repository, key):
    rules = CircuitRules(failures=6, window=100.0, reset=0.0)
    async with EventLog(Path(log), types=[CircuitChanged], projections=[CIRCUITS]) as events:
        circuits = CircuitStore(events, Path(repository), rules)
        print("ready", flush=True)
        for line in sys.stdin:
            if line == "fail\\n":
                print(await circuits.failed(key, "crash"), flush=True)
            else:
                print(await circuits.admit(key, within=60.0), flush=True)

asyncio.run(main(*sys.argv[1:], CircuitKey("claude", "opus", "implementer")))
"""


def test_processes_open_a_circuit_together_and_one_tries(tmp_path: Path) -> None:
    """ENG-04: no failure is lost, and one of three simultaneous requests is let through."""
    (tmp_path / "repository").mkdir()
    log, repository = str(tmp_path / "events.sqlite3"), str(tmp_path / "repository")
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", HOST, log, repository],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]

    def said() -> list[str]:
        return [host.stdout.readline().strip() for host in hosts if host.stdout is not None]

    def told(word: str) -> list[str]:
        for host in hosts:
            assert host.stdin is not None
            host.stdin.write(f"{word}\n")
            host.stdin.flush()
        return said()

    try:
        assert said() == ["ready"] * 3
        assert told("fail") == ["closed"] * 3
        assert told("fail").count("closed") == 2
        assert sorted(told("ask")) == ["False", "False", "True"]
    finally:
        for host in hosts:
            host.communicate(timeout=30)
    assert [host.returncode for host in hosts] == [0, 0, 0]

    async def failures() -> int:
        async with EventLog(Path(log), types=[CircuitChanged], projections=[CIRCUITS]) as events:
            circuits = await CircuitStore(events, Path(repository)).circuits()
            return len(circuits[CircuitKey("claude", "opus", "implementer")].failures)

    assert asyncio.run(failures()) == 6
