"""What supervision costs for each attempt, and whether anything of many attempts stays behind.

Each attempt is a small shell command, next to a bare `asyncio.create_subprocess_exec` of the same,
in turns. `process` and `bubblewrap` are the sandboxes alone; `run` is a whole run with one attempt
in `process`: admission, its supervisors and its task, every change of state on the disk.

    python -m benchmarks.attempts --attempts 1000 --subject process --subject run
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil

from otpy_agents.process.orphans import find
from otpy_agents.run import RunOutcome
from otpy_agents.run.host.host import run_host
from otpy_agents.run.host.order import RunOrder
from otpy_agents.sandbox import BubblewrapSandbox, Job, ProcessSandbox, Sandbox
from otpy_agents.sandbox.launch import Launch
from otpy_agents.store import RunStore

ARGV = ("sh", "-c", "echo done")
WARM_UP = 20
MARKER = {"BENCHMARK_OF_ATTEMPTS": "yes"}

# What there may be more of afterwards; memory for the allocator, whatever the number of attempts.
MOST = {"processes": 0, "descriptors": 0, "tasks": 0, "threads": 0, "resident MB": 8}

# More than both is too much: on a slow or busy machine a bare process is slow as well.
SLOWEST, TIMES_BARE = 50.0, 30.0  # milliseconds; bare processes of the same run

Attempt = Callable[[], Awaitable[None]]


def _ignore(_line: str) -> None:
    pass


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(
        *ARGV, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    await process.communicate()


@asynccontextmanager
async def _in_sandbox(sandbox: Sandbox, cwd: Path) -> AsyncGenerator[Attempt]:
    await sandbox.check()

    async def attempt() -> None:
        job = Job(
            run_id="benchmark",
            attempt=1,
            launch=Launch(argv=ARGV),
            cwd=cwd,
            environment={**os.environ, **MARKER},
            marker={"OTPY_RUN": "benchmark"},
        )
        async with sandbox.run(job, on_stdout=_ignore, on_stderr=_ignore) as running:
            ended = await running.wait()
        assert ended.exit_code == 0, ended  # noqa: S101 - a benchmark of failures means nothing

    yield attempt


@asynccontextmanager
async def _as_run(cwd: Path) -> AsyncGenerator[Attempt]:
    order = RunOrder(prompt="-", cwd=cwd, use="command", argv=ARGV)
    environment = {**os.environ, **MARKER}
    async with (
        RunStore(cwd / "state" / "runs.sqlite3") as store,
        run_host(store, environment=environment, hooks=()) as host,
    ):

        async def attempt() -> None:
            result = await (await host.submit(order)).wait()
            assert result.outcome is RunOutcome.SUCCESS, result  # noqa: S101 - as above

        yield attempt


SUBJECTS: dict[str, Callable[[Path], AbstractAsyncContextManager[Attempt]]] = {
    "process": partial(_in_sandbox, ProcessSandbox()),
    "bubblewrap": partial(_in_sandbox, BubblewrapSandbox()),
    "run": _as_run,
}


async def _timed(what: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await what()
    return (time.perf_counter() - began) * 1e3


async def _settled() -> dict[str, float]:
    """Return the least of each over a second: what only passes by does not stay."""
    looks: list[dict[str, float]] = []
    for _ in range(10):
        looks.append(_state())
        await asyncio.sleep(0.1)
    return {name: min(look[name] for look in looks) for name in looks[0]}


def _state() -> dict[str, float]:
    me = psutil.Process()
    return {
        "processes": len(me.children(recursive=True)) + len(find(MARKER)),
        "descriptors": me.num_fds(),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "resident MB": round(me.memory_info().rss / 2**20, 1),
    }


async def _measure(subject: str, attempts: int) -> list[str]:
    """Print the measurement, and return what must not be."""
    bare: list[float] = []
    ours: list[float] = []
    with TemporaryDirectory() as folder:
        async with SUBJECTS[subject](Path(folder)) as attempt:
            for _ in range(WARM_UP):
                await _bare()
                await attempt()
            before = await _settled()
            for _ in range(attempts):
                bare.append(await _timed(_bare))
                ours.append(await _timed(attempt))
            after = await _settled()
    extra = [one - other for one, other in zip(ours, bare, strict=True)]
    print(f"{subject}, {attempts} attempts, {len(psutil.pids())} processes on this machine")
    for name, times in (("bare", bare), ("supervised", ours), ("difference", extra)):
        cuts = statistics.quantiles(times, n=100)
        print(f"  {name:12} median {cuts[49]:7.2f} ms   99 % {cuts[98]:7.2f} ms")
    for name, value in after.items():
        print(f"  {name:12} {before[name]:g} before, {value:g} after")
    wrong = [f"more {name}" for name, most in MOST.items() if after[name] - before[name] > most]
    most = max(SLOWEST, TIMES_BARE * statistics.median(bare))
    if statistics.median(extra) > most:
        wrong.append(f"a median of more than {most:.0f} ms beyond the process itself")
    return wrong


@click.command()
@click.option("--attempts", default=1000, show_default=True, help="Attempts of each subject.")
@click.option(
    "--subject",
    "names",
    multiple=True,
    type=click.Choice(list(SUBJECTS)),
    help="Only this subject; may be given several times.",
)
def main(attempts: int, names: tuple[str, ...]) -> None:
    """Measure what supervision costs for each attempt, and whether anything of many stays behind.

    Attempts take turns with a bare process of the same command. Without --subject it measures
    whole runs. Ends with status 1 if something stays, or an attempt takes long.
    """
    for name in names or ("run",):
        wrong = asyncio.run(_measure(name, attempts))
        if wrong:
            raise click.ClickException(f"{name} costs {', '.join(wrong)}")


if __name__ == "__main__":
    main()
