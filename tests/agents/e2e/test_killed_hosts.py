"""Hosts of programs and real CLIs that are killed at random moments, and the results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import psutil
import pytest

from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.test_spending import AGENTS, EACH, allow_commands, charged, counted
from tests.agents.e2e.test_tools import shell
from tests.agents.fake_api import INPUT_TOKENS, Answer, Exchange, FakeApi
from tests.agents.host import Site
from tests.agents.soak.kills import kill_again_and_again
from tests.agents.workspace.git_world import GitWorld

KILLS: Final = int(os.environ.get("OTPY_TEST_KILLS", "6"))
"""How many hosts are killed; a hundred take ten minutes."""
SEED: Final = int(os.environ.get("OTPY_TEST_SEED", "1"))
LIFE: Final = 8.0
"""Most seconds of a host: a CLI needs some of them to begin."""
_GIT: Final = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300 + 15 * KILLS)]


@pytest.mark.long
async def test_each_token_is_counted_and_each_end_told_once(
    tmp_path: Path, home_of: MakeHome
) -> None:
    """A cut attempt misses at most one answer, any other misses none (TREE-28, G-07).

    Each program finishes once, and every process, branch and work tree has an owner.
    """
    hosts: dict[str, str] = {}
    tables: dict[str, str] = {}
    apis: dict[str, FakeApi] = {}
    async with contextlib.AsyncExitStack() as stack:
        for cli in AGENTS:
            # No two commands alike: Gemini takes repetition for a loop, and gives up.
            work = (f"{_commit(cli)}; sleep 0.2; echo {number}" for number in range(KILLS + 4))
            script = [shell(cli, command) for command in work]
            apis[cli] = await stack.enter_async_context(FakeApi(*script, Answer("all good")))
            home = home_of(cli, apis[cli].url)
            allow_commands(home)
            # A stored run has no secrets, so each later host gets its own.
            keys = {name for name in home.environment if "KEY" in name}
            hosts |= {name: home.environment[name] for name in keys}
            tables[cli] = _table(cli, {n: t for n, t in home.environment.items() if n not in keys})
        play = partial(
            kill_again_and_again,
            tmp_path,
            kills=KILLS,
            seed=SEED,
            more=tables,
            environment=hosts,
            life=LIFE,
        )
        books = await anyio.to_thread.run_sync(play)
    site = Site(tmp_path)
    spent = {cli: _attempts(site, cli) for cli in AGENTS}
    wrong = [*books.wrong]
    for cli, api in apis.items():
        wrong += _differences(cli, api.exchanges, spent[cli])
    stored = sum(_tokens(one) for attempts in spent.values() for one in attempts)
    if charged(site) != stored:
        wrong.append(f"{charged(site)} tokens are charged, {stored} are stored")
    cuts = {cli: len(_cut(attempts)) for cli, attempts in spent.items()}
    print(books, cuts, {cli: len(api.exchanges) for cli, api in apis.items()})  # noqa: T201 - for who runs a hundred
    assert wrong == []
    assert sum(cuts.values()) > 0


@pytest.mark.parametrize("cli", ["claude", "copilot", "gemini"])
async def test_answers_count_although_the_host_never_heard_of_the_session(
    cli: str, tmp_path: Path, home_of: MakeHome
) -> None:
    """A new session gets its id from the host, so the next host finds its answers."""
    commands = (shell(cli, f"sleep 0.2; echo {number}") for number in range(4))
    async with FakeApi(*commands, Answer("all good")) as api:
        home = home_of(cli, api.url)
        allow_commands(home)
        play = partial(_kill_deaf_host, cli, tmp_path, home.environment, api)
        attempts = await anyio.to_thread.run_sync(play)
        assert len(_cut(attempts)) == 1
        assert _differences(cli, api.exchanges, attempts) == []


def _kill_deaf_host(
    cli: str, folder: Path, environment: Mapping[str, str], api: FakeApi
) -> list[dict[str, Any]]:
    """Stop a host once its CLI runs, kill it after three answers, and let the next host go on."""
    GitWorld(folder)
    keys = {name: text for name, text in environment.items() if "KEY" in name}
    with contextlib.closing(Site(folder)) as site:
        site.write(_table(cli, {n: text for n, text in environment.items() if n not in keys}))
        host = site.up(env=keys)
        _wait(lambda: _runs(cli, host.pid))
        host.signal(signal.SIGSTOP)
        _wait(lambda: counted(api.exchanges)["input"] >= 3 * INPUT_TOKENS)
        host.kill()
        assert site.up(env=keys).end() == 0
        return _attempts(site, cli)


def _wait(holds: Callable[[], bool]) -> None:
    latest = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < latest
        time.sleep(0.002)


def _runs(cli: str, host: int) -> bool:
    """Return whether a CLI runs below a host."""
    for process in psutil.Process(host).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(Path(word).name == cli for word in process.cmdline()[:2]):
                return True
    return False


def _commit(cli: str) -> str:
    git = " ".join(_GIT)
    return f"echo x >{cli}.txt; {git} add -A; {git} commit -qm {cli}"


def _table(cli: str, environment: Mapping[str, str]) -> str:
    """Return the assignment of a CLI with a work tree and the right to run any command."""
    lines = ["[[assignment]]", f'id = "{cli}"', f'agent = "{cli}"', 'prompt = "Work"']
    lines += ["grace = 2", "tokens = 10000000", 'changeset = "repository"']
    lines += [] if cli == "claude" else ['access = "full"']
    lines += ['model = "gemini-2.5-flash"'] if cli == "gemini" else []
    shown = ", ".join(f"{name} = {json.dumps(text)}" for name, text in environment.items())
    return "\n".join([*lines, f"env = {{ {shown} }}", ""])


def _attempts(site: Site, cli: str) -> list[dict[str, Any]]:
    """Return the records of all attempts of an agent."""
    path = site.folder / "state" / "runs.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT outcome FROM attempt JOIN run ON run.id = attempt.run WHERE label LIKE ?",
            (f"%/{cli}/%",),
        ).fetchall()
    return [json.loads(outcome)["record"] for (outcome,) in rows if outcome]


def _tokens(record: Mapping[str, Any]) -> int:
    return int(record["usage"]["input"]) + int(record["usage"]["output"])


def _cut(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in attempts if one["stopped"] is not None]


def _differences(cli: str, exchanges: list[Exchange], attempts: list[dict[str, Any]]) -> list[str]:
    """Compare the stored tokens with the vendor's own count."""
    answers, rest = divmod(sum(map(_tokens, attempts)), EACH)
    vendor = counted(exchanges)["input"] // INPUT_TOKENS
    if rest or not vendor - len(_cut(attempts)) <= answers <= vendor:
        each = [(one["stopped"], _tokens(one) // EACH) for one in attempts]
        cut = len(_cut(attempts))
        return [f"{cli}: {answers} answers, {rest} tokens of {vendor} answers; {cut} cut; {each}"]
    return []
