"""What a sandbox costs for each attempt, and whether anything of many attempts stays behind.

Each attempt runs `true`, next to a bare `asyncio.create_subprocess_exec` of the same, in turns:

    python -m benchmarks.attempts --attempts 1000 --sandbox process --sandbox bubblewrap
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil

from otpy_agents.run.adapter import Launch
from otpy_agents.run.orphans import find
from otpy_agents.run.sandbox import BubblewrapSandbox, Job, ProcessSandbox, Sandbox

SANDBOXES: dict[str, Sandbox] = {
    "process": ProcessSandbox(),
    "bubblewrap": BubblewrapSandbox(),
}
WARM_UP = 20


def _ignore(_line: str) -> None:
    pass


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(
        "true", stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    await process.communicate()


async def _attempt(sandbox: Sandbox, number: int, cwd: Path) -> None:
    job = Job(
        run_id="benchmark",
        attempt=number,
        launch=Launch(argv=("true",)),
        cwd=cwd,
        environment=os.environ,
        marker={"OTPY_RUN": "benchmark", "OTPY_ATTEMPT": str(number)},
    )
    async with sandbox.run(job, on_stdout=_ignore, on_stderr=_ignore) as running:
        ended = await running.wait()
    assert ended.exit_code == 0, ended  # noqa: S101 - a benchmark of failures means nothing


async def _timed(what: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await what()
    return (time.perf_counter() - began) * 1e3


def _state() -> dict[str, float]:
    me = psutil.Process()
    return {
        "processes": len(me.children(recursive=True)) + len(find({"OTPY_RUN": "benchmark"})),
        "descriptors": me.num_fds(),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "resident MB": round(me.memory_info().rss / 2**20, 1),
    }


async def _measure(sandbox: Sandbox, attempts: int) -> None:
    await sandbox.check()
    with TemporaryDirectory() as folder:
        cwd = Path(folder)
        for number in range(WARM_UP):
            await _bare()
            await _attempt(sandbox, number, cwd)
        before = _state()
        bare: list[float] = []
        ours: list[float] = []
        for number in range(attempts):
            bare.append(await _timed(_bare))

            async def one(number: int = number) -> None:
                await _attempt(sandbox, number, cwd)

            ours.append(await _timed(one))
        after = _state()
    extra = [one - other for one, other in zip(ours, bare, strict=True)]
    print(f"{sandbox.name}, {attempts} attempts, {len(psutil.pids())} processes on this machine")
    for name, times in (("bare", bare), ("sandbox", ours), ("difference", extra)):
        cuts = statistics.quantiles(times, n=100)
        print(f"  {name:12} median {cuts[49]:7.2f} ms   99 % {cuts[98]:7.2f} ms")
    for name, value in after.items():
        print(f"  {name:12} {before[name]:g} before, {value:g} after")


@click.command()
@click.option("--attempts", default=1000, show_default=True, help="Attempts in each sandbox.")
@click.option("--sandbox", "names", multiple=True, type=click.Choice(list(SANDBOXES)))
def main(attempts: int, names: tuple[str, ...]) -> None:
    """Measure the sandboxes named, or the default one."""
    for name in names or ("process",):
        asyncio.run(_measure(SANDBOXES[name], attempts))


if __name__ == "__main__":
    main()
