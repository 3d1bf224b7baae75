"""Commands of operators in the event log: recorded before they run, answered after (G-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otpy_agents.errors import LedgerUnwritable
from otpy_agents.log import CommandLog, users_log
from otpy_agents.tree.commands import FOLLOW, QuietLog
from tests.agents.log.log_world import sql

pytestmark = pytest.mark.real_time


def arguments(**given: str) -> str:
    """Return arguments as the socket hands them on."""
    return json.dumps({"arguments": given})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log; its folder does not exist yet."""
    return tmp_path / "state" / "otpy" / "events.sqlite3"


async def test_a_command_is_there_before_its_answer(path: Path) -> None:
    """The record names the subject and the actor; a long answer is cut."""
    log = CommandLog(path, "list/w")
    assert await log.of(None) == ()
    given = arguments(agent="a", text="x")
    number = await log.begin(name="warn", run="", arguments=given, actor="ann (pid 7)")
    (one,) = await CommandLog(path, "list/w").of(None)
    assert (one.component, one.name, one.actor, one.answer) == ("a", "warn", "ann (pid 7)", None)
    assert one.arguments == given
    await log.end(number, "y" * 5000)
    (one,) = await log.of(None)
    assert one.answer == "y" * 4000
    assert sql(path, "SELECT id, stream, command, component, actor FROM commands") == [
        (str(number), "list/w", "warn", "a", "ann (pid 7)")
    ]


async def test_commands_about_a_run_stand_in_its_stream(path: Path) -> None:
    """Each run has its own stream."""
    log = CommandLog(path)
    for run, name in (("r", "cancel"), ("s", "kill"), ("r", "retry-now")):
        await log.end(await log.begin(name=name, run=run, arguments="{}", actor="ann"), "{}")
    assert [(one.name, one.component) for one in await log.of("r")] == [
        ("cancel", "r"),
        ("retry-now", "r"),
    ]
    async with users_log(path) as events:
        assert await events.verify() == 6
        assert await events.rebuild() == []


async def test_secrets_are_taken_out(path: Path) -> None:
    """Neither the command nor its answer keeps a secret (G-04)."""
    log = CommandLog(path, clean=lambda text: text.replace("hunter2", "[PASSWORD]"))
    number = await log.begin(name="answer", run="r", arguments=arguments(text="hunter2"), actor="a")
    await log.end(number, '{"answer": "hunter2"}')
    (one,) = await log.of("r")
    assert "hunter2" not in f"{one}"
    assert "[PASSWORD]" in one.arguments


async def test_looking_is_written_down_without_what_was_seen(path: Path) -> None:
    """The many requests of one `--follow` are not recorded."""
    quiet = QuietLog(CommandLog(path))
    for name in ("status", FOLLOW, "logs"):
        number = await quiet.begin(name=name, run="", arguments=arguments(), actor="ann")
        await quiet.end(number, '{"ok": true, "answer": {"much": "more"}}')
    assert [(one.name, one.answer) for one in await CommandLog(path).of(None)] == [
        ("status", '{"ok": true}'),
        ("logs", '{"ok": true}'),
    ]


@pytest.mark.parametrize("spoil", ["PRAGMA user_version = 99", "PRAGMA application_id = 7"])
async def test_a_log_that_cannot_be_used_leaves_nobody_helpless(path: Path, spoil: str) -> None:
    """The log refuses in a way that lets the socket carry the command out and record it later."""
    log = CommandLog(path)
    await log.begin(name="kill", run="r", arguments="{}", actor="ann")
    sql(path, spoil)
    with pytest.raises(LedgerUnwritable):
        await log.begin(name="kill", run="r", arguments="{}", actor="ann")
