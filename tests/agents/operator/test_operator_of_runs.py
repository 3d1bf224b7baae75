from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

import otpy
from otpy import SupervisorSpec
from otpy_agents.errors import HostGone
from otpy_agents.log import CommandLog, log_beside
from otpy_agents.operator import OperatorCommand, ask, operator_supervisor
from otpy_agents.store import RunStore
from tests.agents.store.run_world import Program

pytestmark = pytest.mark.real_time

LISTENS_FOR_EVER = """
import otpy
from otpy_agents.log import CommandLog, log_beside
from otpy_agents.operator import operator_supervisor

async def cancel(command):
    return f"cancelled {command.text('run')}"

async def main():
    async with RunStore(path) as store:
        await create(store, "r")
        spec = operator_supervisor(store.socket, {"cancel": cancel}, CommandLog(log_beside(path)))
        async with otpy.start(spec, hooks=[]):
            print(store.socket, flush=True)
            await asyncio.Event().wait()
"""


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.slow
async def test_a_second_terminal_finds_the_host_of_a_run(tmp_path: Path) -> None:
    """The row of the run names it; after a kill the error says so, and the next host tidies up."""
    path = tmp_path / "runs.sqlite3"
    with Program(path, LISTENS_FOR_EVER) as host:
        listening = Path(host.line())
        async with RunStore(path, as_host=False) as terminal:
            holder = await terminal.holder("r")
            assert (holder.pid, holder.socket) == (host.pid, str(listening))
            assert await ask(Path(holder.socket), "cancel", run="r") == "cancelled r"
            (command,) = await CommandLog(log_beside(path)).of("r")
            assert (command.name, command.component) == ("cancel", "r")
            assert f"pid {os.getpid()}" in command.actor
            assert command.answer is not None
            assert "cancelled r" in command.answer
        host.kill()
    assert listening.name in left_in(tmp_path)
    with pytest.raises(HostGone, match=re.escape(f"{listening}: no host listens there any more")):
        await ask(listening, "cancel", run="r")
    async with RunStore(path) as later:
        assert listening.name not in left_in(tmp_path)
        assert [run.id for run in await later.dead_runs()] == ["r"]


async def test_the_host_writes_down_what_it_could_not_finish(tmp_path: Path) -> None:
    """A command that was begun when its host ended has no answer."""

    async def leave(command: OperatorCommand) -> None:
        otpy.current().kill()
        await asyncio.Event().wait()

    async with RunStore(tmp_path / "runs.sqlite3") as store:
        log = CommandLog(log_beside(store.path))
        operator = operator_supervisor(store.socket, {"leave": leave}, log)
        async with otpy.start(SupervisorSpec("app", [operator]), hooks=[]):
            with pytest.raises(otpy.OtpyError, match="the end of the connection"):
                await ask(store.socket, "leave", run="r")
            (command,) = await log.of("r")
            assert command.answer is None
