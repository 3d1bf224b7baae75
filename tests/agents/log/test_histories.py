"""After any history, and cut at any point, the log is whole, and its projections fit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.log.log_world import completed, log_at, started, to

pytestmark = pytest.mark.real_time


@pytest.mark.parametrize("seed", range(5))
async def test_random_histories_rebuild_to_what_they_were(tmp_path: Path, seed: int) -> None:
    """Two hundred of each seed, over several streams, with archives in between."""
    chance = random.Random(seed)
    for number in range(200):
        now = 0.0
        path = tmp_path / f"{number}.sqlite3"
        async with log_at(path, clock=lambda: now) as log:  # noqa: B023 - its own moment
            for _ in range(chance.randrange(1, 6)):
                now += 1
                step = str(chance.randrange(4))
                status = chance.choice(["success", "failed", "forgotten"])
                events: list[object] = [started(step), completed(step, status)]
                await log.append(to(chance.choice("abc"), *events[: chance.randrange(1, 3)]))
            if chance.random() < 0.1:
                await log.move(before=chance.uniform(0, now))
            rows = await log.rows("steps")
            assert await log.rebuild() == []
            assert await log.rows("steps") == rows


WRITER = """
import asyncio, os, signal, sqlite3, sys
from pathlib import Path
from tests.agents.log.log_world import completed, log_at, started, to

async def main():
    path, left = Path(sys.argv[1]), int(sys.argv[2])
    async with log_at(path) as log:
        database = log._file._database
        execute, many = database.execute, database.executemany

        def counted(call):
            def one(*args):
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args)
            return one

        database.execute, database.executemany = counted(execute), counted(many)
        fetch = database.execute_fetchall
        database.execute_fetchall = counted(fetch)
        for number in range(100):
            await log.append(to("a", started(str(number)), completed(str(number))))
            print(number, flush=True)

asyncio.run(main())
"""


async def test_a_kill_at_any_statement_leaves_an_append_whole_or_undone(tmp_path: Path) -> None:
    """So is its projection: acknowledged events are there, and none is there by half."""
    path, acknowledged = tmp_path / "events.sqlite3", 0
    for statements in range(22):
        words = [sys.executable, "-c", WRITER, str(path), str(statements)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)  # noqa: ASYNC221 - nothing else is to happen meanwhile
        assert done.returncode == -signal.SIGKILL, done.stderr
        acknowledged += 2 * len(done.stdout.split())
        async with log_at(path) as log:
            end = await log.verify()
            assert end % 2 == 0
            assert end >= acknowledged
            assert await log.compare() == []
            acknowledged = end
    assert acknowledged
