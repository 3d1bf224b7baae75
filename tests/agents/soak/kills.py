"""Kill the host of a list again and again, at random moments, and audit the result.

python -m tests.agents.soak --kills 100
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final

import psutil
from attrs import define, field

from tests.agents.host import Host, Site, entry, survivors

__all__ = ["Kills", "kill_again_and_again"]

_GONE: Final = 5.5  # seconds after the end of its host by which a worker has left nothing
_GIT: Final = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")


@define
class Kills:
    """The result of many kills.

    Attributes:
        kills: The number of hosts that were killed.
        cut: The number of workers that they hit.
        slowest: Seconds until the last worker of a killed host was gone.
        repeated: Ends that a host told, and the next one again: it was killed in between.
        wrong: The errors that were found.
    """

    kills: int
    cut: int = 0
    slowest: float = 0.0
    repeated: list[str] = field(factory=list[str])
    wrong: list[str] = field(factory=list[str])


def kill_again_and_again(
    folder: Path,
    *,
    kills: int,
    seed: int,
    more: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    life: float = 1.2,
) -> Kills:
    """Work a list of programs and agents off under hosts that are killed.

    Args:
        folder: An empty one.
        kills: The number of kills.
        seed: Of the list, and of the moments.
        more: Tables of more agents by their names; each has to commit `NAME.txt` in its work tree
            of `repository`, and may finish more than once, as those of a real CLI do.
        environment: Variables of the hosts beside those of this process.
        life: Most seconds of a host at work.
    """
    chance, books = Random(seed), Kills(kills)
    repository = folder / "repository"
    _git(folder, "init", "-q", str(repository))
    _git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    site = Site(folder)
    programs = [f"p{number}" for number in range(4 * kills)]
    agents = [f"a{number}" for number in range(max(2, kills // 5))]
    mixed = [_program(site, name, chance) for name in programs]
    mixed += [_agent(site, name, chance) for name in agents]
    chance.shuffle(mixed)
    more = more or {}
    site.write(*more.values(), *mixed, parallel=4 + len(more))
    told, again = Counter[str](), Counter[str]()
    try:
        for _ in range(kills):
            host = site.up(env=environment)
            _kill_somewhen(host, chance, life)
            told.update(host.told("mortal.done", earlier=False))
            again.update(host.told("mortal.done", earlier=True))
            books.cut += len(set(host.told("mortal.started")) - set(host.told("mortal.done")))
            if chance.random() < 0.5:  # else the next host comes while the guardians are at work
                _wait(site, books)
        last = site.up(env=environment)
        status = last.end()
        told.update(last.told("mortal.done", earlier=False))
        again.update(last.told("mortal.done", earlier=True))
        books.repeated = [*(told & again).elements()]
        wrong = [name for name in (*programs, *agents, *more) if not told[name] + again[name]]
        books.wrong += [f"nobody told that {name} is done" for name in wrong]
        _audit(books, site, status, last.summary(), told, programs, agents, [*more])
    finally:
        site.close()
    return books


def _kill_somewhen(host: Host, chance: Random, life: float) -> None:
    """Kill a host while it begins or, more often, while it works."""
    timer = threading.Timer(chance.uniform(0, life), host.kill)
    lines = iter(host)
    if chance.random() < 0.75:
        next(lines, None)
    timer.start()
    for _ in lines:
        pass
    timer.join()


def _program(site: Site, name: str, chance: Random) -> str:
    seconds = chance.uniform(0.2, 1.2)
    end = f"sleep {seconds:.2f}; echo {name} >>{shlex.quote(str(site.did))}"
    if chance.random() < 0.3:  # with a daemon that only its guardian finds
        end = f"env -i setsid sleep 600 & {end}"
    return entry(name, ["sh", "-c", end], grace=1.0)


def _agent(site: Site, name: str, chance: Random) -> str:
    seconds = chance.uniform(0.2, 1.2)
    git = " ".join(_GIT)
    work = (
        f"echo x >{name}.txt; {git} add -A; {git} commit -qm {name}; sleep {seconds:.2f};"
        f" echo {name} >>{shlex.quote(str(site.did))}; echo all good"
    )
    keys = {"agent": "command", "prompt": "Do it.", "changeset": "repository"}
    return entry(name, ["sh", "-c", work], grace=1.0, **keys)


def _wait(site: Site, books: Kills) -> None:
    began = time.monotonic()
    while (left := list(_at_work(site))) and time.monotonic() - began < 2 * _GONE:
        time.sleep(0.02)
    took = time.monotonic() - began
    books.slowest = max(books.slowest, took)
    if left or took > _GONE:
        books.wrong.append(f"{len(left)} processes live {took:.1f} s after their host")


def _at_work(site: Site) -> Iterator[str]:
    """Yield the processes in the folder of the list, guardians and daemons included."""
    folder = str(site.folder)
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(folder):
                yield f"{process.pid} {process.name()}"
        except (psutil.Error, OSError):
            pass


def _audit(
    books: Kills,
    site: Site,
    status: int,
    summary: dict[str, str],
    told: Counter[str],
    programs: list[str],
    agents: list[str],
    more: list[str],
) -> None:
    wrong, names, did = books.wrong, [*programs, *agents, *more], Counter(site.did_what())
    if status != 0 or summary != dict.fromkeys(summary, "done") or set(summary) != set(names):
        wrong.append(f"status {status}: {[name for name in names if summary.get(name) != 'done']}")
    once = (*programs, *agents)
    wrong += [f"{name} finished {did[name]} times" for name in once if did[name] != 1]
    wrong += [f"{name} was told done {times} times" for name, times in told.items() if times > 1]
    _wait(site, books)
    wrong += [f"{one} is left" for one in (*survivors(site.file), *_at_work(site))]
    repository = site.folder / "repository"
    branches = _git(repository, "branch", "--format=%(refname:short)").split()
    trees = _git(repository, "worktree", "list", "--porcelain").split("\n\n")
    for name in (*branches, *(tree.split("\n")[0] for tree in trees if tree)):
        mine = name in {"main", "master"} or name.endswith("/repository")
        if not mine and not any(name.endswith((f"/{one}", f"-{one}")) for one in (*agents, *more)):
            wrong.append(f"{name} belongs to nobody")
    for name in (*agents, *more):
        (branch,) = [one for one in branches if one.endswith(f"/{name}")] or [""]
        files = _git(repository, "ls-tree", "--name-only", branch).split() if branch else []
        if files != [f"{name}.txt"]:
            wrong.append(f"{name} has {files} on {branch!r}")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*_GIT, *words], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    return done.stdout
