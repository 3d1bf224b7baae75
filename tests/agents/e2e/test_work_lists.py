"""`otpy-agents up` with an assignment for a real CLI, against the fake vendor."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio.to_thread
import pytest

from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import Home
from tests.agents.e2e.test_run_command import Desk
from tests.agents.e2e.test_spending import EACH, charged, list_of
from tests.agents.e2e.test_tools import shell
from tests.agents.fake_api import Answer, Error, FakeApi, Hang, Refuse, UseTool
from tests.agents.host import Host, Site, survivors
from tests.agents.sandbox.conftest import bubblewrap as bubblewrap  # noqa: PLC0414 - a fixture
from tests.agents.workspace.git_world import GitWorld

# Long enough to install the CLIs; a list takes far less.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

LIST: Final = '[[assignment]]\nid = "a"\nagent = "claude"\nprompt = "Say hello"\ngrace = 2\n'


def up(site: Site, environment: Mapping[str, str], more: str = "", cli: str = "claude") -> Host:
    """Start a host with the state of this test."""
    site.file.write_text(LIST.replace('"claude"', f'"{cli}"') + more, encoding="utf-8")
    state = {"OTPY_STATE": str(site.folder / "state" / "runs.sqlite3")}
    return site.up(env={**environment, **state})


def runs(site: Site) -> list[tuple[str, int]]:
    """Return the status of each run, and the number of its attempts."""
    path: Path = site.folder / "state" / "runs.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        return database.execute(
            "SELECT status, (SELECT count(*) FROM attempt WHERE run = run.id) FROM run"
        ).fetchall()


async def test_a_cli_is_tried_again_after_an_error_and_is_done(
    site: Site, home_of: MakeHome
) -> None:
    """An error of its vendor costs a retry of the run, and no restart (TREE-33)."""
    async with FakeApi(Refuse(Error.SERVER_ERROR), Answer("hello at last")) as api:
        host = up(site, home_of("claude", api.url).environment)
        status = await anyio.to_thread.run_sync(host.end)
    assert status == 0, host.stderr
    assert host.summary() == {"a": "done"}
    assert runs(site) == [("done", 2)]
    assert "hello at last" in host.output("a")
    assert host.told("mortal.restarting") == []
    assert survivors(site.file) == []


async def test_a_cli_goes_on_in_its_session_after_kill_9_of_the_host(
    site: Site, home_of: MakeHome
) -> None:
    """The next host resumes the run, and the agent knows its earlier work (TREE-35, G-03)."""
    tool = UseTool("Bash", {"command": "echo one two three", "description": "Count"})
    async with FakeApi(tool, Hang(), Answer("back again")) as api:
        environment = home_of("claude", api.url).environment
        host = up(site, environment)
        await api.asked(2)
        await anyio.to_thread.run_sync(host.kill)
        again = up(site, environment)
        status = await anyio.to_thread.run_sync(again.end)
        said = str(api.exchanges[-1].body)
    assert status == 0, again.stderr
    assert again.summary() == {"a": "done"}
    assert again.told("agent.taken_up") == ["a"]
    assert runs(site) == [("done", 2)]
    assert "Say hello" in said
    assert "echo one two three" in said
    assert survivors(site.file) == []


def use_once(home: Home) -> None:
    """Make the folder that the first use of the CLI makes."""
    Path(home.environment["HOME"], ".claude").mkdir(exist_ok=True)


def files_in(folder: str) -> list[Path]:
    return list(Path(folder).iterdir())


@pytest.mark.usefixtures("bubblewrap")
async def test_behind_walls_a_cli_commits_and_writes_nothing_outside(
    site: Site, home_of: MakeHome, tmp_path: Path
) -> None:
    """It uses its Bash tool with full access, and is told which command failed."""
    world = GitWorld(tmp_path)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:  # bubblewrap has another `/tmp`
        commit = "git -c user.name=n -c user.email=e@x commit -qm work"
        code = f"touch {outside}/x; echo work > file && git add file && {commit} && echo went well"
        tool = UseTool("Bash", {"command": code, "description": "Work"})
        async with FakeApi(tool, Answer("done")) as api:
            home = home_of("claude", api.url)
            use_once(home)
            walls = 'access = "full"\nsandbox = "bubblewrap"\nnetwork = true\n'
            work = f'changeset = "{world.root}"\nenv = {{ IS_SANDBOX = "1" }}\n'  # root, perhaps
            host = up(site, home.environment, walls + work)
            status = await anyio.to_thread.run_sync(host.end)
            said = str(api.exchanges[-1].body)
        assert files_in(outside) == []
    assert (status, host.summary()) == (0, {"a": "done"}), host.stderr
    assert "went well" in said
    assert "Read-only file system" in said
    assert host.told("agent.walls") == ["a"]
    assert world.git("log", "--format=%s", "main..otpy/w/a").split() == ["work"]


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_an_answer_beyond_the_budget_is_taken_once(
    site: Site, home_of: MakeHome, cli: str
) -> None:
    """Its cost comes with the answer: it is done, and no grant pays for it again (C-12)."""
    # Without a model, gemini asks one model to choose another.
    model = 'model = "gemini-2.5-flash"\n' if cli == "gemini" else ""
    async with FakeApi(Answer("all done")) as api:
        host = up(site, home_of(cli, api.url).environment, f"tokens = 10\n{model}", cli)
        status = await anyio.to_thread.run_sync(host.end)
        asked = len(api.exchanges)
    assert status == 0, host.stderr
    assert (host.summary(), asked) == ({"a": "done"}, 1)
    assert "a" in host.told("monitor.budget_spent")
    assert (host.told("mortal.paused"), host.told("mortal.restarting")) == ([], [])
    assert runs(site) == [("done", 1)]


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_15_a_grant_lets_a_cli_go_on_where_its_budget_had_stopped_it(
    site: Site, home_of: MakeHome, cli: str
) -> None:
    """It stops at most a request late, its status has the count, its session goes on (TREE-28).

    The third tool leaves the host time to count. It is not cut: the agent is stopped while its
    model thinks about the next step, which this time takes so long that the stop falls into it.
    """
    # Claude refuses a command that begins with a long sleep.
    wait = {2: "timeout 4 tail -f /dev/null; "}
    work = [
        shell(cli, f"{wait.get(number, '')}echo {number}", pause=8.0 if number == 3 else 0.0)
        for number in range(20)
    ]
    async with FakeApi(*work, Answer("all done")) as api:
        home = home_of(cli, api.url)
        desk, budget = Desk(home), 4000
        host = site.up(env=list_of(site, cli, home, tokens=budget))
        await anyio.to_thread.run_sync(host.until, "mortal.paused")
        _, status, _ = await desk.call("status", str(site.file), "--json")
        made = len(api.exchanges)
        assert budget <= made * EACH
        assert made <= 4
        (agent,) = json.loads(status)["agents"]
        missing = made * EACH - agent["tokens"]
        assert missing in (0, EACH)  # the stop cuts the request if it has already been made
        assert agent["paused"]["by"] == "budget"
        grant = ("budget", "grant", "a", "--tokens", "1000000", "--list", str(site.file))
        granted, _, why = await desk.call(*grant)
        assert granted == 0, why
        code = await anyio.to_thread.run_sync(host.end)
        first, last = (str(api.exchanges[place].body) for place in (0, -1))
        asked = len(api.exchanges)
    assert (code, host.summary()) == (0, {"a": "done"}), host.stderr
    assert (asked, charged(site)) == (21, 21 * EACH - missing)
    # Some CLIs drop the interrupted call from their session.
    assert ("echo 0" in first, "echo 0" in last) == (False, True)
    assert host.told("mortal.restarting") == []
    assert survivors(site.file) == []
