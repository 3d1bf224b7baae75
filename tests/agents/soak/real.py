"""A soak of real processes: `otpy-agents up --chaos` works a long list off, under observation."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import psutil
from attrs import define, field, frozen

from otpy_agents.process.orphans import find
from otpy_agents.sandbox.marker import list_marker
from tests.agents.host import ENVIRONMENT, command

__all__ = ["Look", "RealSoak", "soak_for_real"]

_BOT: Final = Path(__file__).with_name("bot.py")
_SECONDS: Final = (2.0, 8.0)  # useful work of one assignment
_EACH: Final = 8.0  # what one takes on average, with all its lives
_PATIENT: Final[Mapping[str, object]] = {
    "restarts": 60,
    "within": 60,
    "backoff": [0.2],
    "grace": 0.5,
}
_HOPELESS: Final[Mapping[str, object]] = {
    **_PATIENT,
    "expect": "reaped",
    "restarts": 1,
    "within": 600,
}
_RULES: Final = "rules: [{name: never, kind: command, block: [forbidden], action: reap}]\n"
_AGENT: Final[Mapping[str, object]] = {"agent": "command", "prompt": "Do it."}

_KINDS: Final[tuple[tuple[int, str, Mapping[str, object]], ...]] = (
    (6, "work", _PATIENT),
    (3, "crash", _PATIENT),
    (2, "die", _PATIENT),
    (3, "hang", {**_PATIENT, "stall": 10}),
    (3, "chatter", _PATIENT),
    (2, "leave", _PATIENT),
    (2, "leave-deaf", _PATIENT),
    (1, "hopeless", _HOPELESS),
    (1, "forbidden", {**_PATIENT, "expect": "reaped"}),
    (4, "work", {**_PATIENT, **_AGENT}),
    (2, "die", {**_PATIENT, **_AGENT}),
    (2, "hang", {**_PATIENT, **_AGENT, "stall": 10}),
    (2, "chatter", {**_PATIENT, **_AGENT}),
    (1, "leave-deaf", {**_PATIENT, **_AGENT}),
    (1, "hopeless", {**_HOPELESS, **_AGENT}),
)
"""How many there are of it in proportion, what it does, and its keys."""


@frozen
class Look:
    """The resources of the host at a moment."""

    at: float
    descriptors: int
    rss: int
    threads: int


@define
class RealSoak:
    """The result of a real soak.

    Attributes:
        status: Exit status of the host.
        seconds: Its duration.
        assignments: Their number.
        looks: The resources of the host, over time.
        events: The number of times that each event was told.
        wrong: The errors that were found; empty if all is well.
    """

    status: int = -1
    seconds: float = 0.0
    assignments: int = 0
    looks: list[Look] = field(factory=list[Look])
    events: Counter[str] = field(factory=Counter[str])
    wrong: list[str] = field(factory=list[str])

    def __str__(self) -> str:
        """Return the numbers."""
        told = ", ".join(f"{name}: {times}" for name, times in sorted(self.events.items()))
        early, late = self.quarters
        return (
            f"{self.assignments} assignments in {self.seconds:.0f} s, exit status {self.status}\n"
            f"  {told}\n"
            f"  descriptors {early.descriptors} -> {late.descriptors}, threads {early.threads} ->"
            f" {late.threads}, memory {early.rss >> 20} -> {late.rss >> 20} MiB, at most"
            f" {max((look.rss for look in self.looks), default=0) >> 20} MiB"
        )

    @property
    def quarters(self) -> tuple[Look, Look]:
        """The median resources of the host in the second quarter of the time, and in the last."""
        size = len(self.looks) // 4
        return _middle(self.looks[size : 2 * size]), _middle(self.looks[3 * size : 4 * size])


def _middle(looks: list[Look]) -> Look:
    if not looks:
        return Look(0.0, 0, 0, 0)
    return Look(
        looks[0].at,
        *(
            int(median(values))
            for values in zip(
                *((one.descriptors, one.rss, one.threads) for one in looks), strict=True
            )
        ),
    )


def soak_for_real(
    folder: Path, *, seconds: float, parallel: int, chaos: float, seed: int
) -> RealSoak:
    """Work a list off that takes about `seconds`, and check it.

    Args:
        folder: An empty one.
        seconds: Its duration, about.
        parallel: The number of workers at the same time.
        chaos: Workers killed per second.
        seed: Of the list; what chaos kills is drawn by the host.
    """
    soak = RealSoak()
    file = folder / "w.toml"
    ends = _write(file, max(len(_KINDS), round(seconds * parallel / _EACH)), parallel, seed)
    soak.assignments = len(ends)
    began = time.monotonic()
    environment = {**ENVIRONMENT, "OTPY_STATE": str(folder / "runs.sqlite3")}
    with (folder / "events").open("wb") as events, (folder / "stderr").open("wb") as stderr:
        host = subprocess.Popen(
            command(file, "--json", "--chaos", str(chaos)),
            env={**environment, "SOAK_DID": str(folder / "did")},
            stdout=events,
            stderr=stderr,
        )
        try:
            _watch(host, soak.looks, limit=began + 4 * seconds + 60)
        finally:
            host.kill()
            soak.status = host.wait()
            soak.wrong += _survivors(folder)
    soak.seconds = time.monotonic() - began
    soak.wrong += _audit(folder, soak, ends)
    return soak


def _write(file: Path, count: int, parallel: int, seed: int) -> dict[str, str]:
    """Write the list; return the end that each of its assignments must have."""
    chance = Random(seed)
    kinds = [(kind, keys) for share, kind, keys in _KINDS for _ in range(share)]
    drawn = [kinds[number % len(kinds)] for number in range(count)]
    chance.shuffle(drawn)
    tables, ends = [f'[list]\nparallel = {parallel}\nrule_file = "rules.yaml"\n'], dict[str, str]()
    for number, (kind, keys) in enumerate(drawn):
        name = f"{kind}-{'agent' if 'agent' in keys else 'program'}-{number}"
        argv = [sys.executable, str(_BOT), kind, f"{chance.uniform(*_SECONDS):.1f}"]
        lines = {"id": name, "argv": argv, **keys}
        shown = (f"{key} = {json.dumps(value)}" for key, value in lines.items())
        tables.append("[[assignment]]\n" + "\n".join(shown) + "\n")
        ends[name] = str(keys.get("expect", "done"))
    file.write_text("\n".join(tables), encoding="utf-8")
    file.with_name("rules.yaml").write_text(_RULES, encoding="utf-8")
    return ends


def _watch(host: subprocess.Popen[bytes], looks: list[Look], limit: float) -> None:
    """Look at the host until it ends, or it takes too long."""
    process, began = psutil.Process(host.pid), time.monotonic()
    while host.poll() is None and time.monotonic() < limit:
        with contextlib.suppress(psutil.Error):
            looks.append(
                Look(
                    time.monotonic() - began,
                    process.num_fds(),
                    process.memory_info().rss,
                    process.num_threads(),
                )
            )
        time.sleep(1.0)


def _audit(folder: Path, soak: RealSoak, ends: dict[str, str]) -> Iterator[str]:
    if soak.status != 0:
        yield f"exit status {soak.status}: {(folder / 'stderr').read_text()[-2000:]}"
    told: Counter[tuple[str, str]] = Counter()
    with (folder / "events").open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            told[event["event"], event["id"]] += 1
            soak.events[event["event"]] += 1
    did = Counter((folder / "did").read_text().split())
    rows = _rows(folder / "w.sqlite", "assignment")
    if {row["id"] for row in rows} != set(ends):
        yield "the ledger has other assignments than the list"
    for row in rows:
        yield from _account(row, ends[row["id"]], told, did[row["id"]])
    for row in _rows(folder / "w.sqlite", "attempt"):
        if row["ended"] is None:
            yield f"a life of {row['assignment']} has no end"
    for row in _rows(folder / "runs.sqlite3", "run"):
        if row["finished"] is None:
            yield f"run {row['id']} of {row['label']} is not over but {row['status']}"
    yield from _growth(soak)


def _survivors(folder: Path) -> Iterator[str]:
    """Yield the processes of the list that are still alive, and end them."""
    for row in _rows(folder / "w.sqlite", "identity"):
        for orphan in find(list_marker(row["list_id"])):
            yield f"still alive: {orphan}"
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)


def _account(
    row: dict[str, Any], wanted: str, told: Counter[tuple[str, str]], did: int
) -> Iterator[str]:
    """Check that an assignment came out as it must, was told once, and did its work once."""
    name, state = row["id"], row["state"]
    if state != wanted:
        yield f"{name} is {state} ({row['reason']}), wanted {wanted}"
    if state != "done" and not row["reason"]:
        yield f"{name} is {state} without a reason"
    ends = {end: told[f"mortal.{end}", name] for end in ("done", "reaped", "failed")}
    if ends != {**dict.fromkeys(ends, 0), state: 1}:
        yield f"{name} is {state}, its ends were told as {ends}"
    # A worker that is killed between its work and its end does it once more, unavoidably.
    most = 1 + told["chaos.killed", name]
    if not (1 <= did <= most if state == "done" else did == 0):
        yield f"{name} is {state}, and did its work {did} times"


def _growth(soak: RealSoak) -> Iterator[str]:
    """Check that the resources of the host did not grow."""
    early, late = soak.quarters
    if late.descriptors > early.descriptors + 20:
        yield f"descriptors grew from {early.descriptors} to {late.descriptors}"
    if late.threads > early.threads + 10:
        yield f"threads grew from {early.threads} to {late.threads}"
    if late.rss > early.rss * 1.5 + (20 << 20):
        yield f"memory grew from {early.rss >> 20} to {late.rss >> 20} MiB"


def _rows(path: Path, table: str) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f"SELECT * FROM {table}")]  # noqa: S608
