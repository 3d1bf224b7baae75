"""A host of one worker as a program of its own, which a test may kill.

    python -m tests.agents.guarded_host FOLDER GRACE MODE WORD…

runs WORD… and prints its pid. MODE is `wait`, or `hold` for a host that does nothing about the end
of its worker, as if it had been killed just then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from otpy_agents.process.process import spawn
from otpy_agents.sandbox.marker import attempt_marker


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main() -> None:
    folder, grace, mode, *argv = sys.argv[1:]
    marker = attempt_marker(folder, "a", 1)
    environment = {**os.environ, **marker}
    worker = spawn(
        argv, cwd=Path(folder), env=environment, grace=float(grace), record=Path(folder, "exit")
    )
    async with worker:
        _say(worker.pid)
        await (worker.wait() if mode == "wait" else asyncio.sleep(60))
        _say(worker.status)


if __name__ == "__main__":
    asyncio.run(main())
