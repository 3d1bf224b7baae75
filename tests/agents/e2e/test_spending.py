"""The usage of real CLIs, by the vendor's own count: during the work, and after a cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sqlite3
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import psutil
import pytest

from otpy_agents.run import Usage
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import Home
from tests.agents.e2e.test_run_command import Desk
from tests.agents.e2e.test_tools import shell
from tests.agents.fake_api import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Answer,
    Exchange,
    FakeApi,
    Hang,
    UseTool,
)
from tests.agents.host import Site, survivors

# Long enough to install the CLIs; a run takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

AGENTS: Final = ("claude", "codex", "copilot", "gemini")
AGENT: Final = pytest.mark.parametrize("cli", AGENTS)
SOON: Final = 20.0
"""Seconds within which something must be told; waited out only when it never is."""
EACH: Final = INPUT_TOKENS + OUTPUT_TOKENS
"""Tokens of one request."""
KILLS: Final = 3
WRITTEN: Final = 1.0
"""Seconds in which a CLI has certainly written to its file what it was answered."""


def counted(exchanges: list[Exchange]) -> dict[str, int]:
    """Return the tokens that the vendor has answered and counted."""
    return times(sum(isinstance(one.reply, Answer | UseTool) for one in exchanges))


def times(times: int) -> dict[str, int]:
    """Return the tokens of this many answers."""
    return {
        "input": times * INPUT_TOKENS,
        "cached": times * CACHED_TOKENS,
        "output": times * OUTPUT_TOKENS,
    }


def tokens(usage: dict[str, Any] | Usage) -> dict[str, int]:
    """Return the tokens of a usage, without what they cost."""
    if isinstance(usage, Usage):
        return {"input": usage.input, "cached": usage.cached, "output": usage.output}
    return {name: usage[name] for name in ("input", "cached", "output")}


def words(cli: str) -> list[str]:
    """Return the options for an agent that may run any command."""
    model = ["--model", "gemini-2.5-flash"] if cli == "gemini" else []
    # Root cannot switch off the guards of claude, which allows echo anyway.
    access = [] if cli == "claude" else ["--access", "full"]
    return ["--agent", cli, *access, *model]


def spendings(events: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return each reading that was told, in order."""
    said = [one["said"] for one in events if one["event"] == "attempt.event"]
    return [tokens(one["usage"]) for one in said if one["type"] == "Spent"]


@contextlib.asynccontextmanager
async def started(desk: Desk, *typed: str) -> AsyncGenerator[Process]:
    """Type a command, and kill it at the end if it still runs."""
    process = await desk.start(*typed)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def asked(api: FakeApi, times: int) -> None:
    """Wait for this many requests, and until the earlier answers are written down."""
    async with asyncio.timeout(SOON):
        await api.asked(times)
    await asyncio.sleep(WRITTEN)


def charged(site: Site) -> int:
    """Return the tokens in the accounts of a list."""
    with contextlib.closing(sqlite3.connect(site.file.with_suffix(".sqlite"))) as database:
        query = "SELECT text FROM document WHERE name = 'budget'"
        accounts = json.loads(database.execute(query).fetchone()[0])["accounts"]
    pots = [account["pots"]["tokens"] for account in accounts]
    return sum(pot["own"] + pot["carried"] for pot in pots)


async def until_spent(process: Process, wanted: dict[str, int]) -> list[Any]:
    """Read the output of `--json` until this reading comes; return all events up to it."""
    assert process.stdout is not None
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(SOON):
        while wanted not in spendings(events):
            line = await process.stdout.readline()
            assert line, events
            events.append(json.loads(line))
    return events


@AGENT
async def test_an_answered_request_is_told_while_the_agent_works(
    cli: str, home_of: MakeHome
) -> None:
    """An answer's tokens are known soon after the vendor has counted them (TREE-28)."""
    async with FakeApi(shell(cli, "echo hi"), Hang()) as api:
        desk = Desk(home_of(cli, api.url))
        async with started(desk, "run", "Work", *words(cli), "--json") as process:
            await until_spent(process, times(1))
            await api.asked(2)
            assert process.returncode is None
            assert counted(api.exchanges) == times(1)
            process.send_signal(signal.SIGTERM)  # a killed host would leave its agent
            await process.communicate()


@AGENT
async def test_no_request_is_counted_twice(cli: str, home_of: MakeHome) -> None:
    """Readings in between are part of the CLI's reading at the end, which counts."""
    tool = shell(cli, "echo hi")
    async with FakeApi(tool, tool, Answer("done", pause=0.6)) as api:
        desk = Desk(home_of(cli, api.url))
        status, out, err = await desk.call("run", "Work", *words(cli), "--json")
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert status == 0, err
    told = spendings(events)
    assert len(told) > 1
    assert told == sorted(told, key=lambda one: one["input"])
    assert told[-1] == tokens(events[-1]["result"]["usage"]) == counted(api.exchanges) == times(3)


@AGENT
@pytest.mark.parametrize("cut", ["stopped", "stalled", "killed"])
async def test_a_run_that_is_cut_has_spent_what_the_vendor_counted(
    cli: str, cut: str, home_of: MakeHome
) -> None:
    """The count is exact to the token if the cut falls between two answers (G-07)."""
    tool = shell(cli, "echo hi")
    async with FakeApi(tool, tool, Hang()) as api:
        home = home_of(cli, api.url)
        desk = Desk(home)
        watch = ["--liveness", "stall:8"] if cut == "stalled" else []
        options = [*words(cli), *watch, "--max-retries", "0", "--max-attempts", "1", "--json"]
        async with started(desk, "run", "Work", *options) as process:
            await asked(api, 3)
            if cut == "stopped":
                process.send_signal(signal.SIGTERM)
            elif cut == "killed":
                await anyio.to_thread.run_sync(kill_agents, home)
            out, err = await process.communicate()
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    (end,) = [one["record"] for one in events if one["event"] == "attempt.over"]
    assert tokens(end["usage"]) == times(2), err
    assert tokens(events[-1]["result"]["usage"]) == counted(api.exchanges)


@AGENT
async def test_the_next_host_finds_what_a_lost_run_had_spent(cli: str, home_of: MakeHome) -> None:
    """After kill -9 of the host the next resumes its run; all three answers count, each once."""
    tool = shell(cli, "echo hi")
    async with FakeApi(tool, tool, Hang(), Answer("after all")) as api:
        desk = Desk(home_of(cli, api.url))
        options = [*words(cli), "--resume-session", "--json"]
        async with started(desk, "run", "Work", *options) as first:
            assert first.stdout is not None
            run = json.loads(await first.stdout.readline())["run"]
            await asked(api, 3)
        status, out, err = await desk.call("runs", "resume", run, "--json")
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert status == 0, err
    over = [one["record"] for one in events if one["event"] == "attempt.over"]
    assert [tokens(one["usage"]) for one in over] == [times(2), times(1)]
    assert tokens(events[-1]["result"]["usage"]) == counted(api.exchanges) == times(3)
    assert over[0]["session"] == over[1]["session"] is not None
    assert "echo hi" in str(api.exchanges[-1].body)
    assert desk.processes() == []


@AGENT
async def test_a_tree_accounts_for_a_host_that_was_killed(
    cli: str, site: Site, home_of: MakeHome
) -> None:
    """The budget of an agent holds what its vendor counted, over both hosts (TREE-28, G-03)."""
    tool = shell(cli, "echo hi")
    async with FakeApi(tool, tool, Hang(), Answer("after all")) as api:
        environment = list_of(site, cli, home_of(cli, api.url))
        host = site.up(env=environment)
        await asked(api, 3)
        await anyio.to_thread.run_sync(host.kill)
        again = site.up(env=environment)
        status = await anyio.to_thread.run_sync(again.end)
    assert status == 0, again.stderr
    assert charged(site) == 3 * EACH
    assert survivors(site.file) == []


@AGENT
async def test_whatever_the_moments_at_which_hosts_are_killed(
    cli: str, site: Site, home_of: MakeHome
) -> None:
    """Each kill loses at most the answer of that moment, and no answer counts twice."""
    moments = random.Random(cli)
    # No two commands alike: Gemini takes repetition for a loop, and gives up.
    work = [shell(cli, f"sleep 0.2; echo {number}") for number in range(14)]
    async with FakeApi(*work, Answer("after all")) as api:
        environment = list_of(site, cli, home_of(cli, api.url))
        for _ in range(KILLS):
            host = site.up(env=environment)
            await asked(api, len(api.exchanges) + 1)
            await asyncio.sleep(moments.uniform(0.0, 1.0))
            await anyio.to_thread.run_sync(host.kill)
        again = site.up(env=environment)
        status = await anyio.to_thread.run_sync(again.end)
    assert status == 0, again.stderr
    answers, rest = divmod(charged(site), EACH)
    assert rest == 0
    assert len(api.exchanges) - KILLS <= answers <= len(api.exchanges)
    assert survivors(site.file) == []


@AGENT
async def test_a_single_run_is_stopped_for_its_budget(
    cli: str, site: Site, home_of: MakeHome
) -> None:
    """It stops during its work, within one request after the budget is spent (TREE-28)."""
    # Longer than a busy machine takes from an answer to the pause.
    work = [shell(cli, f"sleep 8; echo {number}") for number in range(20)]
    async with FakeApi(*work, Answer("over")) as api:
        environment = list_of(site, cli, home_of(cli, api.url), tokens=2 * EACH)
        host = site.up(env=environment)
        await anyio.to_thread.run_sync(host.until, "mortal.paused")
        made = len(api.exchanges)
        await asyncio.sleep(WRITTEN)
        host.signal(signal.SIGTERM)
        await anyio.to_thread.run_sync(host.end)
    assert 2 <= made <= 3
    assert len(api.exchanges) == made
    # A cut during the third request leaves that out of the session files.
    assert charged(site) in {EACH * 2, EACH * made}


def list_of(site: Site, cli: str, home: Home, tokens: int = 1_000_000) -> dict[str, str]:
    """Write a list with one agent; return the environment of its hosts."""
    allow_commands(home)
    model = 'model = "gemini-2.5-flash"\n' if cli == "gemini" else ""
    access = "" if cli == "claude" else 'access = "full"\n'
    lines = f'id = "a"\nagent = "{cli}"\nprompt = "Work"\ngrace = 2\n{access}{model}'
    site.file.write_text(f"[[assignment]]\n{lines}tokens = {tokens}\n", encoding="utf-8")
    return {**home.environment, "OTPY_STATE": str(site.folder / "state" / "runs.sqlite3")}


def allow_commands(home: Home) -> None:
    """Let claude run any command; root cannot switch its guards off."""
    settings = Path(home.environment["HOME"], ".claude", "settings.json")
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}), encoding="utf-8")


def kill_agents(home: Home) -> None:
    """Kill all processes that run in the home's folder, except the host, which runs there too."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            here = Path(process.cwd()).is_relative_to(home.work)
            if here and "otpy_agents" not in " ".join(process.cmdline()):
                process.kill()
