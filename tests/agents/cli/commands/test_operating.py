"""A real host, commanded from a second terminal: each agent in turn does what it is told."""

from __future__ import annotations

import json
import os
import socket
import stat
from typing import Any

import psutil
import pytest

from tests.agents.cli.commands.second_terminal import SecondTerminal, bot
from tests.agents.host import shell

pytestmark = pytest.mark.real_time

WAITS = "while [ ! -e {here}/go ]; do sleep 0.02; done"


def stopped(process: str) -> list[int]:
    """Return the processes that have this word in their command line and are stopped."""
    found: list[int] = []
    for one in psutil.process_iter(["pid", "cmdline", "status"]):
        line = " ".join(one.info["cmdline"] or [])
        if process in line and one.info["status"] == psutil.STATUS_STOPPED:
            found.append(one.info["pid"])
    return found


def test_who_looks_sees_the_agents_and_the_tree(second: SecondTerminal) -> None:
    """Each agent has its state, time, activity and usage; the parts of the tree are shown too."""
    host = second.up(
        bot(second, "bot", "ticks", tokens=500, cost_usd=2.5),
        shell("build", f"echo compiling; {WAITS}", wall_seconds=600),
        shell("later", "echo later"),
        parallel=2,
    )
    bots = second.until("bot", lambda one: "tick" in one["doing"])
    assert (bots["state"], bots["by"], bots["attempts"], bots["restarts"]) == (
        *("working", "command"),
        *(1, 0),
    )
    assert bots["left"] == {"tokens": 500, "cost_usd": 2.5}
    assert bots["for_seconds"] >= 0
    build = second.until("build", lambda one: one["doing"] == "compiling")
    assert 500 < build["left"]["seconds"] < 600
    assert second.agent("later")["state"] == "pending"
    status = second.status()
    assert status["host"]["pid"] == host.pid
    assert {one["name"] for one in status["monitors"] if one["alive"]} >= {
        *("HealthMonitor", "BudgetMonitor", "ViolationMonitor", "cleanup-daemon")
    }
    (jake,) = status["jakes"]
    assert (jake["state"], jake["restarts"]) == ("running", 0)
    assert (status["alive"], status["cooldowns"]) == (True, [])
    text = second.done("status", str(second.site.file))
    assert text.startswith("w  0/3")
    assert "Jake: running ↻0" in text
    tree = second.done("tree")
    assert tree.splitlines()[0] == "AppSupervisor  running"
    assert "│  └─ Jake  running  life 1" in tree
    plain: dict[str, Any] = json.loads(second.done("tree", "--json"))
    assert "MortalPool" in [one["id"] for one in plain["children"]]


def test_the_socket_is_the_users_alone_and_each_command_is_written_down(
    second: SecondTerminal,
) -> None:
    """Mode 0600, owned by the user; the log has each command's author and answer (G-16)."""
    host = second.up(shell("build", WAITS))
    there = second.socket.lstat()
    assert stat.S_ISSOCK(there.st_mode)
    assert (stat.S_IMODE(there.st_mode), there.st_uid) == (0o600, os.geteuid())
    second.done("status")
    assert second.type("warn", "biuld", "hm").exit_code == 2
    second.done("warn", "build", "mind the gap")
    second.done("reap", "build", "--why", "not needed any more")
    assert host.end() == 1
    looked, wrong, warned, reaped = second.commands()[-4:]
    assert (looked["command"], json.loads(looked["answer"])) == ("status", {"ok": True})
    assert (wrong["component"], json.loads(wrong["answer"])["reason"]) == ("biuld", "not_found")
    assert json.loads(warned["arguments"]) == {
        "arguments": {"agent": "build", "text": "mind the gap"}
    }
    assert (reaped["command"], json.loads(reaped["answer"])["answer"]) == ("reap", "reaped")
    assert f"pid {os.getpid()}" in reaped["actor"]
    told = [one for one in host.events if one["event"] == "operator.command"]
    assert [one["command"] for one in told] == ["warn", "warn", "reap"]
    assert told[0]["refused"].endswith("did you mean 'build'?")
    (summary,) = [one for one in host.events if one["event"] == "summary"]
    assert "not needed any more (by " in summary["reason"]
    assert not second.socket.exists()


def test_a_program_is_frozen_and_goes_on(second: SecondTerminal) -> None:
    """Its whole group is frozen; an impossible command is refused."""
    host = second.up(shell("build", f"echo up; {WAITS}"))
    host.until("mortal.output", "build")
    assert "`otpy-agents resume build`" in second.done("pause", "build")
    paused = second.until("build", lambda one: one["paused"])
    assert (paused["state"], paused["paused"]["frozen"]) == ("waiting_for_wakeup", True)
    assert "`otpy-agents resume build`" in second.done("status")
    assert stopped(str(second.folder))
    again = second.type("pause", "build")
    assert (again.exit_code, "paused already" in again.stderr) == (1, True)
    assert second.done("resume", "build") == "build: goes on\n"
    assert not stopped(str(second.folder))
    assert second.type("answer", "build", "yes").exit_code == 1
    second.go()
    assert host.end() == 0


def test_an_agent_rests_at_a_boundary_and_goes_on_in_its_session(second: SecondTerminal) -> None:
    """Its run is stopped in order, and the next one resumes the session (G-10)."""
    host = second.up(bot(second, "bot", "ticks,ok"))
    host.until("mortal.output", "bot")
    assert "will rest at the next boundary" in second.done("pause", "bot")
    second.until("bot", lambda one: one["state"] == "waiting_for_wakeup")
    second.done("resume", "bot", "--list", str(second.site.file))
    assert host.end() == 0
    assert any("life 2, session s-1" in line for line in host.output("bot"))


def test_an_agent_can_be_frozen_in_mid_turn(second: SecondTerminal) -> None:
    """`--now` stops all its processes where they are; then the same life goes on."""
    host = second.up(bot(second, "bot", "ticks"))
    host.until("mortal.output", "bot", line="tick 3")
    assert second.done("pause", "bot", "--now").startswith("bot: frozen")
    seen = second.agent("bot")
    assert (seen["state"], seen["paused"]["frozen"]) == ("waiting_for_wakeup", True)
    assert stopped(str(second.folder))
    assert second.type("pause", "bot", "--now").exit_code == 1
    second.done("resume", "bot")
    assert not stopped(str(second.folder))
    assert second.until("bot", lambda one: one["paused"] is None)["state"] == "working"
    host.until("mortal.output", "bot", line="tick 30")
    assert "life 2" not in " ".join(host.output("bot"))
    second.done("reap", "bot", "--why", "seen enough")
    assert host.end() == 1


def test_15_a_grant_lets_a_paused_agent_go_on_in_the_same_session(second: SecondTerminal) -> None:
    """The list's budget includes its agents; an agent that rests for it goes on (acceptance 15)."""
    host = second.up(bot(second, "bot", "spend,ok", tokens=90), tokens=100)
    resting = second.until("bot", lambda one: one["state"] == "waiting_for_input")
    assert resting["paused"]["by"] == "budget"
    assert (resting["tokens"], resting["left"]) == (100, {"tokens": -10})
    assert "`otpy-agents budget grant bot --tokens N`" in second.done("status")
    refused = second.type("resume", "bot")
    assert (refused.exit_code, "grant it more" in refused.stderr) == (1, True)
    wide = second.type("budget", "grant", "bot", "--tokens", "5000")
    assert (wide.exit_code, "which is what 'w' can give" in wide.stderr) == (1, True)
    assert "1000 tokens more" in second.done("budget", "grant", "w", "--tokens", "1000")
    assert second.agent("bot")["state"] == "waiting_for_input"
    assert "500 tokens more" in second.done("budget", "grant", "bot", "--tokens", "500")
    assert host.end() == 0, host.stderr
    assert any("life 2, session s-1" in line for line in host.output("bot"))
    assert host.told("budget.granted") == ["list", "bot"]


def test_an_answer_reaches_the_agent_that_asked(second: SecondTerminal) -> None:
    """The answer is in its next prompt, and so are warnings."""
    host = second.up(bot(second, "bot", "ask,ok"))
    asked = second.until("bot", lambda one: one["paused"])
    assert (asked["paused"]["by"], asked["doing"]) == ("question", "Which port?")
    assert "`otpy-agents answer bot TEXT`" in second.done("status")
    second.done("warn", "bot", "Hurry.")
    second.done("answer", "bot", "8080 it is.")
    assert host.end() == 0
    (line,) = [line for line in host.output("bot") if "life 2" in line]
    assert "8080 it is." in line
    assert "Hurry." in line


def test_what_is_to_be_typed_names_the_list_as_it_was_named(second: SecondTerminal) -> None:
    """Typed as it stands it is understood, beside other trees of the folder too."""
    host = second.up(bot(second, "bot", "ask,ok"))
    second.until("bot", lambda one: one["paused"])
    refused = second.type("resume", "bot", "--list", "w.toml")
    assert "`otpy-agents answer bot TEXT --list w.toml`" in refused.stderr
    said = second.done("pause", "bot", "--list", "w.toml")
    assert said.startswith("bot: rests already, and is paused too; ")
    said = second.done("answer", "bot", "8080", "--list", "w.toml")
    assert "`otpy-agents resume bot --list w.toml`" in said
    assert second.done("resume", "bot") == "bot: goes on\n"
    assert host.end() == 0


def test_what_has_not_begun_can_be_reaped_and_nothing_else(second: SecondTerminal) -> None:
    """A reaped one never begins; a program cannot get an agent's budget."""
    host = second.up(shell("first", WAITS), shell("second", "echo never"), parallel=1)
    early = second.type("pause", "second")
    assert (early.exit_code, "it has not begun" in early.stderr) == (1, True)
    assert second.done("reap", "w/second", "--why", "no") == "w/second: reaped\n"
    assert second.type("reap", "second", "--why", "no").exit_code == 1
    assert second.type("budget", "grant", "first", "--tokens", "5").exit_code == 1
    assert second.type("budget", "grant", "first").exit_code == 2
    second.go()
    assert host.end() == 1
    assert host.output("second") == []


def test_nothing_a_stranger_sends_harms_the_tree(second: SecondTerminal) -> None:
    """Garbage, half lines, unknown commands, wrong arguments: the work still ends as usual."""
    host = second.up(shell("build", WAITS))
    for line in (
        b"\x00\xff garbage\n",
        b"{}\n",
        b'{"version": 1, "command": "more", "arguments": {"after": "x"}}\n',
        b'{"version": 1, "command": "grant", "arguments": {"agent": "w", "tokens": true}}\n',
        b'{"version": 1, "command": "pause", "arguments": {"name": "x", "agent": 7}}\n',
        b'{"version": 1, "command": "reap", "arguments": {"agent": "build"}}\n',
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(second.socket))
            client.sendall(line)
            answer = json.loads(client.makefile().readline())
            assert answer["ok"] is False, line
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(second.socket))
        client.sendall(b'{"version"')
        assert second.agent("build")["state"] == "working"
    second.go()
    assert host.end() == 0
    assert host.stderr == ""
