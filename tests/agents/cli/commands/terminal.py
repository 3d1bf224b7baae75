"""Terminals in which a user types `otpy-agents`, each command a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import psutil
from click.testing import CliRunner

from otpy_agents.cli import main
from otpy_agents.process.orphans import Orphan, find
from otpy_agents.sandbox.marker import run_marker
from tests.agents.host import ENVIRONMENT, PATIENCE, kill_with_guardians

FAILS_TWICE = """
import os, pathlib, sys
count = pathlib.Path("count")
tries = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (tries + 1))
if tries < 2:
    sys.exit("connection refused")
print("done:", os.environ["OTPY_PROMPT"])
"""
HANGS = "import time; print('up', flush=True); time.sleep(99)"
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], start_new_session=True)
print("up", flush=True)
time.sleep(99)
"""
SPEAKS_JSON = """
import json
for line in (
    {"type": "session", "id": "s9"},
    {"type": "tool", "id": "t", "name": "look"},
    {"type": "tool_end", "id": "t", "ok": True},
    {"type": "usage", "input": 1200, "output": 30, "cost_usd": 0.5},
    {"type": "result", "text": "It was the clock."},
):
    print(json.dumps(line), flush=True)
"""


@final
class Running:
    """A running command, followed by the lines it writes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.stderr = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def event(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read the output of `--json` until a wanted object comes, and return it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            one: dict[str, Any] = json.loads(line)
            if wanted(one):
                return one
        raise AssertionError(f"it never came; {self.end()}, {self.stderr}")

    def until(self, event: str, **attributes: object) -> dict[str, Any]:
        """Read until an event comes with these attributes, and return it."""
        return self.event(lambda one: one["event"] == event and attributes.items() <= one.items())

    def said(self, words: str) -> None:
        """Read the error stream until these words come."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.stderr += line
            if words in line:
                return
        raise AssertionError(f"{words!r} was never said: {self.stderr}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read the rest of the error stream, and return the exit status."""
        out, err = self._process.communicate(timeout=PATIENCE)
        self.stdout = out
        self.stderr += err
        return self._process.returncode

    def kill(self) -> None:
        """Kill the program alone."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def kill_with_guardians(self) -> None:
        """Kill the program and its guardians, so that its workers live on."""
        kill_with_guardians(self._process.pid)
        self._process.wait(PATIENCE)

    def close(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


@final
class Terminal:
    """A folder with a state file, and the commands typed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state" / "runs.sqlite3"
        self.environment = {
            **{name: text for name, text in ENVIRONMENT.items() if not name.startswith("OTPY_")},
            "OTPY_STATE": str(self.state),
        }
        self._running: list[Running] = []

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "otpy_agents", *words]

    def start(
        self, *words: str, env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL
    ) -> Running:
        """Type a command and do not wait for it."""
        process = subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(Running(process))
        return self._running[-1]

    def call(
        self, *words: str, env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Type a command and wait for it."""
        return subprocess.run(
            self.argv(*words),
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def call_here(
        self, *words: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        """Call a command in this process, for its output and its exit status.

        Its refusals are the same as in a process of its own, whose start takes time.
        """
        runner = CliRunner(env={**self.environment, **(env or {})})
        with contextlib.chdir(self.folder):
            result = runner.invoke(main, words, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)

    def runs(self) -> list[dict[str, Any]]:
        """Return the output of `otpy-agents runs --all`."""
        return [json.loads(line) for line in self._look("runs", "--all", "--json").splitlines()]

    def shown(self, run: str) -> dict[str, Any]:
        """Return the output of `otpy-agents runs show`."""
        shown: dict[str, Any] = json.loads(self._look("runs", "show", run, "--json"))
        return shown

    def _look(self, *words: str) -> str:
        """Return a command's output, without a process of its own, whose start takes time."""
        result = CliRunner().invoke(main, words, env={"OTPY_STATE": str(self.state)})
        assert result.exit_code == 0, result.output
        return result.stdout

    def close(self) -> None:
        """End every command started here."""
        ids = [run["id"] for run in self.runs()] if self._running else []
        for running in self._running:
            running.close()
        for orphan in (orphan for run in ids for orphan in survivors(run)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)


def survivors(run: str) -> list[Orphan]:
    """Return every living process of the attempts of a run."""
    return find(run_marker(run))


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
