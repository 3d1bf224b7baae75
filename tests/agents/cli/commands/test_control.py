"""`otpy-agents control`, as an operator types it: real agents, real files, real kills."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.control.audit import AuditFile
from otpy_agents.control.stores.sqlite import ProjectChanged, SqliteControl, project_stream
from otpy_agents.log import Append
from tests.agents.cli.commands.terminal import Terminal, alive
from tests.servers.server_program import program, running

pytestmark = pytest.mark.real_time

WRITES = "echo 'print(1)' > $0.py; echo Done."
WAITS = "echo $$ > $0.pid; while [ ! -e go ]; do sleep 0.02; done; echo x >> $0.runs; touch $0.py"


def task(name: str, script: str = WRITES, **more: Any) -> dict[str, Any]:
    return {
        "task_id": name,
        "intent": f"Add {name}",
        "tool": "command",
        "command": ["sh", "-c", script, name],
        "instructions": f"Write {name}.py.",
        "acceptance_criteria": [f"{name}.py exists"],
        "retry_policy": {"max_retries": 0},
        **more,
    }


class Operator:
    """An operator who types `otpy-agents control` in a folder."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.project = terminal.folder / "sandbox" / "demo"
        self.where: tuple[str, ...] = ()

    def does(self, *words: str) -> str:
        """Type an order that is carried out; return its output."""
        done = self.terminal.call_here("control", *words, *self.where)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def refused(self, *words: str, status: int) -> str:
        """Type an order that is refused; return its one line."""
        done = self.terminal.call_here("control", *words, *self.where)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
        return done.stderr

    def begins(self, *tasks: dict[str, Any], completed: bool = True) -> None:
        """Set up a project with tasks, and let it run."""
        self.does("init-state")
        goal = "--completed" if completed else "--not-completed"
        self.does("set-goal", "--description", "Build it", "--project-id", "demo", goal)
        self.enqueue(*tasks)
        self.does("resume")

    def enqueue(self, *tasks: dict[str, Any]) -> None:
        file = self.terminal.folder / "tasks.json"
        file.write_text(json.dumps(tasks))
        self.does("enqueue", "--task-file", str(file))

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.does("status", "--json"))
        return state

    @property
    def audit(self) -> list[dict[str, Any]]:
        return self.lines("audit.log.jsonl")

    def lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.project / name).read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def operator(terminal: Terminal) -> Operator:
    """An operator in a folder."""
    return Operator(terminal)


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


def test_a_project_is_worked_off_and_everything_can_be_read(operator: Operator) -> None:
    """One task passes, one is fixed, one is blocked; exit 0, both files whole.

    CTL-06, CTL-14, CTL-17, CTL-47, CTL-48, CTL-49; and the orders CTL-50, CTL-51, CTL-52,
    CTL-53, CTL-56.
    """
    fixed = "[ -e tried ] && touch fixed.py; touch tried; echo Done."
    operator.begins(
        task("first"),
        task("fixed", fixed, retry_policy={"max_retries": 1}),
        task("never", "echo Done."),
    )
    done = operator.terminal.call("control", "start")
    assert done.returncode == 0, done.stderr
    assert "COMPLETED: the goal is reached; 2 tasks completed, 1 blocked" in done.stderr
    assert "[STATE_TRANSITION] task_complete first" in done.stdout
    assert "[PERFORMANCE] state loaded in" in done.stdout
    state = operator.state
    assert [one["task_id"] for one in state["completed_tasks"]] == ["first", "fixed"]
    assert [one["task_id"] for one in state["blocked_tasks"]] == ["never"]
    assert [line["event"] for line in operator.audit if "INTER" not in line["event"]] == [
        *("TASK_START", "TASK_COMPLETE", "TASK_START", "TASK_COMPLETE"),
        *("TASK_START", "TASK_BLOCKED", "COMPLETED"),
    ]
    last = operator.audit[3]
    assert last["state_before"]["supervisor"]["iteration"] == 1
    assert last["state_after"]["supervisor"]["iteration"] == 2
    assert (last["validation_report"]["valid"], last["response"].strip()) == (True, "Done.")
    assert "got no file" in last["prompt"] or "fixed.py exists" in last["prompt"]
    kinds = [line["type"] for line in operator.lines("prompts.log.jsonl")]
    assert kinds[:6] == ["PROMPT", "RESPONSE", "PROMPT", "RESPONSE", "FIX_PROMPT", "RESPONSE"]
    assert "lines, as they were written" in operator.does("audit", "--verify")
    shown = operator.does("tasks")
    assert [line.split()[:2] for line in shown.splitlines()] == [
        ["completed", "first"],
        ["completed", "fixed"],
        ["blocked", "never"],
    ]


def test_halt_from_another_terminal_stops_the_attempt_and_keeps_the_task(
    operator: Operator,
) -> None:
    """CTL-54, CTL-65, C-41: `resume` and `start` go on with that task; no process stays alive."""
    operator.begins(task("a", WAITS), task("b"))
    loop = operator.terminal.start("control", "start")
    wait_for(operator.project / "a.pid")
    operator.does("halt", "--reason", "lunch")
    assert loop.end() == 3
    assert "HALTED: lunch; `otpy-agents control resume`" in loop.stderr
    assert not alive(int((operator.project / "a.pid").read_text()))
    assert operator.state["supervisor"]["halt_reason"] == "lunch"
    assert operator.terminal.call("control", "start").returncode == 3
    operator.does("resume")
    (operator.project / "go").touch()
    assert operator.terminal.call("control", "start").returncode == 0
    assert [one["task_id"] for one in operator.state["completed_tasks"]] == ["a", "b"]
    (halt,) = [line for line in operator.audit if line["event"] == "HALT"]
    assert (halt["reason"], "uid" in halt["actor"]) == ("lunch", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_loop_the_next_one_goes_on(
    operator: Operator, number: signal.Signals
) -> None:
    """CTL-62: the task comes first, is done once, and the audit is whole."""
    operator.begins(task("a", WAITS), task("b"))
    loop = operator.terminal.start("control", "start")
    wait_for(operator.project / "a.pid")
    loop.signal(number)
    status = loop.end()
    assert status == (-number if number == signal.SIGKILL else 128 + number)
    worker = int((operator.project / "a.pid").read_text())
    while alive(worker):  # its guardian ends the worker of a killed host
        time.sleep(0.01)
    (operator.project / "go").touch()
    done = operator.terminal.call("control", "start")
    assert done.returncode == 0, done.stderr
    assert (operator.project / "a.runs").read_text() == "x\n"
    assert [one["task_id"] for one in operator.state["completed_tasks"]] == ["a", "b"]
    assert "as they were written" in operator.does("audit", "--verify")


def test_a_second_start_is_told_who_works_on_the_project(operator: Operator) -> None:
    """G-19."""
    operator.begins(task("a", WAITS))
    loop = operator.terminal.start("control", "start")
    wait_for(operator.project / "a.pid")
    second = operator.terminal.call("control", "start")
    assert second.returncode == 1
    assert f"got a project that process {loop.pid} works on" in second.stderr
    assert second.stderr.count("\n") == 1
    assert f"process {loop.pid} works on" in operator.refused("init-state", "--force", status=1)
    (operator.project / "go").touch()
    assert loop.end() == 0


def test_of_two_that_start_at_once_one_works(operator: Operator) -> None:
    """G-19: nothing is lost or done twice, and the other start prints one line."""
    operator.begins(task("a", "echo x >> a.runs; touch a.py; echo Done."), task("b"))
    loops = [operator.terminal.start("control", "start", "--quiet") for _ in range(2)]
    ends = sorted((loop.end(), loop.stderr.count("\n")) for loop in loops)
    assert ends in ([(0, 1), (1, 1)], [(0, 1), (0, 1)])  # or in turn
    assert (operator.project / "a.runs").read_text() == "x\n"
    assert [one["task_id"] for one in operator.state["completed_tasks"]] == ["a", "b"]


def test_a_manual_project_asks_before_each_dispatch(operator: Operator) -> None:
    """CTL-21: y goes on; anything else, and the end of input, halts with the task kept."""
    operator.does("init-state", "--execution-mode", "MANUAL")
    operator.does("set-goal", "--description", "g", "--project-id", "demo", "--completed")
    operator.enqueue(task("a"), task("b"))
    operator.does("resume")
    done = operator.terminal.call("control", "start", stdin="y\n")
    assert done.returncode == 3, done.stderr
    assert "a (Add a): let command do attempt 1? [y/N]" in done.stderr
    state = operator.state
    assert [one["task_id"] for one in state["completed_tasks"]] == ["a"]
    assert state["otpy"]["in_hand"]["task"]["task_id"] == "b"


def test_answers_may_be_typed_ahead(operator: Operator) -> None:
    """CTL-21: two in one write, and the terminal stays open."""
    operator.does("init-state", "--execution-mode", "MANUAL")
    operator.does("set-goal", "--description", "g", "--project-id", "demo", "--completed")
    operator.enqueue(task("a"), task("b"))
    operator.does("resume")
    ours, theirs = os.pipe()
    try:
        os.write(theirs, b"y\ny\n")
        loop = operator.terminal.start("control", "start", stdin=ours)
        assert loop.end() == 0, loop.stderr
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_blocked_task_can_be_done_anew(operator: Operator) -> None:
    """CTL-64."""
    operator.begins(task("a", "[ -e mended ] && touch a.py; echo Done."), completed=False)
    assert operator.terminal.call("control", "start").returncode == 3
    assert operator.state["supervisor"]["halt_reason"] == "TASK_LIST_EXHAUSTED_GOAL_INCOMPLETE"
    (operator.project / "mended").touch()
    operator.does("unblock", "a")
    operator.does("set-goal", "--completed")
    operator.does("resume")
    assert operator.terminal.call("control", "start").returncode == 0
    assert operator.state["blocked_tasks"] == []


def test_secrets_are_nowhere(operator: Operator) -> None:
    """G-04: not on the screen, not in the files, not in the log."""
    operator.begins(task("a", "echo $MY_TOKEN $OTHER; touch a.py"))
    words = ("control", "start", "--secret", "OTHER")
    done = operator.terminal.call(*words, env={"MY_TOKEN": "open-sesame", "OTHER": "dragon-egg"})
    assert done.returncode == 0
    written = [file for file in operator.terminal.folder.rglob("*") if file.is_file()]
    content = b"".join(file.read_bytes() for file in written) + done.stdout.encode()
    assert b"[MY_TOKEN] [OTHER]" in content
    assert b"open-sesame" not in content
    assert b"dragon-egg" not in content


def changed(lines: list[str]) -> list[str]:
    return [lines[0], lines[1].replace("task_id", "task_ID", 1), *lines[2:]]


def removed(lines: list[str]) -> list[str]:
    return [lines[0], *lines[2:]]


def moved(lines: list[str]) -> list[str]:
    return [lines[1], lines[0], *lines[2:]]


def added(lines: list[str]) -> list[str]:
    return [*lines, lines[-1]]


def emptied(_: list[str]) -> list[str]:
    return []


def test_an_audit_that_cannot_be_read_is_told_in_one_line(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTL-61: the disk may refuse, or the folder may belong to another user."""

    def refuse(self: AuditFile, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self.path))

    operator.does("init-state")
    operator.does("set-goal", "--project-id", "demo")
    monkeypatch.setattr(AuditFile, "compare", refuse)
    said = operator.refused("audit", "--verify", status=1)
    assert said.endswith("demo/audit.log.jsonl: Permission denied\n")


@pytest.mark.parametrize("alter", [changed, removed, moved, added, emptied])
def test_an_altered_audit_is_found_and_made_again(
    operator: Operator, alter: Callable[[list[str]], list[str]]
) -> None:
    """G-14: `audit --verify` finds it, and so does the next start, which keeps the altered file."""
    operator.begins(task("a"), task("b"), completed=False)
    assert operator.terminal.call("control", "start").returncode == 3
    file = operator.project / "audit.log.jsonl"
    whole = file.read_text()
    file.write_text("".join(f"{line}\n" for line in alter(whole.splitlines())))
    assert "audit.log.jsonl:" in operator.refused("audit", "--verify", status=1)
    operator.does("resume")
    done = operator.terminal.call("control", "start", "--quiet")
    assert (done.returncode, "[ERROR] the audit was altered" in done.stderr) == (3, True)
    assert "AUDIT_ALTERED" in [line["event"] for line in operator.audit]
    assert file.read_text().startswith(whole)
    assert "as they were written" in operator.does("audit", "--verify")


def test_a_torn_line_is_made_again_without_a_word(operator: Operator) -> None:
    """A crash leaves such a line."""
    operator.begins(task("a"), completed=False)
    operator.terminal.call("control", "start")
    file = operator.project / "audit.log.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    operator.does("resume")
    operator.terminal.call("control", "start")
    assert file.read_bytes().startswith(whole)
    assert list(operator.project.glob("*.altered-*")) == []


def test_an_operators_own_tables_count(operator: Operator) -> None:
    """CTL-31, C-32: more words that halt, and other guidelines than the built-in ones."""
    folder = operator.terminal.folder
    halts, types = folder / "halts.toml", folder / "types.toml"
    halts.write_text('[[halt]]\nreason = "BLOCKED"\npattern = "computer says no"\n')
    types.write_text('[[task_type]]\nname = "all"\nguidelines = ["Write for children."]\n')
    operator.begins(task("a", "echo Computer says no."))
    tables = ("--halts", str(halts), "--task-types", str(types))
    assert operator.terminal.call("control", "start", *tables).returncode == 3
    assert operator.state["supervisor"]["halt_reason"] == "BLOCKED"
    assert "Write for children." in operator.does("prompts")


def test_orders_that_do_not_fit_are_refused_in_one_line(operator: Operator) -> None:
    """Exit 2, and nothing changes; without a state, exit 1 with the command that makes one.

    CTL-01, CTL-24, CTL-55, CTL-57, CTL-61, C-30.
    """
    assert "control init-state" in operator.refused("status", status=1)
    assert "control init-state" in operator.refused("start", status=1)
    operator.does("init-state")
    assert "--force to forget it" in operator.refused("init-state", status=2)
    assert "one with a goal" in operator.refused("resume", status=2)
    assert "wanted --description" in operator.refused("set-goal", status=2)
    for name in ("../x", "x" * 256, "ü" * 128, " ", "-x"):
        assert "wanted a name for a folder" in operator.refused(
            "set-goal", "--project-id", name, status=2
        )
    assert "wanted a goal" in operator.refused("set-goal", "--description", " ", status=2)
    assert "wanted a reason" in operator.refused("halt", "--reason", "", status=2)
    assert "HALTED: not resumed yet" in operator.refused("start", status=3)
    operator.does("set-goal", "--description", "g")
    operator.does("resume")
    assert "one that is HALTED" in operator.refused("resume", status=2)
    assert "wanted one of claude," in operator.refused("start", "--helper", "nobody", status=2)
    for sandbox in ("nowhere", "docker", "docker:", "bubblewrap:x"):
        said = operator.refused("start", "--sandbox", sandbox, status=2)
        assert f"--sandbox: got '{sandbox}', wanted process, bubblewrap or docker:IMAGE" in said
    assert "answers a prompt" in operator.refused("start", "--helper", "command", status=2)
    for option, table in (("--halts", "halt"), ("--task-types", "task_type")):
        said = operator.refused("start", option, "/dev/null", status=2)
        assert f"wanted tables [[{table}]]" in said
    operator.enqueue(task("a"))
    words = ("enqueue", "--task-file", str(operator.terminal.folder / "tasks.json"))
    assert "the task 'a', which is in the queue" in operator.refused(*words, status=2)
    assert "wanted a blocked one: none is" in operator.refused("unblock", "a", status=2)
    file = operator.terminal.folder / "tasks.json"
    file.write_text('[{"task_id": 3}]')
    assert "tasks.json:1: [0].task_id: got 3" in operator.refused(*words, status=2)
    file.write_text(json.dumps([{**task("b"), "tool": "nobody", "command": []}], indent=1))
    said = operator.refused(*words, status=2)
    assert "tasks.json:5: [0].tool: got 'nobody', wanted one of claude, codex, command" in said
    assert "a variable that is set here" in operator.refused("status", "--secret", "NOPE", status=2)


def test_an_agent_in_bubblewrap_writes_into_no_other_project(operator: Operator) -> None:
    """CTL-60: this needs bubblewrap; without it the changed files are reported."""
    other = operator.project.parent / "other"
    other.mkdir(parents=True)
    operator.begins(task("a", "touch a.py; touch ../other/x; echo Done."), completed=False)
    done = operator.terminal.call("control", "start", "--sandbox", "bubblewrap")
    works = "bubblewrap" not in str(operator.state["supervisor"].get("halt_details"))
    assert (done.returncode, (other / "x").exists()) == (3, False), done.stderr
    assert [one["task_id"] for one in operator.state["completed_tasks"]] == ["a"] * works
    if works:
        operator.enqueue(task("b", "touch b.py; touch ../other/x; echo Done."))
        operator.does("resume")
        done = operator.terminal.call("control", "start")
        assert "its agent changed 1 file of the project other, such as x" in done.stderr
        assert "OUTSIDE_WRITE" in [line["event"] for line in operator.audit]


def test_an_agent_that_cannot_be_executed_halts_with_the_reason(operator: Operator) -> None:
    """CTL-33: there is no such program."""
    operator.begins(task("a", command=["/no/such/program"]))
    assert operator.terminal.call("control", "start").returncode == 3
    supervisor = operator.state["supervisor"]
    assert supervisor["halt_reason"] == "CURSOR_EXEC_FAILURE"
    assert "/no/such/program" in supervisor["halt_details"]


def test_a_task_that_cannot_be_executed_can_be_given_up(operator: Operator) -> None:
    """CTL-01, CTL-64, CTL-65: the others are done, and it is after an `unblock`."""
    operator.begins(task("typo", command=["pyhton", "x.py"]), task("b"), completed=False)
    done = operator.terminal.call("control", "start")
    assert "goes on with typo; `block typo` gives it up" in done.stderr
    assert "wanted the one in hand: typo" in operator.refused("block", "b", status=2)
    operator.does("block", "typo")
    assert "wanted the one in hand: none is" in operator.refused("block", "typo", status=2)
    operator.does("resume")
    operator.terminal.call("control", "start")
    state = operator.state
    assert [one["task_id"] for one in state["completed_tasks"]] == ["b"]
    (blocked,) = state["blocked_tasks"]
    assert blocked["reason"].startswith("by the operator, after CURSOR_EXEC_FAILURE: got no pro")
    programs = operator.terminal.folder / "bin"
    programs.mkdir()
    (programs / "pyhton").write_text("#!/bin/sh\ntouch typo.py\n")
    (programs / "pyhton").chmod(0o755)
    operator.does("unblock", "typo")
    operator.does("set-goal", "--completed")
    operator.does("resume")
    path = f"{programs}:{os.environ['PATH']}"
    assert operator.terminal.call("control", "start", env={"PATH": path}).returncode == 0
    assert "as they were written" in operator.does("audit", "--verify")
    events = [line["event"] for line in operator.audit if line["task_id"] == "typo"]
    assert events == ["TASK_START", "HALT", "TASK_BLOCKED", "TASK_START", "TASK_COMPLETE"]


def test_a_task_that_a_host_works_on_is_not_given_up(operator: Operator) -> None:
    """G-19: `halt` stops the attempt first."""
    operator.begins(task("a", WAITS))
    loop = operator.terminal.start("control", "start")
    wait_for(operator.project / "a.pid")
    assert f"process {loop.pid} works on" in operator.refused("block", "a", status=1)
    (operator.project / "go").touch()
    assert loop.end() == 0


def test_a_folder_belongs_to_one_project(operator: Operator) -> None:
    """CTL-60: another key or another store is another project, and is told how to get a folder."""
    other = "--state-key", "other", "--store", "sqlite:other.sqlite3"
    for operator.where in (("--state-key", "one"), other[:2], other[2:]):
        operator.begins(task("a", "echo x >> a.runs; touch a.py; echo Done."))
    operator.where = ("--state-key", "one")
    assert operator.terminal.call("control", "start", *operator.where).returncode == 0
    audit = operator.project / "audit.log.jsonl"
    whole = audit.read_bytes()
    for operator.where in (other[:2], other[2:]):
        for words in (("start",), ("audit", "--verify")):
            said = operator.refused(*words, status=1)
            assert f"{operator.project}: got the folder of control/" in said
            assert "/one in " in said
            assert "`set-goal --project-id NAME`" in said
    assert audit.read_bytes() == whole
    operator.does("set-goal", "--project-id", "another")
    for _ in range(2):
        done = operator.terminal.call("control", "start", *operator.where)
        assert done.returncode == 0, done.stderr
    assert (operator.project / "a.runs").read_text() == "x\n"
    assert (operator.project.with_name("another") / "a.runs").read_text() == "x\n"


@pytest.mark.slow
def test_a_project_in_redis_survives_a_server_that_goes_away(
    operator: Operator, tmp_path: Path
) -> None:
    """CTL-63: one line tells it, nothing is lost or done twice, and the next start goes on."""
    folder = tmp_path / "redis"
    folder.mkdir()
    argv = [program("redis-server"), "--dir", str(folder), "--appendonly", "yes", "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        where = ("--redis-host", "127.0.0.1", "--redis-port", str(port))
        operator.where = where
        operator.begins(task("a", WAITS), task("b"))
        loop = operator.terminal.start("control", "start", *where)
        wait_for(operator.project / "a.pid")
        second = operator.terminal.call("control", "start", *where)
        assert f"got a project that process {loop.pid} works on" in second.stderr
        subprocess.run([program("redis-cli"), "-p", str(port), "shutdown"], check=True)
        (operator.project / "go").touch()
        assert loop.end() == 1
        assert "wanted a Redis server that runs" in loop.stderr
        assert "Traceback" not in loop.stderr
    assert "wanted a Redis server that runs" in operator.refused("status", status=1)
    with running(lambda _: [*argv, str(port)], port=port):
        done = operator.terminal.call("control", "start", *where)
        assert done.returncode == 0, done.stderr
        assert [one["task_id"] for one in operator.state["completed_tasks"]] == ["a", "b"]
        assert (operator.project / "a.runs").read_text() == "x\n"
        assert "as they were written" in operator.does("audit", "--verify")


@pytest.mark.slow
def test_a_server_that_is_flushed_ends_the_loop_with_one_line(
    operator: Operator, tmp_path: Path
) -> None:
    """CTL-63: the state is gone; nothing more is dispatched, and nothing is written back."""
    argv = [program("redis-server"), "--save", "", "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        where = ("--redis-host", "127.0.0.1", "--redis-port", str(port))
        operator.where = where
        operator.begins(task("a", WAITS), task("b"))
        loop = operator.terminal.start("control", "start", *where)
        wait_for(operator.project / "a.pid")
        redis = [program("redis-cli"), "-p", str(port)]
        subprocess.run([*redis, "flushall"], check=True, stdout=subprocess.DEVNULL)
        (operator.project / "go").touch()
        assert loop.end() == 1
        assert "got no state, wanted one" in loop.stderr
        assert loop.stderr.count("\n") == 1
        assert "control init-state" in operator.refused("start", status=1)
        for database in ("0", "2"):
            keys = subprocess.run(
                [*redis, "-n", database, "keys", "*"], capture_output=True, check=True
            )
            assert keys.stdout.strip() == b""
    assert not (operator.project / "b.py").exists()


@pytest.mark.slow
def test_projects_of_one_key_in_several_stores_do_not_meet(
    operator: Operator, tmp_path: Path
) -> None:
    """Each has its own goal, and SQLite its own queue, though one event log tells of all."""
    argv = [program("redis-server"), "--save", "", "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        redis = ("--redis-host", "127.0.0.1", "--redis-port", str(port), "--state-db")
        stores = {"file": (), "zero": (*redis, "0"), "one": (*redis, "1")}
        for name, operator.where in stores.items():
            operator.does("init-state")
            operator.does("set-goal", "--description", name, "--project-id", name, "--completed")
        operator.where = stores["zero"]
        operator.enqueue(task("a"))
        for name, operator.where in stores.items():
            assert operator.state["goal"]["description"] == name
        for operator.where in (stores["zero"], stores["file"]):
            assert ("waiting" in operator.does("tasks")) == (operator.where == stores["zero"])


@pytest.mark.slow
def test_a_project_that_another_program_wrote_is_worked_off(
    operator: Operator, tmp_path: Path
) -> None:
    """The smallest state and queue of the usual form, in other databases than the usual ones.

    CTL-18, CTL-19, CTL-22, CTL-25.
    """
    state = {
        "supervisor": {"status": "RUNNING", "iteration": 0},
        "goal": {"description": "Build it", "project_id": "demo", "completed": True},
        "queue": {"exhausted": False},
        "execution_mode": "AUTO",
        "last_updated": "2025-01-01T00:00:00.000Z",
    }
    argv = [program("redis-server"), "--save", "", "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        redis = [program("redis-cli"), "-p", str(port), "-n"]

        def plain(*words: str) -> str:
            done = subprocess.run([*redis, *words], capture_output=True, text=True, check=True)
            return done.stdout.strip()

        plain("4", "SET", "their:state", json.dumps(state))
        for name in ("first", "then"):
            plain("5", "LPUSH", "queue:theirs", json.dumps(task(name)))
        url = f"redis://127.0.0.1:{port}/4"
        where = ("--state-key", "their:state", "--queue-db", "5", "--queue-name", "theirs")
        done = operator.terminal.call("control", "start", "--store", url, *where)
        assert done.returncode == 0, done.stderr
        left = json.loads(plain("4", "GET", "their:state"))
        assert plain("5", "LLEN", "queue:theirs") == "0"
    assert [one["task_id"] for one in left["completed_tasks"]] == ["first", "then"]
    assert (left["supervisor"]["status"], left["supervisor"]["iteration"]) == ("COMPLETED", 2)
    assert left["queue"] == {"exhausted": True}


@pytest.mark.slow
def test_an_entry_that_is_no_task_hinders_no_order(operator: Operator, tmp_path: Path) -> None:
    """One line tells what it is and how to remove it; the good ones are shown and enqueued."""
    argv = [program("redis-server"), "--save", "", "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        operator.where = ("--redis-host", "127.0.0.1", "--redis-port", str(port))
        operator.does("init-state")
        plain = [program("redis-cli"), "-p", str(port), "-n", "2"]
        subprocess.run([*plain, "lpush", "queue:tasks", "garbage"], check=True)
        told = 'got garbage, wanted a task as JSON; `LREM queue:tasks 1 "garbage"` in database 2'
        operator.enqueue(task("a"))
        assert "waiting  a" in operator.does("tasks")
        for order in ("status", "tasks"):
            assert operator.does(order).count(told) == 1
        assert operator.does("status", "--json").startswith("{")
        subprocess.run([*plain, "lrem", "queue:tasks", "1", "garbage"], check=True)
        assert told not in operator.does("status")


def test_a_store_that_there_is_not_is_refused(operator: Operator) -> None:
    """Each command is refused in one line."""
    for store in ("mysql://x", "redis://x:port", "sqlite://h/x", "sqlite:", "sqlite:.", "sqlite:/"):
        operator.where = ("--store", store)
        assert "wanted sqlite:FILE or redis://HOST:PORT" in operator.refused("status", status=2)
        assert "wanted sqlite:FILE or redis://HOST:PORT" in operator.refused("start", status=2)


def test_an_option_that_would_count_for_nothing_is_refused(operator: Operator) -> None:
    """A user who names a database of Redis wants the project there."""
    for option in ("--redis-port", "--state-db", "--queue-db", "--queue-name"):
        assert f"{option}: got it without Redis" in operator.refused(
            "status", option, "3", status=2
        )
    both = ("--redis-host", "localhost", "--store", "sqlite:x")
    assert "wanted one of them" in operator.refused("status", *both, status=2)
    assert "wanted a number" not in operator.refused("status", "--redis-port", "70000", status=2)


def test_what_no_host_has_written_yet_is_no_alteration(operator: Operator) -> None:
    """G-14: orders before a loop, after its end and under another name are audited later."""
    operator.does("init-state")
    operator.does("halt", "--reason", "too early")
    assert "the next `start` writes 1 more" in operator.does("audit", "--verify")
    operator.does("set-goal", "--description", "Build it", "--project-id", "demo", "--completed")
    operator.enqueue(task("a"))
    operator.does("resume")
    done = operator.terminal.call("control", "start")
    assert (done.returncode, "altered" in done.stderr) == (0, False), done.stderr
    operator.does("halt", "--reason", "too late")
    assert "the next `start` writes 1 more" in operator.does("audit", "--verify")
    operator.does("set-goal", "--project-id", "other")
    assert operator.terminal.call("control", "start", "--quiet").returncode == 3
    assert "lines, as they were written" in operator.does("audit", "--verify")


def test_a_state_that_lacks_a_field_halts(operator: Operator) -> None:
    """CTL-10: `start` halts at such a state of another program, with the status for no restart."""
    operator.begins(task("a"))

    async def spoil() -> None:
        log = operator.terminal.state.with_name("events.sqlite3")
        store = SqliteControl(log, project_stream(operator.project.parent, "supervisor:state"), "x")
        async with store:
            gone = {"saw": None, "unset": {"goal": ["completed"]}}
            event = ProjectChanged(change=gone)
            await store.log.append(Append(store.stream, [event]))

    asyncio.run(spoil())
    said = operator.refused("start", status=3)
    assert "HALTED: MISSING_STATE_FIELD: got a state without goal.completed" in said
    assert said.endswith("or forget the state: `otpy-agents control init-state --force`\n")
    for words in (("status",), ("resume",), ("set-goal", "--completed")):
        assert operator.refused(*words, status=1).endswith(said.removeprefix("HALTED: "))
    assert not operator.project.exists()
    operator.does("init-state", "--force")
    operator.does("set-goal", "--description", "g", "--project-id", "demo", "--completed")
    operator.does("resume")
    assert operator.terminal.call("control", "start").returncode == 0


def test_a_project_may_be_in_a_file_of_its_own(operator: Operator) -> None:
    """It is then separate from the user's log."""
    operator.where = ("--store", "sqlite:project.sqlite3")
    operator.begins(task("a"))
    assert operator.terminal.call("control", "start", *operator.where).returncode == 0
    assert (operator.terminal.folder / "project.sqlite3").exists()
    operator.where = ()
    assert "control init-state" in operator.refused("status", status=1)
