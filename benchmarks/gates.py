"""What gates cost: one after the other, side by side, and again while nothing has changed.

A repository of small Python files is judged by ruff twice and by its tests, or by gates that only
wait, which shows what is gained where processors are not what is short. Beside it stand what a gate
that does nothing costs in its sandbox, the same program without it, and the hash of the work tree.

    python -m benchmarks.gates --files 10000 --runs 5
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import click
from attrs import evolve

from otpy_agents.engine.gates import Gate, GateCache, GateExecutor, GateStatus, gate_commands
from otpy_agents.engine.gates.inputs import inputs_digest
from otpy_agents.engine.roles import GateUse
from otpy_agents.run.host.order import SandboxChoice

Gates: TypeAlias = Mapping[str, Gate]

TESTS = 200
"""Files with a test in the repository."""
WAIT = 1.0
"""Seconds that a gate waits that only waits."""


def _repository(folder: Path, files: int) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for number in range(files):
        part = tree / f"part{number // 100}"
        part.mkdir(exist_ok=True)
        name = f"module{number}"
        text = f'"""Module {number}."""\n\n\ndef value() -> int:\n    return {number}\n'
        (part / f"{name}.py").write_text(text, encoding="utf-8")
    for number in range(min(TESTS, files)):
        text = (
            "import time\nimport unittest\n\n\n"
            "class Test(unittest.TestCase):\n"
            f"    def test_{number}(self):\n        time.sleep(0.005)\n"
        )
        (tree / f"test_{number}.py").write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    return tree


def _real() -> Gates:
    found = {
        "lint": ("ruff", "check", "--no-cache", "-q", "--isolated", "."),
        "format": ("ruff", "format", "--no-cache", "-q", "--isolated", "--check", "."),
        "test": (sys.executable, "-B", "-m", "unittest", "-q"),
    }
    return {name: Gate(name=name, command=argv) for name, argv in found.items()}


def _waiting() -> Gates:
    return {
        name: Gate(name=name, command=("sleep", str(WAIT))) for name in ("lint", "test", "types")
    }


async def _judged(tree: Path, gates: Gates, cache: GateCache | None = None) -> float:
    """Run gates, and return the seconds that took."""
    commands = gate_commands(SandboxChoice(), os.environ, print)
    await commands.sandbox()
    began = time.perf_counter()
    executor = GateExecutor(tree, commands, cache=cache)
    results = await executor.run(gates, [GateUse(name=name) for name in gates])
    took = time.perf_counter() - began
    for one in results:
        if one.status is not GateStatus.PASSED:
            raise click.ClickException(f"{one.name}: {one.output[-500:]}")
    return took


async def _middle(runs: int, work: Callable[[], Awaitable[float]]) -> float:
    return statistics.median([await work() for _ in range(runs)])


async def _by_hand() -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return time.perf_counter() - began


async def _hashed(tree: Path) -> float:
    await asyncio.sleep(0)
    began = time.process_time()
    if inputs_digest(tree) is None:
        raise click.ClickException("the tree has no hash")
    return time.process_time() - began


async def _table(name: str, tree: Path, gates: Gates, runs: int, folder: Path) -> None:
    together = {key: evolve(gate, parallel_safe=True) for key, gate in gates.items()}
    cache = GateCache(folder / f"cache-{name}")
    alone = await _middle(runs, lambda: _judged(tree, gates))
    beside = await _middle(runs, lambda: _judged(tree, together))
    first = await _judged(tree, together, cache)
    again = await _middle(runs, lambda: _judged(tree, together, cache))
    click.echo(f"{len(gates)} gates, {name}")
    click.echo(f"  one after the other        {alone:8.3f} s")
    click.echo(f"  side by side               {beside:8.3f} s  {_saved(alone, beside)}")
    click.echo(f"  the same, and kept         {first:8.3f} s  {_saved(alone, first)}")
    click.echo(f"  again, nothing changed     {again:8.3f} s  {_saved(first, again)} of that")


def _saved(before: float, after: float) -> str:
    return f"{100 * (before - after) / before:5.1f} % saved"


async def _measure(files: int, runs: int, folder: Path) -> None:
    tree = _repository(folder, files)
    await _table("real", tree, _real(), runs, folder)
    await _table(f"waiting {WAIT:g} s each", tree, _waiting(), runs, folder)
    nothing = {"true": Gate(name="true", command=("true",))}
    gate = await _middle(4 * runs, lambda: _judged(tree, nothing))
    hand = await _middle(4 * runs, _by_hand)
    click.echo(f"a gate that does nothing     {1000 * gate:8.1f} ms; by hand {1000 * hand:.1f} ms")
    took = await _middle(runs, lambda: _hashed(tree))
    click.echo(
        f"the hash of {files + min(TESTS, files):,} files     {1000 * took:8.1f} ms of processor"
    )


@click.command()
@click.option("--files", default=10_000, show_default=True, help="Files of the repository.")
@click.option("--runs", default=5, show_default=True, help="Of which the median is shown.")
def main(files: int, runs: int) -> None:
    """Measure what gates cost, and what is saved."""
    with TemporaryDirectory(prefix="otpy-bench-") as folder:
        asyncio.run(_measure(files, runs, Path(folder)))


if __name__ == "__main__":
    main()
