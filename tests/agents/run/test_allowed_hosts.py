"""Whole runs behind walls that let out only to the hosts of a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.run.host.facts import Fact, LogLine
from otpy_agents.run.host.host import run_host
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.walls import choice_of, said_of
from otpy_agents.sandbox import Mount
from otpy_agents.store import RunStore
from tests.agents.sandbox.conftest import why_no_bubblewrap
from tests.agents.sandbox.scene import PYTHON
from tests.agents.sandbox.way_host import ASK, way_host

pytestmark = pytest.mark.real_time


async def test_what_a_run_asked_for_in_vain_stands_in_its_log(tmp_path: Path) -> None:
    """ENG-12: the allowed host answers, another one does not, and the log names it."""
    if reason := why_no_bubblewrap():
        pytest.skip(reason)
    facts: list[Fact] = []
    async with (
        way_host(tmp_path / "unused") as host,
        RunStore(tmp_path / "state" / "runs.sqlite3") as store,
        run_host(store, listeners=[facts.append], hooks=()) as runs,
    ):
        order = RunOrder(
            prompt="ask",
            cwd=tmp_path,
            use="command",
            argv=(PYTHON, "-c", ASK, host.target, "evil.example.com:443"),
            sandbox=SandboxChoice(name="bubblewrap", hosts=(host.target,)),
        )
        run = await runs.submit(order)
        result = await run.wait()
    assert result.exit_code == 0
    lines = [fact.text for fact in facts if isinstance(fact, LogLine)]
    assert "[supervisor] attempt 1: asked for evil.example.com:443, which is not allowed" in lines
    assert list((tmp_path / "state").rglob("*.egress")) == []


def test_walls_with_a_way_out_say_which() -> None:
    """A person reads the reachable hosts before an agent begins."""
    choice = choice_of(
        "docker:i",
        ["claude", "command"],
        network=("vendor", "pypi.org", "pypi.org"),
        environment={},
        field="sandbox",
    )
    assert choice == SandboxChoice(
        name="docker",
        image="i",
        network=False,
        hosts=("api.anthropic.com", "platform.claude.com", "pypi.org"),
    )
    assert said_of(choice) == (
        "docker i: can write in its own folders alone, and has no network but "
        "api.anthropic.com, platform.claude.com, pypi.org"
    )


def test_in_bubblewrap_a_login_is_seen_beside_a_list_of_hosts(tmp_path: Path) -> None:
    """The login is mounted, as with the whole network."""
    choice = choice_of(
        "bubblewrap",
        ["codex"],
        network=("vendor",),
        environment={"CODEX_HOME": str(tmp_path)},
        field="sandbox",
    )
    assert choice.mounts == (Mount(tmp_path, writable=True),)
    assert choice.hosts == ("api.openai.com", "auth.openai.com", "chatgpt.com")
