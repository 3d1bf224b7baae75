"""`otpy-agents run` with a real CLI, from the command line to the answer."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.e2e.conftest import MakeHome
from tests.agents.fake_api import INPUT_TOKENS, Answer, Error, FakeApi, Refuse
from tests.agents.host import ENVIRONMENT

# Only to install the CLIs; no attempt takes so long.
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]


async def test_claude_is_tried_again_after_an_overload(home_of: MakeHome, tmp_path: Path) -> None:
    """The command waits, says so, and prints the answer of the second attempt."""
    async with FakeApi(Refuse(Error.OVERLOADED), Answer("It was the clock.")) as api:
        home = home_of("claude", api.url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "otpy_agents", "run", "Why does it fail?"),
            *("--agent", "claude", "--cwd", str(home.work), "--backoff-base", "0.2", "--json"),
            env={
                **home.environment,
                "PYTHONPATH": ENVIRONMENT["PYTHONPATH"],
                "OTPY_STATE": str(tmp_path / "runs.sqlite3"),
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    events: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, err) == (0, b""), events
    over = [one["record"] for one in events if one["event"] == "attempt.over"]
    assert [record["detail"] for record in over] == ["overloaded", None]
    (wait,) = [one for one in events if one["event"] == "wait.began"]
    assert (wait["reason"], wait["delay"], wait["retry"]) == ("backoff", 0.2, 1)
    ended = events[-1]
    assert (ended["event"], ended["answer"]) == ("run.ended", "It was the clock.")
    assert ended["result"]["usage"]["input"] == INPUT_TOKENS
    assert home.processes() == []
