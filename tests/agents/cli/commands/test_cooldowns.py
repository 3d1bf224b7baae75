"""`otpy-agents cooldowns`, and the effect of a success, a person and a limit of waits on a run."""

from __future__ import annotations

import json

import pytest

from tests.agents.cli.commands.terminal import Terminal

pytestmark = pytest.mark.real_time

LIMITED = (
    "test -f ok && echo fine || { echo 'You have hit your usage limit. Try again in"
    " 30 days.' >&2; exit 1; }"
)
RUN = ("run", "x", "--agent", "command")
SHELL = ("--", "sh", "-c", LIMITED)
FOR_EVER = ("--max-wait", "1e9")


def test_a_success_ends_the_cooldown_for_all_runs(terminal: Terminal) -> None:
    """A person who has paid types `retry-now` once, and the next run does not wait either."""
    first = terminal.start(*RUN, "--json", *FOR_EVER, *SHELL)
    run = first.until("wait.began")["run"]
    (terminal.folder / "ok").touch()
    assert terminal.call("runs", "retry-now", run).returncode == 0
    assert first.end() == 0
    later = terminal.call(*RUN, *SHELL)
    assert (later.returncode, later.stdout) == (0, "fine\n")
    assert "rests" not in later.stderr


def test_a_run_that_had_to_wait_for_days_ends_at_once(terminal: Terminal) -> None:
    """It fails as quota, with the moment, and so does the next run, until a user clears it."""
    for _ in range(2):
        done = terminal.call(*RUN, *SHELL)
        assert done.returncode == 1
        assert "failed (quota): command rests until " in done.stderr
        assert "otpy-agents cooldowns clear NAME" in done.stderr
    (line,) = terminal.call("cooldowns", "--json").stdout.splitlines()
    one = json.loads(line)
    assert one["agent_cli"] == "command"
    assert one["reason"].startswith("quota, told by run ")
    assert one["for_seconds"] > 29 * 86400
    listed = terminal.call("cooldowns").stdout
    assert "30 d)" in listed
    assert terminal.call("cooldowns", "clear", "nobody").returncode == 2
    cleared = terminal.call("cooldowns", "clear", "command")
    assert cleared.stdout.endswith("may be asked again\n")
    (terminal.folder / "ok").touch()
    assert terminal.call(*RUN, *SHELL).returncode == 0
    assert "no account rests" in terminal.call("cooldowns").stderr


def test_clearing_in_another_terminal_lets_a_waiting_run_go_on(terminal: Terminal) -> None:
    """The waiting run checks every few seconds."""
    waits = terminal.start(*RUN, "--json", *FOR_EVER, *SHELL)
    waits.until("wait.began")
    (terminal.folder / "ok").touch()
    assert terminal.call("cooldowns", "clear", "command").returncode == 0
    assert waits.end() == 0
