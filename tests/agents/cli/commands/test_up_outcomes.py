"""`otpy-agents up`, end to end: the outcomes, the kept files, and the exit status."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from tests.agents.host import Site, once, shell

pytestmark = pytest.mark.real_time

ADDS = "echo $OTPY_ASSIGNMENT >> $DID"
NEVER = shell("never", "echo no luck; exit 3", restarts=1, backoff=[0], expect="reaped")


def test_all_as_expected_is_exit_status_0(site: Site) -> None:
    """An expected reap counts as well; its reason is in the summary."""
    site.write(shell("a", ADDS), NEVER, shell("b", ADDS))
    status, host = site.run()
    assert (status, host.stderr) == (0, "")
    assert host.summary() == {"a": "done", "never": "reaped", "b": "done"}
    (reaped,) = [one for one in host.events if one["event"] == "mortal.reaped"]
    assert reaped["reason"] == "restarts used up (1): crashed: WorkerFailed: exit code 3: no luck"
    assert sorted(site.did_what()) == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "ended"),
    [
        (shell("x", "exit 1", restarts=0), "reaped"),
        (shell("x", "true", expect="reaped"), "done"),
        (shell("x", "true", cwd="nowhere"), "failed"),
        (shell("x", "true", cwd="nowhere", expect="reaped"), "failed"),
    ],
)
def test_anything_else_is_exit_status_1(site: Site, table: str, ended: str) -> None:
    """Any surprise gives status 1; the other assignments are still completed."""
    site.write(table, shell("a", ADDS))
    status, host = site.run()
    assert status == 1
    assert host.summary() == {"x": ended, "a": "done"}


def test_a_second_run_does_nothing_twice(site: Site) -> None:
    """Done and reaped are final; the summary and the exit status are the same."""
    site.write(shell("a", ADDS), NEVER)
    _, first = site.run()
    status, second = site.run()
    assert status == 0
    assert second.summary() == first.summary()
    assert second.told("mortal.started") == second.told("mortal.output") == []
    assert site.did_what() == ["a"]


def test_fresh_starts_over(site: Site) -> None:
    """Everything is done again, in empty folders, and no worker is told of earlier lives."""
    made = "ls $OTPY_WORK; echo ${OTPY_LAST_EXIT-none}; touch $OTPY_WORK/made; " + ADDS
    site.write(shell("a", made), NEVER)
    waiting = site.file.with_suffix(".messages") / "a.json"
    waiting.parent.mkdir()
    waiting.touch()
    for options in ((), ("--fresh",)):
        assert waiting.exists()
        status, host = site.run(*options)
        assert status == 0
        assert host.output("a") == ["none"]
    assert not waiting.exists()  # nor does an agent get the messages to an earlier one
    assert site.did_what() == ["a", "a"]


def test_a_changed_assignment_is_done_again_and_no_other(site: Site) -> None:
    """The definition counts; an added one is done, a removed one is not shown."""
    site.write(shell("a", ADDS), shell("b", ADDS), shell("c", ADDS), parallel=1)
    site.run()
    site.write(shell("a", ADDS), shell("b", f"{ADDS}; true"), shell("d", ADDS), parallel=1)
    status, host = site.run()
    assert status == 0
    assert site.did_what() == ["a", "b", "c", "b", "d"]
    assert list(host.summary()) == ["a", "b", "d"]


def test_a_restarted_worker_is_told_why(site: Site) -> None:
    """Its environment and the event have the reason."""
    site.write(shell("a", "echo ${OTPY_LAST_EXIT-first}; [ $OTPY_INCARNATION = 2 ]", backoff=[0]))
    status, host = site.run()
    assert status == 0
    because = "crashed: WorkerFailed: exit code 1: first"
    assert host.output("a") == ["first", f"you were restarted because {because}"]
    (report,) = [one for one in host.events if one["event"] == "mortal.restarting"]
    assert report["reason"] == because


def test_output_is_streamed_while_the_worker_runs(site: Site) -> None:
    """The worker goes on only after the test has read its first line."""
    site.write(shell("a", "echo first; while [ ! -e {here}/go ]; do sleep 0.01; done; echo last"))
    host = site.up()
    host.until("mortal.output", "a", line="first")
    (site.folder / "go").touch()
    assert host.end() == 0
    assert host.output("a") == ["first", "last"]


def test_secrets_are_neither_shown_nor_kept(site: Site) -> None:
    """The value of a variable with a telling name is replaced in events and ledger (G-04)."""
    code = "echo token $MY_API_TOKEN; echo token $MY_API_TOKEN; exit 1"
    secret = 'env = { MY_API_TOKEN = "s3cr3t-value" }'
    site.write(shell("a", code, restarts=1, backoff=[0], expect="reaped") + secret)
    status, host = site.run()
    assert status == 0
    assert host.output("a") == ["token [MY_API_TOKEN]"] * 4
    assert "s3cr3t" not in str(host.events) + host.stderr
    kept = b"".join(path.read_bytes() for path in site.folder.glob("w.sqlite*"))
    assert b"s3cr3t" not in kept


def test_the_reason_of_a_reaped_one_is_in_the_ledger(site: Site) -> None:
    """A later reader finds it there (TREE-49)."""
    site.write(NEVER)
    site.run()
    with contextlib.closing(sqlite3.connect(site.file.with_suffix(".sqlite"))) as database:
        rows = database.execute("SELECT state, reason, restarts FROM assignment").fetchall()
    why = "restarts used up (1): crashed: WorkerFailed: exit code 3: no luck"
    assert rows == [("reaped", why, 1)]


def test_monitors_do_their_job_on_real_processes(site: Site) -> None:
    """A stall, a budget, a rule, a deadline and a left-over are reported, each with its reason."""
    quick = {"restarts": 0, "grace": 0.2, "expect": "reaped"}
    rule = "rules: [{name: r, kind: command, block: [forbidden], action: reap}]"
    (site.folder / "rules.yaml").write_text(rule, encoding="utf-8")
    spends = "while :; do echo xxxxxxxxxxxxxxxx; sleep 0.001; done"
    site.write(
        shell("stalls", "echo once; sleep 99", stall=0.3, **quick),
        shell("spends", spends, output_bytes=2000, **quick),
        shell("breaks", "sleep 99 # forbidden", **quick),
        shell("late", "sleep 99", deadline=0.3, **quick),
        shell("leaves", "sleep 98 & echo done", grace=0.2),
        parallel=5,
        rule_file="rules.yaml",
    )
    status, host = site.run()
    assert status == 0, host.summary()
    reasons = {one["id"]: one["reason"] for one in host.events if one["event"] == "summary"}
    assert "WorkerStalled: stalled: no progress for 0." in reasons["stalls"]
    assert reasons["spends"].startswith("budget of 'w/spends' spent: ")
    assert reasons["breaks"] == "violation of 'r': a command holds 'forbidden'"
    assert "took longer than its deadline of 0.3 s" in reasons["late"]
    assert host.told("mortal.left_over") == ["leaves"]


def test_chaos_ends_with_every_assignment_accounted_for(site: Site) -> None:
    """Workers are killed all the time; with enough restarts, all are done in the end."""
    slow = f"sleep 0.2; {ADDS}"
    names = "abcdef"
    site.write(*(shell(name, slow, restarts=99, backoff=[0]) for name in names), parallel=3)
    status, host = site.run("--chaos", "6")
    assert status == 0
    assert host.summary() == dict.fromkeys(names, "done")
    assert set(site.did_what()) == set(names)


def test_without_a_terminal_there_are_plain_lines_and_a_table(site: Site) -> None:
    """Each event has one line without control characters; the outcomes follow."""
    site.write(shell("a", "echo hello"), NEVER)
    done = once(site.file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert any("mortal.output a line=hello" in line for line in lines)
    assert any(line.split()[:3] == ["never", "reaped", "reaped"] for line in lines)
