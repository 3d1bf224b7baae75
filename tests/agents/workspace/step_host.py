"""A program that works on steps in processes which it forks, and which may be killed at any point.

It reads one order a line, as JSON, and answers each with the exit status of its process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from otpy_agents.errors import ApplyConflict, HeadMoved, WorktreeLocked
from otpy_agents.workspace import StepTree, StepTrees
from otpy_agents.workspace.git import Git, GitAnswer

KILLED = -signal.SIGKILL
WORK = {"a.txt": "changed\n", "new/c.txt": "new\n", "new/d.txt": "d\n" * 5000}
GONE = "gone.txt"


class Executioner:
    """Kills this process before or after its n-th git command, or while that runs."""

    def __init__(self, at: int, when: str) -> None:
        self._left = at
        self._when = when
        self._real = Git._communicate
        self._spawn = asyncio.create_subprocess_exec

    def arm(self) -> None:
        outer = self

        async def communicate(git: Git, *args: Any) -> GitAnswer:
            outer._left -= 1
            outer._due("before")
            answer = await outer._real(git, *args)
            outer._due("after")
            return answer

        async def spawn(*args: Any, **kwargs: Any) -> asyncio.subprocess.Process:
            process = await outer._spawn(*args, **kwargs)
            outer._due("during")
            return process

        Git._communicate = communicate  # type: ignore[assignment,method-assign]
        asyncio.create_subprocess_exec = spawn

    def _due(self, when: str) -> None:
        if self._left == 0 and when == self._when:
            os.kill(os.getpid(), signal.SIGKILL)


def leave_work(tree: StepTree) -> None:
    """Change files as a worker does."""
    for name, text in WORK.items():
        (tree.path / name).parent.mkdir(exist_ok=True)
        (tree.path / name).write_text(text)
    (tree.path / GONE).unlink()


async def one_of_many(root: Path, workflow: str, count: int) -> dict[str, str]:
    """Work on steps beside other processes; return the outcome of each."""
    trees = StepTrees(root)
    told: dict[str, str] = {}
    for number in range(count):
        step = f"step-{number}"
        tree = await trees.open(workflow, step)
        (tree.path / f"{workflow}-{step}.txt").write_text(step)
        if number % 2:  # other processes change it, too
            (tree.path / "a.txt").write_text(f"{workflow} {step}\n")
        while step not in told:
            try:
                told[step] = await trees.apply(await trees.changes(tree), f"{workflow} {step}")
            except (HeadMoved, WorktreeLocked):
                try:
                    tree = await trees.rebase(tree)
                except ApplyConflict as error:
                    told[step] = str(error)
        await trees.discard(tree)
    return told


Arm = Callable[[], None]


async def opening(trees: StepTrees, arm: Arm) -> None:
    arm()
    await trees.open("wf-1", "step-1")


async def applying(trees: StepTrees, arm: Arm) -> None:
    tree = await trees.open("wf-1", "step-1")
    leave_work(tree)
    changes = await trees.changes(tree)
    arm()
    await trees.apply(changes, "Do it")


async def reusing(trees: StepTrees, arm: Arm) -> None:
    tree = await trees.open("wf-1", "step-1")
    leave_work(tree)
    await trees.apply(await trees.changes(tree), "Do it")
    arm()
    await trees.open("wf-1", "step-2", reuse=tree)


async def rebasing(trees: StepTrees, arm: Arm) -> None:
    tree = await trees.open("wf-1", "step-1")
    leave_work(tree)
    changes = await trees.changes(tree)
    (tree.path.parent.parent / "other.txt").write_text("other\n")
    user = ("git", "-c", "user.name=ann", "-c", "user.email=ann@localhost")
    for command in (("add", "other.txt"), ("commit", "-q", "-m", "other", "--", "other.txt")):
        subprocess.run([*user, *command], cwd=tree.path.parent.parent, check=True)  # noqa: ASYNC221
    arm()
    await trees.rebase(tree, changes)


async def discarding(trees: StepTrees, arm: Arm) -> None:
    tree = await trees.open("wf-1", "step-1")
    leave_work(tree)
    arm()
    await trees.discard(tree)


async def settling(trees: StepTrees, arm: Arm) -> None:
    arm()
    await trees.settle_apply()
    for tree in await trees.leftovers():
        await trees.settle(tree)


ORDERS: dict[str, Callable[[StepTrees, Arm], Awaitable[None]]] = {
    "open": opening,
    "apply": applying,
    "reuse": reusing,
    "rebase": rebasing,
    "discard": discarding,
    "settle": settling,
}


def carry_out(order: str, root: str, at: int, when: str) -> None:
    trees = StepTrees(Path(root))
    asyncio.run(ORDERS[order](trees, Executioner(at, when).arm))  # type: ignore[arg-type]


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                carry_out(*json.loads(line))
            except BaseException:  # noqa: BLE001 - it ends here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def started(*arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
    """Start the program."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.agents.workspace.step_host", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=Path(__file__).parents[3],
    )


class StepHosts:
    """The program, from outside."""

    def __enter__(self) -> Self:
        self._process = started(stdin=subprocess.PIPE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            pass

    def order(self, name: str, root: Path, at: int = 0, when: str = "") -> int:
        """Have a process work on a step; return its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([name, str(root), at, when]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def main() -> None:
    if len(sys.argv) == 1:
        serve()
    else:
        _, root, workflow, count = sys.argv
        told = asyncio.run(one_of_many(Path(root), workflow, int(count)))
        sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
