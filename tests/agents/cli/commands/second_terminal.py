"""A tree that runs in a process of its own, and a second terminal for commands."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, final

from click.testing import CliRunner, Result

from otpy_agents.cli import main
from tests.agents.host import ENVIRONMENT, PATIENCE, Host, Site, state_of

BOT = r"""
import json, os, pathlib, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

here = pathlib.Path(__file__).parent
work = pathlib.Path(os.environ["OTPY_WORK"])
lives = work / "lives"
number = len(lives.read_text().split()) + 1 if lives.exists() else 1
with lives.open("a") as file:
    file.write("x ")
session = os.environ.get("OTPY_SESSION", "none")
say(type="session", id="s-1" if session == "none" else session)
say(type="text", text=f"life {number}, session {session}, told {os.environ['OTPY_PROMPT']!r}")
plan = sys.argv[1].split(",")
match plan[min(number, len(plan)) - 1]:
    case "spend":
        say(type="usage", input=60, output=40)
        time.sleep(60)
    case "ask":
        say(type="result", text="NEEDS INPUT: Which port?")
        sys.exit(0)
    case "ticks":
        for tick in range(1000):
            say(type="text", text=f"tick {tick}")
            time.sleep(0.02)
    case "waits":
        while not (here / "go").exists():
            time.sleep(0.02)
say(type="result", text="all good")
"""


def bot(second: SecondTerminal, id: str, plan: str, **keys: object) -> str:
    """Return an assignment for a scripted agent that is a real process."""
    (second.folder / "bot.py").write_text(BOT, encoding="utf-8")
    lines = [
        "[[assignment]]",
        f'id = "{id}"',
        'agent = "command"',
        'prompt = "Do it."',
        "grace = 0.5",
        f'argv = ["{{python}}", "{{here}}/bot.py", "{plan}"]',
        *(f"{key} = {json.dumps(value)}" for key, value in keys.items()),
    ]
    return "\n".join(lines) + "\n"


@final
class SecondTerminal:
    """A folder, the hosts at work in it, and the commands typed there."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(folder)
        self.folder = folder
        self.environment = {**ENVIRONMENT, **state_of(self.site.file)}

    @property
    def socket(self) -> Path:
        return self.folder / "w.sqlite.sock"

    def up(self, *tables: str, **keys: object) -> Host:
        """Write the list and start a host; at least one assignment is at work when this returns."""
        self.site.write(*tables, **keys)
        return self.again()

    def again(self) -> Host:
        """Start a host for the existing list."""
        host = self.site.up()
        late = time.monotonic() + PATIENCE
        while not self._works():
            assert time.monotonic() < late, (host.end(), host.stderr)
            time.sleep(0.02)
        return host

    def _works(self) -> bool:
        looked = self.type("status", str(self.site.file), "--json")
        if looked.exit_code:
            return False
        return any(one["attempts"] for one in json.loads(looked.stdout)["agents"])

    def go(self) -> None:
        """Let the waiting agents end."""
        (self.folder / "go").touch()

    def type(self, *words: str, where: Path | None = None) -> Result:
        """Type a command in the folder, or elsewhere."""
        before = Path.cwd()
        os.chdir(where or self.folder)
        try:
            return CliRunner().invoke(main, words, env={**state_of(self.site.file), "HOME": "/"})
        finally:
            os.chdir(before)

    def done(self, *words: str) -> str:
        """Type a command that must succeed, and return what it prints."""
        result = self.type(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def status(self) -> dict[str, Any]:
        """Return the output of `status --json`."""
        status: dict[str, Any] = json.loads(self.done("status", "--json"))
        return status

    def agent(self, name: str) -> dict[str, Any]:
        """Return the status of one agent."""
        (found,) = [one for one in self.status()["agents"] if one["agent"] == name]
        return dict(found)

    def until(self, name: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Poll an agent until a condition holds."""
        late = time.monotonic() + PATIENCE
        while not holds(seen := self.agent(name)):
            assert time.monotonic() < late, seen
            time.sleep(0.02)
        return seen

    def start(self, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """Type a command in a process of its own, and do not wait for it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "otpy_agents", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=stdout if stdout != subprocess.PIPE else subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
        self.site.processes.append(process)
        return process

    def commands(self) -> list[dict[str, Any]]:
        """Return the commands in the event log."""
        with closing(sqlite3.connect(self.folder / "state" / "events.sqlite3")) as database:
            database.row_factory = sqlite3.Row
            query = "SELECT * FROM commands ORDER BY CAST(id AS INTEGER)"
            return [dict(row) for row in database.execute(query)]

    def close(self) -> None:
        self.site.close()
