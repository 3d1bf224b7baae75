"""How a command finds its tree, and its message if there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.cli.commands.second_terminal import SecondTerminal
from tests.agents.host import Site, shell

pytestmark = pytest.mark.real_time

WAITS = "while [ ! -e {here}/go ]; do sleep 0.02; done"
ACTING = (
    ("pause", "a"),
    ("resume", "a"),
    ("answer", "a", "x"),
    ("reap", "a", "--why", "x"),
    ("warn", "a", "x"),
    ("budget", "grant", "a", "--usd", "1"),
)
LOOKING = (("status",), ("tree",), ("logs",), ("logs", "-f"))


@pytest.mark.parametrize("words", [*LOOKING, *ACTING], ids=" ".join)
def test_nothing_runs(second: SecondTerminal, words: tuple[str, ...]) -> None:
    """One line that says what to type; the status is not 0."""
    result = second.type(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == ("otpy-agents: no tree is running; `otpy-agents up LIST` starts one\n")


def test_nothing_runs_for_a_list(second: SecondTerminal) -> None:
    """The line names the list; a file that is not a list is refused."""
    second.site.write(shell("a", "echo"))
    result = second.type("status", "w.toml")
    assert result.exit_code == 1
    assert result.stderr == "otpy-agents: w.toml: nothing runs; `otpy-agents up w.toml` starts it\n"
    assert second.type("status", "v.toml").exit_code == 2
    assert second.type("status", "--state", "w.sqlite").exit_code == 1
    assert second.type("status", "w.toml", "--state", "w.sqlite").exit_code == 2


def test_a_killed_host_is_told_from_none(second: SecondTerminal) -> None:
    """The line shows the command that goes on; the next host takes the killed one's place."""
    host = second.up(shell("a", WAITS))
    host.kill()
    for words in (("status",), ("status", "w.toml"), ("pause", "a")):
        result = second.type(*words)
        assert result.exit_code == 1
        assert f"its host (process {host.pid}) was killed" in result.stderr
        assert "`otpy-agents up w.toml` goes on" in result.stderr
    assert "was killed" in second.type("status", "--state", "w.sqlite").stderr
    again = second.again()
    assert second.status()["host"]["pid"] == again.pid
    second.go()
    assert again.end() == 0
    assert "no tree is running" in second.type("status").stderr


def test_a_list_that_was_spoilt_since_is_still_found(second: SecondTerminal) -> None:
    """A user who edits the list while it runs can still see its status."""
    second.up(shell("a", WAITS))
    second.site.file.write_text("spoilt =", encoding="utf-8")
    assert second.done("status", "w.toml").startswith("w  0/1")


def test_trees_are_told_apart(second: SecondTerminal, tmp_path: Path) -> None:
    """The folder decides; if it is not enough, `--list` does."""
    first = second.up(shell("a", WAITS))
    other = Site(tmp_path)
    other.file = tmp_path / "v.toml"
    other.write(shell("a", WAITS), shell("b", WAITS))
    later = other.up()
    later.until("mortal.started", "b")
    try:
        listed = second.done("status", "--json")
        assert [json.loads(line)["pid"] for line in listed.splitlines()] == [later.pid, first.pid]
        assert "v.toml" in second.done("status")
        unclear = second.type("pause", "a")
        assert unclear.exit_code == 2
        assert unclear.stderr.endswith("wanted --list with one of: v.toml, w.toml\n")
        said = second.done("pause", "a", "--list", "w.toml")
        assert said.endswith("`otpy-agents resume a --list w.toml` lets it go on\n")
        assert "w  0/1" in second.done("status", "w.toml")
        assert "v  0/2" in second.done("status", "--state", "v.sqlite")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        assert str(second.site.file) in second.type("status", where=elsewhere).stdout
        lost = second.type("pause", "a", where=elsewhere)
        assert (lost.exit_code, "nothing runs for a list in this folder" in lost.stderr) == (
            1,
            True,
        )
        second.done("resume", "a", "--list", "w.toml")
        second.go()
        assert (first.end(), later.end()) == (0, 0)
    finally:
        other.close()
