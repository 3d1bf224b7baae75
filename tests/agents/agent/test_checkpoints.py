"""A checkpoint that an agent writes reaches its next life."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from otpy_agents.store.records import State
from otpy_agents.store.sessions import CHECKPOINT_LIMIT, SqliteSessions, StoredSession
from otpy_agents.testing import Do, Fail, Hang, Say, Script
from tests.agents.world import World, agent


@pytest.fixture
async def sessions(world: World) -> AsyncGenerator[SqliteSessions]:
    """A store of sessions on disk, used by the world."""
    async with SqliteSessions(world.folder / "sessions.sqlite") as sessions:
        world.project_settings["sessions"] = sessions
        yield sessions


def leave(text: str) -> Do:
    return Do(action=lambda cwd: Path(cwd, "CHECKPOINT").write_text(text, encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"done": ["lexer"]}', '{"done": ["lexer"]}'),
        ("the lexer is done\n", '"the lexer is done"'),
        ("NaN", '"NaN"'),
        ("[" * 5000, json.dumps("[" * 5000)),
    ],
)
async def test_a_restarted_agent_is_told_its_checkpoint(
    world: World, sessions: SqliteSessions, text: str, told: str
) -> None:
    """A checkpoint is JSON or plain text, and is stored with its session (TREE-39)."""
    world.sandbox.scripts["a"] = [Script(leave(text), Fail()), Script(Fail()), Script()]
    async with world.running(agent("a", backoff=[1])) as root:
        file = world.project.desk.folders.checkpoint("a")
        await root.wait()
    assert world.known["a"].state is State.DONE
    first, second, third = world.sandbox.played
    assert "OTPY_CHECKPOINT" in first.prompt
    assert f"\nYour last checkpoint: {told}\nContinue your assignment." in second.prompt
    assert f"\nYour last checkpoint: {told}\n" in third.prompt  # a life without a new one keeps it
    assert await sessions.all() == ()
    assert not file.exists()  # deleted together with the finished agent's session


async def test_a_checkpoint_survives_its_host(world: World, sessions: SqliteSessions) -> None:
    """It survives even if the file in the work folder is gone."""
    world.sandbox.scripts["a"] = [Script(leave("half"), Say(text="x"), Hang()), Script()]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        file = world.project.desk.folders.work("a") / "CHECKPOINT"
    (stored,) = await sessions.all()
    assert stored.checkpoint == "half"
    file.unlink()
    await world.run(agent("a"))
    assert 'Your last checkpoint: "half"' in world.sandbox.played[1].prompt


async def test_what_a_program_has_stored_is_not_overwritten(
    world: World, sessions: SqliteSessions
) -> None:
    """Without a file of the agent's own, its stored checkpoint stays unchanged."""
    world.sandbox.scripts["a"] = [Script(Fail()), Script()]
    async with world.running(agent("a", backoff=[9])):
        await asyncio.sleep(5)
        await sessions.save(
            StoredSession(agent="w/a", cli="command", session_id="s", saved_at=1, checkpoint=[7])
        )
        await world.until(lambda: len(world.sandbox.played) == 2)
    assert "Your last checkpoint: [7]" in world.sandbox.played[1].prompt


def too_long(cwd: str) -> None:
    Path(cwd, "CHECKPOINT").write_text("x" * CHECKPOINT_LIMIT, encoding="utf-8")


def huge(cwd: str) -> None:
    with Path(cwd, "CHECKPOINT").open("wb") as file:
        file.truncate(1 << 40)


def no_text(cwd: str) -> None:
    Path(cwd, "CHECKPOINT").write_bytes(b"\xff")


def pipe(cwd: str) -> None:
    Path(cwd, "CHECKPOINT").unlink()
    os.mkfifo(f"{cwd}/CHECKPOINT")


def link(cwd: str) -> None:
    Path(cwd, "CHECKPOINT").unlink()
    Path(cwd, "CHECKPOINT").symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [too_long, huge, no_text, pipe, link])
async def test_a_checkpoint_that_is_none_is_told_and_the_last_one_stays(
    world: World, sessions: SqliteSessions, spoil: Callable[[str], None]
) -> None:
    """For any such file, the host neither waits nor reads another file."""
    spoilt = Script(Do(action=spoil), Fail())
    world.sandbox.scripts["a"] = [Script(leave("half"), Fail()), spoilt, Script()]
    known = await world.run(agent("a", backoff=[1]))
    assert known["a"].state is State.DONE
    assert "agent.checkpoint_refused" in world.names("a", "agent.")
    assert 'Your last checkpoint: "half"' in world.sandbox.played[2].prompt


@pytest.mark.parametrize("context", ["fresh", "resume"])
async def test_who_gets_no_note_is_not_asked_for_checkpoints(world: World, context: str) -> None:
    """Such an agent is not told a checkpoint either: the promise would be empty."""
    world.sandbox.scripts["a"] = [Script(leave("half"), Fail()), Script()]
    await world.run(agent("a", backoff=[1], context=context))
    for played in world.sandbox.played:
        assert "checkpoint" not in played.prompt.lower()
