"""A CLI that is not logged in, with the real output of Claude Code in that case."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.agents.cli.commands.terminal import Terminal

pytestmark = pytest.mark.real_time

OUTPUTS = Path(__file__).parents[2] / "cli_outputs" / "claude"


@pytest.fixture
def path(terminal: Terminal) -> dict[str, str]:
    """A PATH with a `claude` that is logged in as soon as the file `login` exists."""
    program = terminal.folder / "bin" / "claude"
    program.parent.mkdir()
    out, well = (OUTPUTS / f"{name}.stdout" for name in ("noauth_streamjson", "ok"))
    login = terminal.folder / "login"
    program.write_text(
        f"#!/bin/sh\ntest -f {shlex.quote(str(login))} && exec cat {shlex.quote(str(well))}\n"
        f"cat {shlex.quote(str(out))}; exit 1\n"
    )
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{terminal.environment['PATH']}"}


@pytest.mark.parametrize("words", [("resume", "a", "--list", "l.toml"), ("cooldowns", "clear")])
def test_a_list_waits_for_the_login(
    terminal: Terminal, path: dict[str, str], words: tuple[str, ...]
) -> None:
    """A person is told once, no agent is reaped, and all are done after the login and a command."""
    table = '[[assignment]]\nid = "{}"\nagent = "claude"\nprompt = "hi"\nrestarts = 0\n'
    (terminal.folder / "l.toml").write_text("".join(table.format(name) for name in "abc"))
    up = terminal.start("up", "l.toml", "--json", env=path)
    told = up.until("operator.notified")
    assert told["id"] == "claude"
    for _ in range(3):
        up.until("agent.state", state="waiting_for_wakeup")
    (terminal.folder / "login").touch()
    clear = words if words[0] == "resume" else (*words, "claude")
    assert terminal.call(*clear).returncode == 0
    assert up.end() == 0
    assert "operator.notified" not in up.stdout
    assert "reaped" not in up.stdout


def test_a_fallback_takes_over_from_an_agent_without_a_login(
    terminal: Terminal, path: dict[str, str]
) -> None:
    """It needs no option (C-06); without a fallback, or with the scope `task`, the run fails."""
    run = ("run", "hi", "--agent", "claude")
    argv = ("--fallback", "command", "--", "echo", "fine")
    done = terminal.start(*run, *argv, env=path)
    assert done.end() == 0
    assert done.stdout == "fine\n"
    assert "switching from claude to command (fallback)" in done.stderr
    for scope in ((), ("--fatal-scope", "task", *argv)):
        alone = terminal.start(*run, *scope, env=path)
        assert alone.end() == 1
        assert "failed (fatal): Not logged in" in alone.stderr
    assert "no account rests" in terminal.call("cooldowns").stderr
