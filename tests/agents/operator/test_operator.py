from __future__ import annotations

import asyncio
import getpass
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import otpy
from otpy_agents.errors import CommandRefused, HostGone, NoAnswer
from otpy_agents.operator import CommandRefusal, ask, server
from tests.agents.operator.operated_host import Host

pytestmark = pytest.mark.real_time

MISSING: list[dict[str, Any]] = [{}, {"run": None}, {"run": ""}, {"run": 7}]


async def test_a_command_is_written_down_carried_out_and_answered(host: Host) -> None:
    """They come in this order, and the log has the actor and the outcome (G-16)."""
    assert await ask(host.path, "cancel", run="r", hard=True) == {"cancelled": "r"}
    assert host.commands.told == ["wrote down cancel", "cancel"]
    (begun,) = host.notebook.begun
    assert (begun["name"], begun["run"]) == ("cancel", "r")
    assert begun["arguments"] == '{"arguments":{"run":"r","hard":true}}'
    assert begun["actor"].startswith(f"{getpass.getuser()} (uid {os.getuid()}, pid {os.getpid()}")
    assert host.notebook.ended[1]["answer"] == {"cancelled": "r"}
    (command,) = host.commands.commands
    assert (command.actor.uid, command.actor.pid) == (os.getuid(), os.getpid())


async def test_a_refusal_is_one_line_with_its_reason(host: Host) -> None:
    """The handler may refuse, a call of the handler may fail, or an argument may be missing."""
    with pytest.raises(CommandRefused, match="got no backoff to cut") as refusal:
        await ask(host.path, "refuse")
    assert refusal.value.reason == CommandRefusal.REFUSED
    with pytest.raises(CommandRefused, match="unknown_run: run 'r': got an unknown id") as refusal:
        await ask(host.path, "unknown_run", run="r")
    assert refusal.value.reason == CommandRefusal.FAILED
    for missing in MISSING:
        with pytest.raises(CommandRefused, match=r"cancel: run: got .*, wanted text"):
            await ask(host.path, "cancel", **missing)
    assert [ended["ok"] for ended in host.notebook.ended.values()] == [False] * 6


async def test_a_command_nobody_knows_is_not_written_down(host: Host) -> None:
    """The answer names the known commands."""
    with pytest.raises(CommandRefused, match="got 'dance', wanted one of cancel, crash") as refusal:
        await ask(host.path, "dance")
    assert refusal.value.reason == CommandRefusal.UNKNOWN
    assert host.notebook.begun == []


async def test_a_command_that_the_disk_does_not_take_is_written_down_later(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is carried out at once; the log has it, with its answer, once there is room again."""
    monkeypatch.setattr(server, "_FIRST_DELAY", 0.01)
    host.notebook.full = True
    await ask(host.path, "cancel", run="r")
    assert host.commands.told == ["cancel"]
    host.notebook.full = False
    await host.until(lambda: host.notebook.ended)
    assert [one["name"] for one in host.notebook.begun] == ["cancel"]
    assert [ended["ok"] for ended in host.notebook.ended.values()] == [True]


async def test_a_command_in_a_log_that_is_spoilt_is_not_carried_out(host: Host) -> None:
    """The operator is told why."""
    host.notebook.spoilt = True
    with pytest.raises(CommandRefused, match=r"cancel: not carried out: .*rubbish"):
        await ask(host.path, "cancel", run="r")
    assert host.commands.told == []


async def test_a_handler_that_crashes_costs_its_own_answer_and_nothing_else(host: Host) -> None:
    """The host lives on; the exception handler of the loop gets the error."""
    seen: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
    with pytest.raises(CommandRefused, match=r"\Acrash: ZeroDivisionError: by\Z") as refusal:
        await ask(host.path, "crash")
    assert refusal.value.reason == CommandRefusal.FAILED
    with pytest.raises(CommandRefused, match="nonsense: ValidationError: "):
        await ask(host.path, "nonsense")
    assert isinstance(seen[0], ZeroDivisionError)
    host.notebook.full_later = True
    assert await ask(host.path, "cancel", run="r") == {"cancelled": "r"}
    assert (len(seen), host.incarnation) == (2, 1)  # the answer is written down later


async def test_an_answer_larger_than_a_socket_takes_at_once_disturbs_nobody(host: Host) -> None:
    """CPython 3.11 loses the loop of a connection that sends its last bytes while it closes."""
    for _ in range(3):
        assert len(str(await ask(host.path, "large"))) == 3 * 1024 * 1024
    assert host.incarnation == 1


async def test_a_command_has_a_limit(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that takes too long is ended, and the operator is told."""
    monkeypatch.setattr(server, "COMMAND_LIMIT", 0.01)
    with pytest.raises(CommandRefused, match="wait: took longer than"):
        await ask(host.path, "wait")


async def test_an_answer_that_is_too_long_says_so(host: Host) -> None:
    """The client gets a short refusal in place of a line that it cannot read."""
    with pytest.raises(CommandRefused, match=r"got an answer of 5242.* bytes, wanted at most"):
        await ask(host.path, "huge")


async def test_a_command_that_stops_the_host_is_answered(tmp_path: Path, host: Host) -> None:
    """A command that was begun gets its answer before the socket goes."""
    asking = asyncio.create_task(ask(host.path, "wait"))
    await host.until(host.waiting)
    stopping = asyncio.create_task(host.root.terminate_child("operator"))
    await asyncio.sleep(0.01)
    host.commands.gate.set()
    assert await asking == "waited"
    await stopping
    assert not host.path.exists()


async def test_an_idle_client_does_not_hold_up_the_end(tmp_path: Path, host: Host) -> None:
    """The end waits only for commands that were begun, and not for long."""
    async with host.raw() as (reader, _):
        await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await host.root.stop()
        assert asyncio.get_running_loop().time() - began < 0.5
        assert await reader.read() == b""


# --- coming and going of the host -----------------------------------------------------------------


async def test_nobody_else_may_open_the_socket(host: Host) -> None:
    """Its mode is 0600."""
    assert stat.S_IMODE(host.path.stat().st_mode) == 0o600


async def test_the_listener_comes_back_after_a_crash(host: Host) -> None:
    """It listens on the same path, over the remains of the earlier life."""
    host.root.whereis("app/operator/socket").kill()
    operator = host.root.child("operator").supervisor
    assert isinstance(operator, otpy.Supervisor)
    await operator.wait_for_restart("socket", after=1)
    assert await ask(host.path, "cancel", run="r") == {"cancelled": "r"}
    assert host.incarnation == 2


async def test_a_host_that_has_gone_is_told_from_one_that_is_silent(host: Host) -> None:
    """The errors say what to do; a host that has gone carried out nothing."""
    with pytest.raises(NoAnswer, match=r"got nothing in 0.02 s, wanted an answer; the command may"):
        await ask(host.path, "wait", within=0.02)
    host.commands.gate.set()
    await host.root.stop()
    for _ in range(2):
        with pytest.raises(HostGone, match="no host listens there any more; `otpy-agents runs res"):
            await ask(host.path, "cancel", run="r")
        with pytest.raises(HostGone, match="any more; start it again"):
            await ask(host.path, "status")
        host.path.touch()  # refuses connections, as the socket of a killed host does


async def test_a_host_that_dies_over_a_command_gave_no_answer(host: Host) -> None:
    """The error says that the connection ended without an answer."""
    asking = asyncio.create_task(ask(host.path, "wait"))
    await host.until(host.waiting)
    host.root.whereis("app/operator/socket").kill()
    with pytest.raises(NoAnswer, match="got the end of the connection"):
        await asking


async def test_a_start_that_finds_no_place_says_so(tmp_path: Path, host: Host) -> None:
    """The tree does not start, and names the path."""
    bad = Host(tmp_path / "no" / "folder.sock", host.commands, host.notebook)
    with pytest.raises(otpy.SupervisorFailed, match=r"no/folder.sock: got 'No such file"):
        async with otpy.start(bad.spec(), hooks=[]):
            pytest.fail("started")
