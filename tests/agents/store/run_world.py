"""Shared by the tests of the store of runs: a short way to write, and programs that use it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import final

from otpy_agents.store import AttemptBegun, AttemptEnded, Lease, RunStore, StoredRun
from tests.agents.host import ENVIRONMENT, PATIENCE


class Clock:
    """Unix seconds that a test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def create(store: RunStore, run: str = "r", state: str = "{}") -> Lease:
    """Create a run with default values."""
    return await store.create(
        run, state, version=1, status="new", agent="claude", prompt="do it", cwd="/here"
    )


async def save(
    store: RunStore,
    lease: Lease,
    state: str = "{}",
    *attempts: AttemptBegun | AttemptEnded,
    exit_code: int | None = None,
) -> None:
    """Save a state with default values."""
    await store.save(
        lease,
        state,
        version=1,
        status="running",
        agent="claude",
        attempts=attempts,
        exit_code=exit_code,
    )


def begun(number: int) -> AttemptBegun:
    return AttemptBegun(number=number, agent="claude")


def ended(number: int, outcome: str = "{}") -> AttemptEnded:
    return AttemptEnded(number=number, outcome=outcome)


def story(run: StoredRun) -> list[tuple[int, str | None]]:
    """Return the attempts of a run with their outcomes."""
    return [(attempt.number, attempt.outcome) for attempt in run.attempts]


def let_die(path: Path, host: int) -> None:
    """Make a host of this process look as if it had been killed and its pid given to another."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE host SET create_time = create_time - 9 WHERE id = ?", (host,))


@final
class Program:
    """A Python program that has the file's path as `path` and is talked to by lines."""

    def __init__(self, path: Path, code: str) -> None:
        head = (
            "import asyncio, sys\nfrom pathlib import Path\n"
            "from otpy_agents.errors import *\nfrom otpy_agents.store import *\n"
            "from tests.agents.store.run_world import *\npath = Path(sys.argv[1])\n"
        )
        tail = "\nasyncio.run(main())\n"
        self._process = subprocess.Popen(
            [sys.executable, "-c", head + code + tail, str(path)],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """Return the next line it prints; empty if it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def lines(self) -> list[str]:
        """Return the rest of what it prints, once it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.read().split("\n")[:-1]

    def go_on(self) -> None:
        """Let it return from `sys.stdin.readline()`."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
