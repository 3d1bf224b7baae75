"""`otpy-agents up` with agents: real processes that speak JSON lines, and hosts that are killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents.host import Host, Site, shell

pytestmark = pytest.mark.real_time

BOT = r"""
import json, os, pathlib, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

work = pathlib.Path(os.environ["OTPY_WORK"])
lives = work / "lives"
number = len(lives.read_text().split()) + 1 if lives.exists() else 1
with lives.open("a") as file:
    file.write("x ")
say(type="session", id=os.environ.get("OTPY_SESSION", "s-1"))
say(type="text", text=f"attempt {number}, session {os.environ.get('OTPY_SESSION', 'none')}")
say(type="usage", input=10, output=5)
plan = sys.argv[1].split(",")
match plan[min(number, len(plan)) - 1]:
    case "fail":
        say(type="error", message="model not found", status=404)
        sys.exit(1)
    case "limit":
        say(type="error", message="You have hit your limit. Try again in 4 seconds.", status=429)
        sys.exit(1)
    case "limit":
        say(type="error", message="You have hit your limit. Try again in 3 seconds.", status=429)
        sys.exit(1)
    case "crash":
        os.kill(os.getpid(), 9)
    case "hang":
        time.sleep(60)
say(type="result", text="all good")
"""


def bot(site: Site, id: str, plan: str, **keys: object) -> str:
    """Return an assignment for a scripted agent that is a real process."""
    (site.folder / "bot.py").write_text(BOT, encoding="utf-8")
    lines = [
        "[[assignment]]",
        f'id = "{id}"',
        'agent = "command"',
        'prompt = "Do it."',
        f'argv = ["{{python}}", "{{here}}/bot.py", "{plan}"]',
        *(f"{key} = {json.dumps(value)}" for key, value in keys.items()),
    ]
    return "\n".join(lines) + "\n"


def up(site: Site, *options: str) -> Host:
    return site.up(*options, env={"OTPY_STATE": str(state(site))})


def state(site: Site) -> Path:
    return site.folder / "state" / "runs.sqlite3"


def runs(site: Site) -> list[tuple[str, str]]:
    """Return the id and status of the runs of all hosts."""
    with closing(sqlite3.connect(state(site))) as database:
        return database.execute("SELECT id, status FROM run ORDER BY created").fetchall()


def test_agents_and_programs_work_side_by_side(site: Site) -> None:
    """One list has both; an agent's words are shown like output."""
    site.write(bot(site, "a", "ok"), shell("b", "echo hello"))
    host = up(site)
    assert host.end() == 0, host.stderr
    assert host.summary() == {"a": "done", "b": "done"}
    assert host.output("a") == ["attempt 1, session none"]
    assert [status for _, status in runs(site)] == ["done"]
    states = [one["state"] for one in host.events if one["event"] == "agent.state"]
    assert states.count("done") == 2


def test_a_terminal_failure_is_reaped_and_told(site: Site) -> None:
    """The exit status is 1, and the summary has the reason."""
    site.write(bot(site, "a", "fail"))
    host = up(site)
    assert host.end() == 1
    assert host.summary() == {"a": "reaped"}
    (one,) = [one for one in host.events if one["event"] == "summary"]
    assert one["reason"] == "terminal failure: model_unavailable: model not found"
    assert host.told("operator.notified") == ["a"]


def test_after_kill_9_the_next_host_goes_on_with_the_same_run(site: Site) -> None:
    """The stored run is resumed: no second run begins, and no process of the first lives on."""
    site.write(bot(site, "a", "hang,ok", grace=0.5))
    host = up(site)
    host.until("mortal.output", "a")
    host.kill()
    again = up(site)
    assert again.end() == 0, again.stderr
    assert again.summary() == {"a": "done"}
    assert again.told("agent.taken_up") == ["a"]
    assert [status for _, status in runs(site)] == ["done"]


@pytest.mark.parametrize("event", ["mortal.started", "mortal.queued"])
def test_after_kill_9_who_waits_for_its_account_goes_on_in_turn(site: Site, event: str) -> None:
    """An agent killed while it waits for its account, or for a place, loses no attempt."""
    program = shell("b", 'echo b >> "$DID"; test -f "$DID.go" || sleep 60', grace=0.5)
    site.write(bot(site, "a", "limit,ok"), program, parallel=1)
    host = up(site)
    host.until("mortal.started", "b")
    if event == "mortal.queued":
        host.until("mortal.queued", "a")
    while site.did_what() != ["b"]:  # a started worker may not have written yet
        time.sleep(0.01)
    host.kill()
    site.did.with_suffix(".go").touch()
    again = up(site)
    assert again.end() == 0, again.stderr
    assert again.summary() == {"a": "done", "b": "done"}
    assert again.output("a") == ["attempt 2, session s-1"]
    assert site.did_what() == ["b", "b"]
    assert [status for _, status in runs(site)] == ["done"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_an_answer_that_was_heard_is_taken_in_by_the_next_host(
    site: Site, end: signal.Signals
) -> None:
    """The host may end in any way during the verification; finished work is not paid for again."""
    look = ["sh", "-c", "[ -e {here}/go ] || { echo >{here}/looks; exec sleep 60; }"]
    site.write(bot(site, "a", "ok,fail", grace=0.5, verify=look))
    host = up(site)
    host.until("agent.state", "a", state="verifying")
    while not (site.folder / "looks").exists():
        time.sleep(0.02)
    host.signal(end)
    host.end()
    (site.folder / "go").touch()
    again = up(site)
    assert again.end() == 0, again.stderr
    assert again.summary() == {"a": "done"}
    assert again.told("agent.taken_up") == ["a"]
    assert [status for _, status in runs(site)] == ["done"]


def test_a_fresh_start_gives_the_old_run_up(site: Site) -> None:
    """The run of a killed host is ended, and a new one begins."""
    site.write(bot(site, "a", "hang,hang,ok", grace=0.5))
    host = up(site)
    host.until("mortal.output", "a")
    host.kill()
    (site.folder / "bot.py").write_text(BOT.replace("sys.argv[1]", "'ok'"), encoding="utf-8")
    again = up(site, "--fresh")
    assert again.end() == 0, again.stderr
    assert again.told("agent.taken_up") == []
    assert sorted(status for _, status in runs(site)) == ["done", "failed"]


def test_a_stopped_host_stops_its_agents_and_the_next_resumes_the_session(site: Site) -> None:
    """The second life goes on in the first one's session, as its second attempt."""
    site.write(bot(site, "a", "hang,ok", grace=0.5))
    host = up(site)
    host.until("mortal.output", "a")
    host.signal(signal.SIGTERM)
    assert host.end() == 143
    again = up(site)
    assert again.end() == 0, again.stderr
    assert again.output("a") == ["attempt 2, session s-1"]
    assert len(runs(site)) == 2


def test_a_bad_rule_file_is_one_line(site: Site) -> None:
    """The error is found before any agent starts."""
    site.write(bot(site, "a", "ok"), rule_file="rules.yaml")
    (site.folder / "rules.yaml").write_text("rules: 3\n", encoding="utf-8")
    host = up(site)
    assert host.end() == 2
    assert "rules.yaml:1:" in host.stderr
    assert host.told("mortal.started") == []


def git(folder: Path, *words: str) -> str:
    """Return git's output in a repository."""
    return subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("options", [("--fresh",), ()])
def test_who_begins_anew_does_not_see_the_old_work(site: Site, options: tuple[str, ...]) -> None:
    """After `--fresh`, or with another definition, the old work is on a branch, which is named."""
    repository = site.folder / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    code = "import json, os; print(json.dumps({'type': 'text', 'text': str(os.listdir())}))"
    code += "; open('made', 'w'); print(json.dumps({'type': 'result', 'text': 'ok'}))"
    made = ["{python}", "-c", code]
    keys = {"argv": made, "changeset": "repository"}
    site.write(command_agent("a", **keys))
    assert up(site).end() == 0
    if not options:
        site.write(command_agent("a", **keys, stall=60))
    again = up(site, *options)
    assert again.end() == 0, again.stderr
    assert again.output("a") == ["['.git']"]
    (told,) = [one for one in again.events if one["event"] == "agent.work_discarded"]
    assert git(repository, "show", "--name-only", "--format=%s", told["branch"]).split("\n") == [
        "started from scratch", "", "made", "",
    ]  # fmt: skip
    third = up(site)
    assert third.end() == 0
    assert third.told("agent.work_discarded") == []


def command_agent(id: str, **keys: object) -> str:
    """Return an assignment for an agent of the CLI `command`."""
    lines = [f'[[assignment]]\nid = "{id}"\nagent = "command"\nprompt = "Do it."']
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in keys.items())])
