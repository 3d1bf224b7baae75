"""What the work tree of a step costs beside git by hand: `python -m benchmarks.steps`.

By hand is what a person would type: `worktree add`, `add --all`, `commit`, `merge --ff-only` and
`worktree remove --force`, without a lock, a look at HEAD, or anything that survives a kill. The
work is the same: ten files of the repository changed, and two new ones. Each figure is the median
of rounds in which both took turns.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

import click

import otpy
from otpy_agents.engine.events import EngineEvent, WorkerAnswered
from otpy_agents.engine.server import Engine, EngineSettings, open_engine
from otpy_agents.workspace import StepTree, StepTrees

Spans = dict[str, float]

ALLOWED: Final = 1.5
"""How many times as long as by hand a step may take …"""

ALLOWANCE: Final = 60.0
"""… and milliseconds beside."""

_PEOPLE: Final = ("-c", "user.name=ann", "-c", "user.email=ann@localhost", "-c", "gc.auto=0")
_TEXT: Final = "x = 1\n" * 200


def git(where: Path, *args: str) -> None:
    """Run git by hand."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", *_PEOPLE, *args]
    subprocess.run(command, cwd=where, env=environment, check=True, capture_output=True)


def repository(folder: Path, files: int) -> Path:
    """Make a repository of so many files, a hundred in a folder."""
    root = folder / "repository"
    for number in range(files):
        path = root / f"package{number // 100}" / f"module{number % 100}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n{_TEXT}")
    (root / ".gitignore").write_text(".worktrees/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "begin")
    git(root, "gc", "-q")
    return root


def work(path: Path, turn: str) -> None:
    """Do what a worker does: change ten files, and make two."""
    for number in range(10):
        (path / f"package{number % 10}" / "module7.py").write_text(f"{turn}\n{_TEXT}")
    for name in ("first", "second"):
        (path / f"package0/{name}-{turn}.py").write_text(turn)


class Watch:
    """Adds up how long what takes, in milliseconds."""

    def __init__(self) -> None:
        self.spans: Spans = {}
        self._since = time.perf_counter()

    def start(self) -> None:
        """Forget what was until now."""
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        """Count the time since the last lap."""
        now = time.perf_counter()
        self.spans[name] = self.spans.get(name, 0.0) + (now - self._since) * 1000
        self._since = now


async def by_hand(root: Path, turn: str) -> Spans:
    """Take a step as a person would."""
    watch = Watch()
    tree = root / ".worktrees" / turn
    watch.start()
    await asyncio.to_thread(git, root, "worktree", "add", "-q", "--detach", str(tree))
    watch.lap("open")
    work(tree, turn)
    watch.start()
    await asyncio.to_thread(git, tree, "add", "-A")
    watch.lap("changes")
    await asyncio.to_thread(git, tree, "commit", "-q", "-m", turn)
    commit = await asyncio.to_thread((root / f".git/worktrees/{turn}/HEAD").read_text)
    await asyncio.to_thread(git, root, "merge", "-q", "--ff-only", commit.strip())
    watch.lap("apply")
    await asyncio.to_thread(git, root, "worktree", "remove", "--force", str(tree))
    watch.lap("discard")
    return watch.spans


async def ours(trees: StepTrees, turn: str) -> Spans:
    """Take a step."""
    watch = Watch()
    watch.start()
    tree = await trees.open("wf", turn)
    watch.lap("open")
    work(tree.path, turn)
    watch.start()
    changes = await trees.changes(tree)
    watch.lap("changes")
    await trees.apply(changes, turn)
    watch.lap("apply")
    await trees.discard(tree)
    watch.lap("discard")
    return watch.spans


class Reused:
    """Takes steps in one work tree."""

    def __init__(self, trees: StepTrees) -> None:
        """Have no work tree yet."""
        self._trees = trees
        self._last: StepTree | None = None

    async def step(self, turn: str) -> Spans:
        """Take a step in the work tree of the last one."""
        watch = Watch()
        watch.start()
        tree = self._last = await self._trees.open("wf", turn, reuse=self._last)
        watch.lap("open")
        work(tree.path, turn)
        watch.start()
        changes = await self._trees.changes(tree)
        watch.lap("changes")
        await self._trees.apply(changes, turn)
        watch.lap("apply")
        watch.lap("discard")
        return watch.spans

    async def end(self) -> None:
        """Discard it."""
        if self._last is not None:
            await self._trees.discard(self._last)


class Whole:
    """Takes steps by the engine: context, choice of an agent, events and circuits, too.

    Its worker is a function here, and it has no gates: neither counts.
    """

    def __init__(self, engine: Engine, told: list[EngineEvent], root: Path) -> None:
        """Hear what is told of an engine."""
        self._engine, self._told, self._root = engine, told, root

    async def step(self, turn: str) -> Spans:
        """Take a step, from its beginning to the end of its workflow."""
        began = time.perf_counter()
        name = await self._engine.begin_run(
            "worker", f"Turn {turn}", (), rebase=False, actor="benchmark"
        )
        end = await self._engine.wait(name)
        spent = (time.perf_counter() - began) * 1000
        if end.cause is not None:
            raise RuntimeError(end.line)
        worked = [one.seconds for one in self._told if isinstance(one, WorkerAnswered)]
        return {"open": 0.0, "changes": 0.0, "apply": 0.0, "discard": spent - worked[-1] * 1000}


ROLE: Final = """cli: command
argv: [{python}, {program}]
system_prompt: Work.
output: implementation
context: {{git_diff: false, related: false}}
"""
PROGRAM: Final = """import json, sys, uuid
sys.path.insert(0, {checkout!r})
from pathlib import Path
from benchmarks.steps import work
work(Path("."), uuid.uuid4().hex)
print(json.dumps({{"status": "completed", "files_modified": ["a"], "changes": []}}))
"""


def role(root: Path) -> None:
    """Give the repository a role whose worker is a program of ours."""
    program = root.parent / "worker.py"
    checkout = str(Path(__file__).parents[1])
    program.write_text(PROGRAM.format(checkout=checkout))
    roles = root / ".supervisor" / "roles"
    roles.mkdir(parents=True)
    text = ROLE.format(python=sys.executable, program=program)
    (roles / "worker.yaml").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a role")


async def measured(root: Path, rounds: int) -> Mapping[str, list[Spans]]:
    """Take steps in turns; the first round counts for nobody."""
    told: list[EngineEvent] = []
    settings = EngineSettings(
        repository=root,
        state=root.parent / "state" / "runs.sqlite3",
        sandbox="process",
        listen=told.append,
    )
    async with (
        open_engine(settings) as engine,
        otpy.start(otpy.SupervisorSpec("App", [engine.spec()]), hooks=()),
    ):
        return await _in_turns(root, rounds, Whole(engine, told, root))


async def _in_turns(root: Path, rounds: int, whole: Whole) -> Mapping[str, list[Spans]]:
    trees = StepTrees(root)
    reused = Reused(trees)
    ways: dict[str, Callable[[str], Awaitable[Spans]]] = {
        "by hand": lambda turn: by_hand(root, turn),
        "otpy": lambda turn: ours(trees, turn),
        "reused": reused.step,
        "engine": whole.step,
    }
    found: dict[str, list[Spans]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            spans = await way(f"{name.replace(' ', '-')}-{number}")
            if number:
                found[name].append(spans)
    await reused.end()
    return found


@click.command()
@click.option("--files", default=10_000, show_default=True, help="Files of the repository.")
@click.option("--rounds", default=7, show_default=True, help="Steps of each kind.")
def main(files: int, rounds: int) -> None:
    """Measure a step without its worker and its gates, beside git by hand."""
    with tempfile.TemporaryDirectory() as folder:
        root = repository(Path(folder), files)
        role(root)
        found = asyncio.run(measured(root, rounds))
    parts = ("open", "changes", "apply", "discard")
    print(f"{files} files, medians of {rounds} rounds, milliseconds")
    print("".join(name.rjust(10) for name in ("", *parts, "whole")))
    whole: dict[str, float] = {}
    for name, spans in found.items():
        each = [median(one[part] for one in spans) for part in parts]
        if name == "engine":
            each = [0.0] * len(parts)  # by events alone its parts cannot be told apart
        whole[name] = median(sum(one.values()) for one in spans)
        print(name.rjust(10) + "".join(f"{value:10.0f}" for value in (*each, whole[name])))
    limit = whole["by hand"] * ALLOWED + ALLOWANCE
    for name in ("otpy", "engine"):
        verdict = "met" if whole[name] <= limit else "missed"
        ratio = whole[name] / whole["by hand"]
        print(f"{name} / by hand: {ratio:.2f}; allowed {limit:.0f} ms: {verdict}")
    print(f"a reused work tree saves {whole['otpy'] - whole['reused']:.0f} ms")


if __name__ == "__main__":
    main()
