"""`otpy-agents run` with real CLIs, from the command line to the answer."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import pytest

from otpy_agents.process.orphans import find
from otpy_agents.sandbox.marker import run_marker
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import Home
from tests.agents.fake_api import INPUT_TOKENS, Answer, Error, FakeApi, Hang, Refuse
from tests.agents.host import ENVIRONMENT
from tests.agents.sandbox.conftest import bubblewrap as bubblewrap  # noqa: PLC0414 - a fixture

# Long enough to install the CLIs; an attempt takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

FALLBACK = ("--agent", "claude", "--fallback", "codex")


@final
class Desk:
    """A folder with agents and a state file, and the commands typed there.

    Args:
        homes: The homes of the agents; the commands run in the last one.
    """

    def __init__(self, *homes: Home) -> None:
        self._homes = homes
        merged: dict[str, str] = {}
        for home in homes:
            merged |= home.environment
        self._environment: Mapping[str, str] = {
            **merged,
            "PYTHONPATH": ENVIRONMENT["PYTHONPATH"],
            "OTPY_STATE": str(homes[-1].work.parent / "runs.sqlite3"),
        }

    async def start(self, *words: str) -> Process:
        """Type a command and do not wait for it."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "otpy_agents", *words),
            cwd=self._homes[-1].work,
            env=self._environment,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=1 << 24,
        )

    async def call(self, *words: str) -> tuple[int | None, str, str]:
        """Type a command, and return its exit status and its output."""
        process = await self.start(*words)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    def processes(self) -> list[str]:
        """Return the processes that still run here."""
        return [line for home in self._homes for line in home.processes()]


async def until(process: Process, event: str) -> dict[str, Any]:
    """Read the output of `--json` until this event comes."""
    assert process.stdout is not None
    async for line in process.stdout:
        told: dict[str, Any] = json.loads(line)
        if told["event"] == event:
            return told
    raise AssertionError(f"{event} never came: {await process.communicate()}")


def over(events: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    records = [one["record"] for one in events if one["event"] == "attempt.over"]
    return [(record["agent_id"], record["detail"]) for record in records]


async def test_claude_is_tried_again_after_an_overload(home_of: MakeHome) -> None:
    """The command waits, reports it, and prints the answer of the second attempt."""
    async with FakeApi(Refuse(Error.OVERLOADED), Answer("It was the clock.")) as api:
        desk = Desk(home_of("claude", api.url))
        words = ("--agent", "claude", "--backoff-base", "0.25", "--json")
        status, out, err = await desk.call("run", "Why does it fail?", *words)
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, ""), events
    assert over(events) == [("claude", "overloaded"), ("claude", None)]
    (wait,) = [one for one in events if one["event"] == "wait.began"]
    assert (wait["reason"], wait["retry"]) == ("backoff", 1)
    assert wait["delay"] == pytest.approx(0.25, abs=0.01)
    ended = events[-1]
    assert (ended["event"], ended["answer"]) == ("run.ended", "It was the clock.")
    assert ended["result"]["usage"]["input"] == INPUT_TOKENS
    assert desk.processes() == []


async def test_codex_takes_over_from_claude(home_of: MakeHome) -> None:
    """It does so once the quota is used up; standard output has the answer alone."""
    async with FakeApi(Refuse(Error.QUOTA), Answer("It was the clock.")) as api:
        desk = Desk(home_of("claude", api.url), home_of("codex", api.url))
        status, out, err = await desk.call("run", "Why does it fail?", *FALLBACK)
        assert [exchange.dialect for exchange in api.exchanges] == [
            "Anthropic Messages",
            "OpenAI Responses",
        ]
    assert (status, out) == (0, "It was the clock.\n"), err
    for line in (
        "run ",
        ": claude -> codex",
        "attempt 1: failed: quota",
        "switching from claude to codex",
        "attempt 2: codex (fallback)",
        "attempt 2: ok",
        "done (succeeded)  2 attempts in ",
    ):
        assert line in err
    assert desk.processes() == []


async def test_a_second_terminal_brings_codex_while_claude_is_waited_for(
    home_of: MakeHome,
) -> None:
    """`force-fallback` cuts a wait of ten minutes."""
    async with FakeApi(Refuse(Error.OVERLOADED), Answer("from codex")) as api:
        desk = Desk(home_of("claude", api.url), home_of("codex", api.url))
        words = (*FALLBACK, "--backoff-base", "600", "--json")
        first = await desk.start("run", "Why does it fail?", *words)
        run = (await until(first, "wait.began"))["run"]
        status, _, err = await desk.call("runs", "force-fallback", run[:4])
        assert (status, err) == (0, "")
        ended = await until(first, "run.ended")
        assert (ended["answer"], ended["result"]["agent_used"]) == ("from codex", "codex")
        assert await first.communicate() == (b"", b"")
        assert first.returncode == 0
    assert desk.processes() == []


async def test_a_second_terminal_cuts_the_wait_for_claude(home_of: MakeHome) -> None:
    """`retry-now` begins the next attempt; before that, `runs` shows the wait."""
    async with FakeApi(Refuse(Error.OVERLOADED), Answer("at last")) as api:
        desk = Desk(home_of("claude", api.url))
        words = ("--agent", "claude", "--backoff-base", "600", "--json")
        first = await desk.start("run", "Why does it fail?", *words)
        run = (await until(first, "wait.began"))["run"]
        _, listed, _ = await desk.call("runs")
        assert "retrying (1/3)" in listed
        assert (await desk.call("runs", "retry-now", run))[0] == 0
        assert (await until(first, "run.ended"))["answer"] == "at last"
        await first.communicate()
    assert desk.processes() == []


@pytest.mark.parametrize("cli", ["claude", "codex"])
@pytest.mark.parametrize(
    ("number", "status", "ending"),
    [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "stopped")],
)
async def test_a_signal_leaves_no_agent_behind(
    cli: str, number: signal.Signals, status: int, ending: str, home_of: MakeHome
) -> None:
    """The signal comes in the middle of a request, and the CLI may react to it in its own way."""
    async with FakeApi(Hang()) as api:
        desk = Desk(home_of(cli, api.url))
        first = await desk.start("run", "Why does it fail?", "--agent", cli, "--json")
        await api.asked()
        assert desk.processes()
        first.send_signal(number)
        ended = await until(first, "run.ended")
        assert ended["result"]["ending"] == ending
        await first.communicate()
    assert first.returncode == status
    assert find(run_marker(ended["run"])) == []
    assert desk.processes() == []


@pytest.mark.parametrize(
    ("command", "status", "ending"), [("cancel", 130, "cancelled"), ("kill", 137, "killed")]
)
async def test_a_second_terminal_ends_codex(
    command: str, status: int, ending: str, home_of: MakeHome
) -> None:
    """It ends in good order or at once; no process is left."""
    async with FakeApi(Hang()) as api:
        desk = Desk(home_of("codex", api.url))
        first = await desk.start("run", "Why does it fail?", "--agent", "codex", "--json")
        run = (await until(first, "run.began"))["run"]
        await api.asked()
        assert (await desk.call("runs", command, run))[0] == 0
        assert (await until(first, "run.ended"))["result"]["ending"] == ending
        await first.communicate()
    assert first.returncode == status
    assert find(run_marker(run)) == []
    assert desk.processes() == []


async def test_a_killed_host_is_gone_on_with(home_of: MakeHome) -> None:
    """`runs` shows the command to type; the left agent is ended, and a new attempt begins."""
    async with FakeApi(Hang(), Answer("after all")) as api:
        desk = Desk(home_of("claude", api.url))
        first = await desk.start("run", "Why does it fail?", "--agent", "claude", "--json")
        run = (await until(first, "run.began"))["run"]
        await api.asked()
        first.kill()
        assert desk.processes()  # for a moment: a guardian ends them
        await first.communicate()
        _, listed, err = await desk.call("runs")
        assert "interrupted" in listed
        assert f"`otpy-agents runs resume {run}` goes on with it" in err
        status, out, err = await desk.call("runs", "resume", run)
    assert (status, out) == (0, "after all\n"), err
    assert "attempt 2: claude (interrupted)" in err
    assert desk.processes() == []


def use_once(home: Home, cli: str) -> None:
    """Make the folder that the first use of a CLI makes."""
    Path(home.environment["HOME"], f".{cli}").mkdir(exist_ok=True)


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
@pytest.mark.usefixtures("bubblewrap")
async def test_an_agent_works_in_bubblewrap(cli: str, home_of: MakeHome) -> None:
    """It has its login and its sessions there, and no other place to write."""
    async with FakeApi(Answer("It was the clock.")) as api:
        home = home_of(cli, api.url)
        use_once(home, cli)
        desk = Desk(home)
        model = ("--model", "gemini-2.5-flash") if cli == "gemini" else ()
        words = ("--agent", cli, *model, "--sandbox", "bubblewrap", "--network", "-q")
        status, out, err = await desk.call("run", "Why does it fail?", *words)
    assert (status, out, err) == (0, "It was the clock.\n", "")
    assert desk.processes() == []
