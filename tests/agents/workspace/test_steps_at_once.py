"""Eight processes apply steps to one repository while a ninth commits to it."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from tests.agents.workspace.git_world import GitWorld
from tests.agents.workspace.step_host import started

pytestmark = pytest.mark.real_time

PROCESSES = 8
PAUSE = 0.6
"""Seconds between two commits of the ninth; each has all others rebase."""

STEPS = 2


class Ninth(threading.Thread):
    """A person who commits all the time, and is refused now and then."""

    def __init__(self, world: GitWorld) -> None:
        super().__init__()
        self._world = world
        self._over = threading.Event()
        self.committed: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._over.wait(PAUSE):
            number += 1
            name = f"person-{number}.txt"
            self._world.write(self._world.root, {name: f"{number}\n"})
            if self._git("add", name) and self._git("commit", "-q", "-m", name, "--", name):
                self.committed.append(name)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _git(self, *args: str) -> bool:
        try:
            self._world.git(*args)
        except subprocess.CalledProcessError as error:
            assert "lock" in error.stderr, error.stderr  # noqa: PT017 - nothing else may refuse
            return False
        return True


@pytest.mark.timeout(240)
def test_each_step_is_applied_once_or_refused_with_a_reason(git: GitWorld) -> None:
    """The log has every commit of the ninth process, too, and nothing else."""
    names = [f"wf-{number}" for number in range(PROCESSES)]
    ninth = Ninth(git)
    ninth.start()
    processes = [started(str(git.root), name, str(STEPS)) for name in names]
    try:
        said = [process.communicate(timeout=200)[0] for process in processes]
    finally:
        ninth.end()
        for process in processes:
            process.kill()
    told = dict(zip(names, said, strict=True))
    assert [process.returncode for process in processes] == [0] * PROCESSES
    outcomes = {
        f"{name} {step}": what
        for name, said in told.items()
        for step, what in json.loads(said).items()
    }
    assert len(outcomes) == PROCESSES * STEPS
    log = git.git("log", "--format=%H %s", "--reverse").splitlines()[1:]
    subjects = dict(line.split(" ", 1) for line in log)
    refused = {name for name, what in outcomes.items() if "conflicts in a.txt" in what}
    applied = {name: what for name, what in outcomes.items() if name not in refused}
    assert len(refused) < PROCESSES  # the first of them had no conflict
    assert {subjects[commit]: commit for commit in applied.values()} == applied
    assert sorted(subjects.values()) == sorted([*applied, *ninth.committed])
    assert git.git("rev-list", "--min-parents=2", "HEAD") == ""
    files = {path.name for path in git.root.iterdir()}
    assert {f"{name.replace(' ', '-')}.txt" for name in applied} <= files
    assert not {f"{name.replace(' ', '-')}.txt" for name in refused} & files
    left = {line[3:] for line in git.status(git.root).splitlines()}
    assert all(name.startswith("person-") and name not in ninth.committed for name in left)
    assert git.git("fsck", "--strict", "--no-dangling") == ""
    assert list(git.root.glob(".git/otpy-steps/trees/*")) == []
    assert list(git.root.glob(".worktrees/*/")) == []
    assert ninth.committed
