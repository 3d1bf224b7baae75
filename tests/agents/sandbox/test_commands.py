"""Commands that judge work, in bubblewrap and as plain processes."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.errors import SandboxUnavailable
from otpy_agents.process.orphans import find
from otpy_agents.sandbox import BubblewrapSandbox, Mount, ProcessSandbox, SandboxLimits
from otpy_agents.sandbox.commands import (
    WRITTEN_LIMIT,
    CommandOutcome,
    CommandSandbox,
    SandboxCommand,
)
from otpy_agents.sandbox.output import OUTPUT_LIMIT
from tests.agents.sandbox.scene import PYTHON

pytestmark = pytest.mark.real_time

LABEL = f"test-{os.getpid()}"


@pytest.fixture
def commands(bubblewrap: BubblewrapSandbox) -> CommandSandbox:
    """The default sandbox of commands."""
    del bubblewrap  # skips where it does not work
    return CommandSandbox(pytest.fail, inherited=os.environ, limits=SandboxLimits(pids=60))


async def shell(commands: CommandSandbox, folder: Path, script: str, **more: Any) -> CommandOutcome:
    fields: dict[str, Any] = {"folder": folder, "label": LABEL, "deadline": 60.0, **more}
    return await commands.run(SandboxCommand(argv=("sh", "-c", script), **fields))


async def test_a_command_changes_nothing_but_what_is_opened_to_it(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """The output has both streams, and the work directory is read-only, too (ENG-14)."""
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/open").mkdir()
    (tmp_path / "copy").mkdir()
    script = "echo one; touch here ../x || echo two >&2; touch ../open/there /tmp/y; exit 3"
    outcome = await shell(
        commands,
        tmp_path / "tree",
        script,
        cwd=tmp_path / "tree/sub",
        mounts=(Mount(tmp_path / "copy", tmp_path / "tree/open", writable=True),),
    )
    assert outcome.exit_code == 3
    assert {"one", "two"} < set(outcome.output.splitlines())
    assert outcome.output.count("Read-only") == 2
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["there"]
    assert list((tmp_path / "tree/open").iterdir()) == []


async def test_a_command_reaches_nobody(commands: CommandSandbox, tmp_path: Path) -> None:
    """It does not even reach a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = server.getsockname()
        script = f"import socket; socket.create_connection({where!r}, 5)"
        command = SandboxCommand(
            argv=(PYTHON, "-c", script), folder=tmp_path, label=LABEL, deadline=60.0
        )
        outcome = await commands.run(command)
    assert outcome.exit_code == 1
    assert "Error" in outcome.output


async def test_a_gigabyte_of_output_takes_little_memory(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """It is ended; at most 10 MiB are kept, and the output says how much was cut."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = await shell(commands, tmp_path, "echo begun; head -c 1000000000 /dev/zero")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = outcome.output.splitlines()
    assert (outcome.exit_code, outcome.is_excess) == (None, True)
    assert (lines[0], lines[-1]) == ("begun", "ended for more than 50 MB of output")
    assert int(lines[1].split()[0].removeprefix("[")) > WRITTEN_LIMIT - OUTPUT_LIMIT
    assert len(outcome.output) < OUTPUT_LIMIT + 100
    assert after - before < 120_000, "KiB"


async def test_of_much_output_the_beginning_and_the_end_are_kept(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """Results stand at the end; a line that is too long is cut, too."""
    script = "head -c 20000000 /dev/zero; echo; seq 20000; echo the end; exit 4"
    outcome = await shell(commands, tmp_path, script)
    assert outcome.exit_code == 4
    assert outcome.output.endswith("the end\n")
    assert "\n[14757121 bytes were cut here]\n1\n" in outcome.output


async def test_a_fork_bomb_is_ended(commands: CommandSandbox, tmp_path: Path) -> None:
    """It is ended at its limit; the machine has room for more processes."""
    script = "i=0; while [ $i -lt 3000 ]; do sleep 90 & i=$((i+1)); done; wait"
    outcome = await shell(commands, tmp_path, script)
    assert outcome == CommandOutcome(
        None, "ended for more than 60 processes and threads", is_excess=True
    )
    assert outcome.is_started
    assert find({"OTPY_COMMAND": LABEL}) == []


async def test_what_a_late_command_has_said_is_told(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """The output thus shows which test hangs."""
    outcome = await shell(commands, tmp_path, "echo testing; sleep 90", deadline=0.5)
    assert outcome == CommandOutcome(None, "testing\nended after 0.5 s", is_late=True)
    assert find({"OTPY_COMMAND": LABEL}) == []


async def test_a_command_that_is_cancelled_is_ended(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """Everything that it has started is ended, too."""
    (tmp_path / "up").mkdir()
    mounts = (Mount(tmp_path / "up", writable=True),)
    script = "sleep 90 & touch up/there; sleep 90"
    task = asyncio.create_task(shell(commands, tmp_path, script, mounts=mounts))
    while not (tmp_path / "up/there").exists():  # noqa: ASYNC110 - another process tells
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert find({"OTPY_COMMAND": LABEL}) == []


async def test_a_program_that_is_not_there_is_an_outcome(
    commands: CommandSandbox, tmp_path: Path
) -> None:
    """It is not an exit code, which the program could have, too."""
    command = SandboxCommand(argv=("otpy-no-such",), folder=tmp_path, label=LABEL, deadline=9.0)
    outcome = await commands.run(command)
    assert (outcome.exit_code, outcome.is_started) == (None, False)
    assert "otpy-no-such" in outcome.output


async def test_without_walls_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line says that commands run unisolated."""

    async def refuse(_: BubblewrapSandbox) -> None:
        await asyncio.sleep(0)
        raise SandboxUnavailable("bubblewrap", "it is broken")

    monkeypatch.setattr(BubblewrapSandbox, "check", refuse)
    said: list[str] = []
    commands = CommandSandbox(said.append, inherited=os.environ)
    ends = [shell(commands, tmp_path, f"exit {number}") for number in (3, 4)]
    assert [one.exit_code for one in await asyncio.gather(*ends)] == [3, 4]
    assert isinstance(await commands.sandbox(), ProcessSandbox)
    assert len(said) == 1
    assert "unisolated" in said[0]


async def test_what_a_killed_host_left_is_ended_by_its_label(tmp_path: Path) -> None:
    """A process of another label stays."""
    commands = CommandSandbox(pytest.fail, inherited=os.environ, sandbox=ProcessSandbox())
    mine, other = [
        await asyncio.create_subprocess_exec(
            "sleep", "90", env={**os.environ, "OTPY_COMMAND": label}, start_new_session=True
        )
        for label in (LABEL, f"{LABEL}-other")
    ]
    await commands.clear(LABEL)
    assert await asyncio.wait_for(mine.wait(), 10) != 0
    assert other.returncode is None
    other.kill()
    await other.wait()
