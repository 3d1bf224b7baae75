"""`otpy-agents retry` from a second terminal, with and without a host; the form of `--list`."""

from __future__ import annotations

import stat

import pytest

from tests.agents.cli.commands.second_terminal import SecondTerminal, bot
from tests.agents.host import shell

pytestmark = pytest.mark.real_time

WAITS = "while [ ! -e {here}/go ]; do sleep 0.02; done"


def failing(id: str, until: str = "go") -> str:
    """Return a program that is reaped while the file of that name is missing."""
    return shell(id, f"test -e {{here}}/{until}", restarts=0)


def test_what_was_reaped_begins_again_while_its_tree_runs(second: SecondTerminal) -> None:
    """One is named, or all are; the answers tell it, and the list ends as it should."""
    broken = (failing(name, until="mended") for name in "ab")
    host = second.up(*broken, bot(second, "waits", "waits"))
    for name in "ab":
        second.until(name, lambda one: one["over"])
    second.until("waits", lambda one: one["state"] == "working")
    waits = second.type("retry", "waits")
    assert (waits.exit_code, "it is at work" in waits.stderr) == (1, True)
    assert second.done("retry", "a") == "a: begins again\n"
    second.until("a", lambda one: one["attempts"] == 2 and one["over"])
    (second.folder / "mended").touch()
    said = second.done("retry", "--reaped").splitlines()
    assert said == ["w/a: begins again", "w/b: begins again"]
    second.go()  # not earlier: the host ends when no assignment is at work
    assert host.end() == 0
    assert host.summary() == {"a": "done", "b": "done", "waits": "done"}


def test_what_was_reaped_begins_again_with_the_next_host(second: SecondTerminal) -> None:
    """`retry` needs no host, and a single list need not be named."""
    second.site.write(failing("a"), failing("b"))
    assert second.site.run()[0] == 1
    nobody = second.type("retry", "c")
    assert (nobody.exit_code, "wanted one of a, b" in nobody.stderr) == (2, True)
    assert second.type("retry", "a", "c").exit_code == 2
    assert "begins again with the next `otpy-agents up" in second.done("retry", "a")
    assert second.type("retry", "a").exit_code == 1
    second.go()
    code, host = second.site.run()
    assert (code, host.summary()) == (1, {"a": "done", "b": "reaped"})
    assert second.done("retry", "--reaped", "--list", "w.toml").startswith("b: ")
    assert second.site.run()[0] == 0
    assert second.done("retry", "--reaped") == "nothing was reaped\n"


CHATTERS = "test -e {here}/quiet || head -c 300 /dev/zero | tr '\\\\0' '\\\\n'; sleep 0.3"


def test_a_program_whose_budget_is_spent_begins_again_when_there_is_more(
    second: SecondTerminal,
) -> None:
    """Without a host, too, `retry` is refused until then, and `budget grant` gives it."""
    second.site.write(shell("a", CHATTERS, output_bytes=200))
    assert second.site.run()[1].summary() == {"a": "reaped"}
    (second.folder / "quiet").touch()
    refused = second.type("retry", "a")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "it would be reaped at once: budget of 'w/a' spent: 300 of 200" in refused.stderr
    assert "`otpy-agents budget grant a --bytes N --list w.toml`" in refused.stderr
    for words, code in (
        (("nobody", "--bytes", "1"), 2),
        (("a", "--usd", "1"), 1),
        (("w", "--bytes", "1"), 1),
    ):
        assert second.type("budget", "grant", *words, "--list", "w.toml").exit_code == code
    said = second.done("budget", "grant", "a", "--bytes", "5000", "--list", "w.toml")
    assert said == (
        "a: 5000 output_bytes more (4900 left), from the next `otpy-agents up w.toml` on\n"
    )
    assert second.done("retry", "a").startswith("a: begins again")
    assert second.site.run()[1].summary() == {"a": "done"}


def test_another_number_in_the_list_is_more_too(second: SecondTerminal) -> None:
    """The budget of the whole list is raised there, and `retry` asks what the list says now."""
    second.site.write(shell("a", CHATTERS), output_bytes=200)
    assert second.site.run()[1].summary() == {"a": "reaped"}
    refused = second.type("retry", "a")
    assert "`otpy-agents budget grant w --bytes N --list w.toml`" in refused.stderr
    second.site.write(shell("a", CHATTERS), output_bytes=5000)
    second.done("retry", "a")
    assert second.site.run()[1].summary() == {"a": "done"}


def test_a_grant_is_more_than_the_number_that_the_list_has_now(second: SecondTerminal) -> None:
    """`retry` says what to type, and believes it when that is done."""
    second.site.write(shell("a", CHATTERS), output_bytes=200)
    assert second.site.run()[1].summary() == {"a": "reaped"}
    (second.folder / "quiet").touch()
    second.site.write(shell("a", CHATTERS), output_bytes=250)
    assert second.type("retry", "a").exit_code == 1
    said = second.done("budget", "grant", "w", "--bytes", "5000", "--list", "w.toml")
    assert said.startswith("w: 5000 output_bytes more (4950 left)")
    second.done("retry", "a")
    assert second.site.run()[1].summary() == {"a": "done"}


def test_a_first_number_of_the_list_can_be_granted_more_at_once(second: SecondTerminal) -> None:
    """No host has known it yet."""
    second.site.write(shell("a", CHATTERS))
    second.site.run()
    second.site.write(shell("a", CHATTERS), output_bytes=250)
    second.done("budget", "grant", "w", "--bytes", "5000", "--list", "w.toml")


@pytest.mark.parametrize("words", [[], ["a", "--reaped"]])
def test_who_is_retried_has_to_be_plain(second: SecondTerminal, words: list[str]) -> None:
    """One line says what is wanted."""
    result = second.type("retry", *words)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_all_commands_take_the_list_in_the_same_form(second: SecondTerminal) -> None:
    """`status` and `tree` take an argument or `--list`, the others `--list`."""
    host = second.up(shell("a", WAITS))
    for words in (
        ["status", "w.toml"],
        ["status", "--list", "w.toml"],
        ["tree", "--list", "w.toml"],
    ):
        assert "a" in second.done(*words)
    assert second.done("warn", "a", "text", "--list", "w.toml").startswith("a: told")
    both = second.type("status", "w.toml", "--list", "w.toml")
    assert (both.exit_code, both.stderr.count("\n")) == (2, 1)
    second.go()
    host.end()


def test_a_ledger_that_is_deleted_is_put_back(second: SecondTerminal) -> None:
    """The tree goes on and tells it; the next host repeats nothing."""
    host = second.up(shell("a", "echo once"), shell("b", WAITS))
    second.until("a", lambda one: one["over"])
    for name in ("w.sqlite", "w.sqlite-wal", "w.sqlite-shm"):
        (second.folder / name).unlink()
    assert second.agent("a")["state"] == "done"
    assert "was deleted while it was open" in str(host.until("state.astray")["reason"])
    second.go()
    assert host.end() == 0
    code, again = second.site.run()
    assert (code, again.output("a"), again.summary()) == (0, [], {"a": "done", "b": "done"})


def test_files_of_state_are_the_users_alone(second: SecondTerminal) -> None:
    """The files hold prompts and answers."""
    host = second.up(bot(second, "a", "waits"))
    paths = [*second.folder.glob("w.*sqlite*")]
    assert {"w.sqlite", "w.sqlite.lock", "w.sessions.sqlite"} <= {one.name for one in paths}
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) & 0o077 for one in paths}
    assert modes == dict.fromkeys(modes, 0)
    second.go()
    host.end()
