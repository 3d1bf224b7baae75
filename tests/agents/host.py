"""`otpy-agents up` as a process of its own, followed by the lines it writes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import psutil

from otpy_agents.process.orphans import Orphan, find
from otpy_agents.sandbox.marker import list_marker

CHECKOUT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(CHECKOUT / name) for name in ("", "agents", "monitors")),
    "PYTHONUNBUFFERED": "1",
    "NO_COLOR": "1",
}
PATIENCE = 30.0  # generous: it is only ever waited out when something is broken

Event: TypeAlias = dict[str, Any]


def command(file: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "otpy_agents", "up", str(file), *options]


def state_of(file: Path) -> dict[str, str]:
    """Return the variables that keep the state of the user beside the list."""
    return {"OTPY_STATE": str(file.parent / "state" / "runs.sqlite3")}


@final
class Host:
    """A host at work; what it says on stderr is kept until it has ended."""

    def __init__(self, file: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.file = file
        self.events: list[Event] = []
        self.stderr = ""
        self._process = subprocess.Popen(
            command(file, "--json", *options),
            env={**ENVIRONMENT, **state_of(file), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __iter__(self) -> Iterator[Event]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))
            yield self.events[-1]

    def until(self, event: str, id: str | None = None, **detail: str) -> Event:
        """Read on until an event comes, and return it."""
        for one in self:
            named = one["event"] == event and id in {None, one["id"]}
            if named and detail.items() <= one.items():
                return one
        raise AssertionError(f"{event} never came: {self.events} {self.end()} {self.stderr}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def said(self, words: str) -> None:
        """Wait for a line on stderr."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.stderr += line
            if words in line:
                return
        raise AssertionError(f"{words!r} was never said: {self.stderr}")

    def end(self) -> int:
        """Read everything else, and return the exit status."""
        list(self)
        assert self._process.stderr is not None
        self.stderr += self._process.stderr.read()
        return self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill the host, and nothing but the host."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def kill_with_guardians(self) -> None:
        """Kill the host, and let its workers live on."""
        kill_with_guardians(self._process.pid)
        self._process.wait(PATIENCE)

    def close(self) -> None:
        """End everything, after any outcome of the test."""
        self.kill()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    # --- what it said -----------------------------------------------------------------------------

    def told(self, event: str, *, earlier: bool | None = None) -> list[str]:
        """Return the ids of an event, in order; `earlier`: only under an earlier host, or not."""
        told = [one for one in self.events if one["event"] == event]
        return [one["id"] for one in told if earlier in {None, "earlier" in one}]

    def output(self, id: str) -> list[str]:
        """Return the lines a worker wrote."""
        lines = [one for one in self.events if one["event"] == "mortal.output"]
        return [one["line"] for one in lines if one["id"] == id]

    def summary(self) -> dict[str, str]:
        """Return the end of each assignment."""
        return {one["id"]: one["ended"] for one in self.events if one["event"] == "summary"}


@final
class Site:
    """A folder with a work list, and the hosts that work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "w.toml"
        self.did = folder / "did"
        self.hosts: list[Host] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def write(self, *tables: str, **keys: object) -> None:
        """Write the list."""
        head = "\n".join(f"{key} = {value!r}" for key, value in keys.items())
        self.file.write_text("\n".join([f"[list]\n{head}", *tables]), encoding="utf-8")

    def up(self, *options: str, env: Mapping[str, str] | None = None) -> Host:
        """Start a host."""
        self.hosts.append(Host(self.file, *options, env=env))
        return self.hosts[-1]

    def run(self, *options: str) -> tuple[int, Host]:
        """Run a host to its end."""
        host = self.up(*options)
        return host.end(), host

    def close(self) -> None:
        """End everything that was started here."""
        for host in self.hosts:
            host.close()
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE)
            if process.stderr is not None:
                process.stderr.close()
        for orphan in survivors(self.file) if self.hosts or self.processes else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)

    def did_what(self) -> list[str]:
        """Return the words of the workers in the file of deeds, in order."""
        return self.did.read_text(encoding="utf-8").split() if self.did.exists() else []


def kill_with_guardians(host: int) -> None:
    """Kill a host, by its pid, and its guardians, so that its workers live on."""
    os.kill(host, signal.SIGSTOP)  # it would end them when it hears of the death of a guardian
    for guardian in psutil.Process(host).children():
        guardian.kill()
    os.kill(host, signal.SIGKILL)


def once(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command without `--json`."""
    return subprocess.run(
        command(file, *options),
        env={**ENVIRONMENT, **state_of(file)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def entry(id: str, argv: Sequence[str], **keys: object) -> str:
    """Return an assignment."""
    lines = ["[[assignment]]", f'id = "{id}"', f"argv = {json.dumps(argv)}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def shell(id: str, code: str, **keys: object) -> str:
    """Return an assignment that runs a piece of shell; `$DID` is the file of deeds."""
    return entry(id, ["sh", "-c", f"DID='{{here}}/did'; {code}"], **keys)


def python(id: str, code: str, **keys: object) -> str:
    """Return an assignment that runs a piece of Python."""
    return entry(id, ["{python}", "-c", code], **keys)


def survivors(file: Path) -> list[Orphan]:
    """Return every living process that any host of this list has started."""
    state = file.with_suffix(".sqlite")
    if not state.exists():
        return []
    with contextlib.closing(sqlite3.connect(state)) as database:
        rows = database.execute("SELECT list_id FROM identity").fetchall()
    return [orphan for (list_id,) in rows for orphan in find(list_marker(list_id))]
