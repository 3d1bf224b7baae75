"""`otpy-agents logs`: past events, followed ones, and readers that stop reading."""

from __future__ import annotations

import json
import os
import pty
import signal

import pytest

from tests.agents.cli.commands.second_terminal import SecondTerminal, bot
from tests.agents.host import PATIENCE, shell

pytestmark = pytest.mark.real_time

WAITS = "while [ ! -e {here}/go ]; do sleep 0.02; done"


def read_until(terminal: int, words: str) -> str:
    """Read a terminal until words come."""
    seen = ""
    while words not in seen:
        seen += os.read(terminal, 65536).decode()
    return seen


def test_the_past_is_shown_without_secrets(second: SecondTerminal) -> None:
    """Past events are shown for all agents or for one, as lines or as objects (G-04)."""
    second.up(
        shell("build", f"echo key $MY_TOKEN; {WAITS}") + 'env = {MY_TOKEN = "s3cret-value"}\n',
        shell("other", WAITS),
    )
    second.until("build", lambda one: "key" in one["doing"])
    second.done("warn", "build", "never use s3cret-value")
    while "mortal.started other" not in (text := second.done("logs")):
        pass
    assert "s3cret-value" not in text
    assert 'line="key [MY_TOKEN]"' in text
    events = [json.loads(line) for line in second.done("logs", "build", "--json").splitlines()]
    assert {one["id"] for one in events} == {"build"}
    (told,) = [one for one in events if one["event"] == "operator.command"]
    assert told["text"].startswith("never use [")
    wrong = second.type("logs", "-f", "bild")
    assert (wrong.exit_code, "did you mean 'build'?" in wrong.stderr) == (2, True)


def test_a_follower_on_a_terminal_leaves_with_ctrl_c(second: SecondTerminal) -> None:
    """It shows events as they happen; the tree does not notice its end."""
    host = second.up(bot(second, "bot", "waits"))
    ours, theirs = pty.openpty()
    follower = second.start("logs", "-f", stdout=theirs)
    os.close(theirs)
    read_until(ours, "mortal.started bot")
    second.done("warn", "bot", "I see you")
    read_until(ours, "I see you")
    follower.send_signal(signal.SIGINT)
    assert follower.wait(PATIENCE) == 130
    os.close(ours)
    assert follower.stderr is not None
    assert follower.stderr.read() == b""
    second.go()
    assert host.end() == 0


def test_a_follower_ends_with_the_tree(second: SecondTerminal) -> None:
    """It ends normally, with the last event; the tree does not wait for it."""
    host = second.up(shell("build", f"{WAITS}; echo last words"))
    follower = second.start("logs", "-f")
    assert follower.stdout is not None
    assert b"mortal.started build" in follower.stdout.readline()
    second.go()
    out, err = follower.communicate(timeout=PATIENCE)
    assert host.end() == 0
    assert (follower.returncode, err) == (0, b"")
    assert b"last words" in out
    assert b"list.finished" in out.splitlines()[-1]


def test_a_follower_of_a_killed_host_is_told_what_to_type(second: SecondTerminal) -> None:
    """One line shows it, and the status is 1."""
    host = second.up(shell("build", WAITS))
    follower = second.start("logs", "-f", "build")
    assert follower.stdout is not None
    follower.stdout.readline()
    host.kill()
    _, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 1
    line = f"otpy-agents: w.toml: its host (process {host.pid}) was killed;"
    assert err.decode() == f"{line} `otpy-agents up w.toml` goes on\n"


def test_a_slow_reader_never_blocks_the_tree(second: SecondTerminal) -> None:
    """The work ends although the reader stops reading; later it is told what it missed."""
    flood = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); echo line $i of many, many more; done"
    host = second.up(shell("build", f"{WAITS}; {flood}"), shell("last", f"{WAITS}; sleep 0.5"))
    follower = second.start("logs", "-f")
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.send_signal(signal.SIGSTOP)
    second.go()
    assert host.end() == 0
    assert len(host.output("build")) == 6000
    follower.send_signal(signal.SIGCONT)
    _, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0
    assert b"events were missed\n" in err
