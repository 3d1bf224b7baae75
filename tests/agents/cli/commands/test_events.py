"""`otpy-agents events`: the log read, followed, checked, exported and archived from a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from otpy_agents.cli import main
from otpy_agents.log import verified
from tests.agents.cli.commands.second_terminal import SecondTerminal, bot
from tests.agents.cli.commands.terminal import Terminal
from tests.agents.host import ENVIRONMENT, PATIENCE, shell
from tests.agents.log.log_world import Noted, completed, log_at, sql, started, to

pytestmark = pytest.mark.real_time


def tell(path: Path, stream: str, *events: object, at: float = 1000.0) -> None:
    """Append events, as another program does."""

    async def work() -> None:
        async with log_at(path, clock=lambda: at) as log:
            await log.append(to(stream, *events))

    asyncio.run(work())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The log of a user, with five events."""
    path = tmp_path / "events.sqlite3"
    tell(path, "run/a", started("1"), completed("1"))
    tell(path, "list/b", started("2"), Noted(text="two\nlines \x1b[2J", number=2.5))
    tell(path, "run/a", Noted(text="late"), at=2_000_000_000.0)
    return path


@pytest.fixture
def typed(tmp_path: Path) -> Callable[..., Result]:
    """Type a command."""

    def typing(*words: str) -> Result:
        environment = {"OTPY_STATE": str(tmp_path / "runs.sqlite3"), "TZ": "UTC"}
        return CliRunner().invoke(main, ["events", *words], env=environment)

    return typing


def test_all_events_are_shown_oldest_first(path: Path, typed: Callable[..., Result]) -> None:
    """Each line has the event's values, and nothing that moves the cursor."""
    shown = typed()
    assert shown.exit_code == 0, shown.output
    first, *_, noted, last = shown.stdout.splitlines()
    assert first.endswith("run/a step_started task=work step_id=1")
    assert noted.endswith("""list/b noted number=2.50 text="two lines \\x1b[2J\"""")
    assert last.endswith(" run/a noted number=0.00 text=late")
    assert path.exists()


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (("--stream", "run/a"), [1, 2, 5]),
        (("--stream", "*/b"), [3, 4]),
        (("--kind", "step_*"), [1, 2, 3]),
        (("--kind", "noted", "--stream", "run/a"), [5]),
        (("--since", "3"), [4, 5]),
        (("--since", "2001-01-01"), [5]),
        (("--since", "2001-01-01 08:30+00:00"), [5]),
        (("--since", "1h"), [5]),
        (("--stream", "nobody"), []),
    ],
)
@pytest.mark.usefixtures("path")
def test_a_part_of_them_is_shown(
    typed: Callable[..., Result], words: tuple[str, ...], positions: list[int]
) -> None:
    """They are chosen by stream, by type, by moment or by position."""
    shown = typed("--json", *words)
    assert [json.loads(line)["position"] for line in shown.stdout.splitlines()] == positions


@pytest.mark.usefixtures("path")
def test_json_has_the_columns_of_the_table(typed: Callable[..., Result]) -> None:
    """A reader of one then knows the other."""
    one = json.loads(typed("--json", "--since", "1").stdout.splitlines()[0])
    assert (one["event_type"], one["status"]) == ("step_completed", "success")
    assert one["payload"] == {"files": [], "role": None, "workflow_id": None}
    exported = json.loads(typed("export").stdout.splitlines()[1])
    assert exported.keys() - one.keys() == {"previous"}
    assert {key: exported[key] for key in one} == one


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "yesterday"), "--since: got 'yesterday', wanted an age such as 30m"),
        (("archive",), "Missing option '--older-than'"),
        (("archive", "--older-than", "x"), "--older-than: got 'x', wanted an age"),
    ],
)
@pytest.mark.usefixtures("path")
def test_a_wrong_call_is_refused_with_one_line(
    typed: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    """The status is 2."""
    refused = typed(*words)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def _newer(path: Path) -> None:
    sql(path, "PRAGMA user_version = 99")


def _torn(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def _foreign(path: Path) -> None:
    sql(path, "PRAGMA application_id = 7")


def _text(path: Path) -> None:
    path.write_text("no database, but text that somebody has put there\n" * 100)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_newer, "99"),
        (_torn, "got"),
        (_foreign, "another program"),
        (_text, "not a database"),
        (Path.unlink, "got no event log, wanted one"),
    ],
)
@pytest.mark.parametrize("words", [(), ("-f",), ("verify",), ("export",)])
def test_a_log_that_cannot_be_read_is_one_line(
    path: Path,
    typed: Callable[..., Result],
    spoil: Callable[[Path], object],
    said: str,
    words: tuple[str, ...],
) -> None:
    """The line names the file, and no new file is made in its place."""
    spoil(path)
    before = path.read_bytes() if path.exists() else None
    refused = typed(*words)
    assert refused.exit_code == 1, refused.output
    assert refused.stderr.count("\n") == 1
    assert str(path) in refused.stderr
    assert said in refused.stderr
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_log_that_another_program_locks_is_one_line(
    path: Path, typed: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes after a while."""
    monkeypatch.setattr("otpy_agents.store.file.BUSY", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN IMMEDIATE")
        database.execute("CREATE TABLE theirs (x)")
        refused = typed()
    assert refused.exit_code == 1
    assert "a lock that another process holds" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_verify_finds_what_was_changed(path: Path, typed: Callable[..., Result]) -> None:
    """A whole log is confirmed as such (G-14)."""
    whole = typed("verify")
    assert whole.stderr == ""
    assert (whole.exit_code, whole.stdout) == (0, "5 events, all as they were written\n")
    sql(path, "DROP TRIGGER events_never_change", "UPDATE events SET actor='x' WHERE position=3")
    spoilt = typed("verify")
    assert spoilt.exit_code == 1
    assert spoilt.stderr.startswith("otpy-agents: event 3: got the hash ")


@pytest.mark.usefixtures("path")
def test_an_export_can_be_checked_without_the_log(typed: Callable[..., Result]) -> None:
    """An export of the whole log can be checked, and so can that of one stream."""
    assert len(list(verified(typed("export").stdout.splitlines()))) == 5
    assert len(list(verified(typed("export", "--stream", "list/b").stdout.splitlines()))) == 2


def test_old_streams_are_moved_into_an_archive(path: Path, typed: Callable[..., Result]) -> None:
    """The number of moved events is told before and afterwards."""
    would = typed("archive", "--older-than", "1d", "--dry-run")
    assert would.stdout.startswith("would move 1 stream with 2 events; the log has ")
    moved = typed("archive", "--older-than", "1d")
    file = path.with_suffix(".archive") / "events-3-4.jsonl.gz"
    assert moved.stdout.startswith(f"moved 1 stream with 2 events to {file}; the log has ")
    assert typed("archive", "--older-than", "1d").stdout.startswith("moved nothing; ")
    assert typed("verify").stdout == "5 events, all as they were written\n"


def test_another_log_is_read_if_it_is_named(
    path: Path, tmp_path: Path, typed: Callable[..., Result]
) -> None:
    """Another log may be a repository's; its option stands before or after the command's name."""
    other = tmp_path / "engine.sqlite3"
    tell(other, "wf", started("1"))
    assert typed("--log", str(other)).stdout.count("\n") == 1
    assert typed("--log", str(path), "verify", "--log", str(other)).stdout.startswith("1 event,")


def test_what_comes_is_followed_until_ctrl_c(path: Path) -> None:
    """Events of another process follow the last ten earlier ones."""
    process = subprocess.Popen(
        [sys.executable, "-m", "otpy_agents", "events", "-f", "--json", "--kind", "noted"],
        env={**ENVIRONMENT, "OTPY_STATE": str(path.with_name("runs.sqlite3"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["position"] == 4
        assert json.loads(process.stdout.readline())["position"] == 5
        tell(path, "run/c", started("9"), Noted(text="now"))
        assert json.loads(process.stdout.readline())["payload"]["text"] == "now"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, said) == (130, "")


def test_who_reads_may_go_away(path: Path) -> None:
    """`| head` ends the command without a message."""
    tell(path, "many", *(Noted(text="x" * 1000) for _ in range(500)))
    command = [sys.executable, "-m", "otpy_agents", "events"]
    environment = {**ENVIRONMENT, "OTPY_STATE": str(path.with_name("runs.sqlite3"))}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# --- what programs tell ---------------------------------------------------------------------------


def shown(events: Path, *words: str) -> list[dict[str, Any]]:
    """Return what `events --json` shows of a log."""
    result = CliRunner().invoke(main, ["events", "--json", "--log", str(events), *words])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_run_tells_its_events(terminal: Terminal) -> None:
    """The agent's output is not in them, and no secret is (G-04)."""
    secret = {"MY_TOKEN": "hunter2hunter2"}
    words = ("run", "say hunter2hunter2", "--agent", "command", "--", "sh", "-c", "echo said")
    assert terminal.start(*words, env=secret).end() == 0
    events = terminal.state.with_name("events.sqlite3")
    told = shown(events)
    assert {one["stream"] for one in told} == {f"run/{told[0]['workflow_id']}"}
    assert [one["event_type"] for one in told if one["event_type"] != "run.phase"] == [
        *("run.began", "attempt.began", "attempt.over", "run.ended")
    ]
    assert "said" not in json.dumps(
        [one["payload"] for one in told if "order" not in one["payload"]]
    )
    assert told[0]["payload"]["order"]["prompt"] == "say [MY_TOKEN]"
    assert b"hunter2" not in b"".join(file.read_bytes() for file in events.parent.glob("events*"))


def test_a_list_and_who_commands_it_tell_their_events(second: SecondTerminal) -> None:
    """Its events and its agents' runs share one log, whole at any time (G-14, G-16)."""
    events = second.folder / "state" / "events.sqlite3"
    host = second.up(shell("build", "sleep 60"), bot(second, "agent", "done"))
    host.until("mortal.started", "build")
    second.done("reap", "build", "--why", "not needed")
    given, answered = shown(events, "--kind", "command_*")[-2:]
    assert (given["payload"]["command"], given["component"]) == ("reap", "build")
    assert f"pid {os.getpid()}" in given["actor"]
    assert answered["payload"]["given"] == given["position"]
    assert host.end() == 1
    told = shown(events)
    streams = {one["stream"].split("/")[0] for one in told}
    assert streams == {"list", "run"}
    about = [one["event_type"] for one in told if one["component"] == "build"]
    assert about.index("mortal.started") < about.index("mortal.reaped")
    assert not {"mortal.output", "operator.command"} & {one["event_type"] for one in told}
    verified = CliRunner().invoke(main, ["events", "verify", "--log", str(events)])
    assert verified.stdout == f"{len(told)} events, all as they were written\n"
    rebuilt = CliRunner().invoke(main, ["events", "rebuild", "--log", str(events)])
    assert rebuilt.stdout == "rebuilt; nothing differed\n"
    sql(events, "UPDATE commands SET actor = 'nobody' WHERE id = (SELECT min(id) FROM commands)")
    rebuilt = CliRunner().invoke(main, ["events", "rebuild", "--log", str(events)])
    assert "'actor': 'nobody'" in rebuilt.stdout
    assert rebuilt.stdout.endswith("rebuilt; 1 row differed\n")


def test_a_command_to_a_tree_that_has_ended_is_an_event_too(second: SecondTerminal) -> None:
    """Also if it is refused; without a log it is carried out, and a line says so (G-16)."""
    events = second.folder / "state" / "events.sqlite3"
    second.site.write(shell("a", "exit 1", restarts=0, output_bytes=200))
    second.site.run()
    second.done("budget", "grant", "a", "--bytes", "5", "--list", "w.toml")
    second.type("budget", "grant", "a", "--usd", "1", "--list", "w.toml")
    second.done("retry", "a")
    told = shown(events, "--kind", "command_*")
    given = [one for one in told if one["event_type"] == "command_given"]
    assert [one["payload"]["command"] for one in given] == ["grant", "grant", "retry"]
    assert {(one["stream"], one["component"]) for one in given} == {("list/w", "a")}
    assert all(f"pid {os.getpid()}" in one["actor"] for one in given)
    answers = [json.loads(one["payload"]["answer"]) for one in told if one not in given]
    assert [one["ok"] for one in answers] == [True, False, True]
    assert answers[0]["answer"].startswith("5 output_bytes more (")
    for path in events.parent.glob(f"{events.name}*"):
        path.unlink()
    events.mkdir()
    again = second.type("budget", "grant", "a", "--bytes", "5", "--list", "w.toml")
    assert (again.exit_code, again.stderr.count("\n")) == (0, 1)
    assert again.stderr.startswith("grant: not written down: ")


def test_a_run_and_a_list_work_without_a_log(second: SecondTerminal) -> None:
    """One line tells that the log is missing, and commands are carried out."""
    events = second.folder / "state" / "events.sqlite3"
    events.mkdir(parents=True)
    host = second.up(shell("build", "sleep 60"))
    second.done("reap", "build", "--why", "not needed")
    assert host.end() == 1
    lines = [one for one in host.events if one["event"] == "log.unwritable"]
    assert [str(events) in one["reason"] for one in lines] == [True]
    run = second.start("run", "--agent", "command", "--", "echo", "done")
    out, said = run.communicate(timeout=PATIENCE)
    assert (run.returncode, out) == (0, b"done\n")
    assert said.decode().count("events are not told") == 1
