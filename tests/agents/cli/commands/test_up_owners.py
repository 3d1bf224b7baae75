"""`otpy-agents up`: two lists in one repository, of one name or with one id."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.host import Site

pytestmark = pytest.mark.real_time

# Appends its name to the file, reports that it works, waits for the gate, and commits.
WORKER = """
import json, pathlib, subprocess, sys, time
who, gate = sys.argv[1], pathlib.Path(sys.argv[2])
with open("who", "a") as file:
    file.write(who)
print(json.dumps({"type": "text", "text": "at work"}), flush=True)
while not gate.exists():
    time.sleep(0.02)
person = ["-c", "user.name=n", "-c", "user.email=e@x"]
subprocess.run(["git", "add", "-A"], check=True)
subprocess.run(["git", *person, "commit", "-qm", "by " + who], check=True)
print(json.dumps({"type": "result", "text": "ok"}))
"""


class Lists:
    """A repository, and lists in folders beside it whose agent works in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.repository.mkdir()
        self.sites: list[Site] = []
        self.git("init", "-q", "-b", "main")
        self.git("commit", "-q", "--allow-empty", "-m", "first")

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words],
            cwd=self.repository, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def site(self, folder: str, name: str = "nightly") -> Site:
        """Return a new list with one agent, `fix`, that writes the name of the folder."""
        (self.folder / folder).mkdir()
        site = Site(self.folder / folder)
        site.file = site.folder / f"{name}.toml"
        (site.folder / "worker.py").write_text(WORKER, encoding="utf-8")
        argv = ["{python}", "{here}/worker.py", folder, "{here}/go"]
        keys: dict[str, object] = {"id": "fix", "agent": "command", "prompt": "Do it."}
        keys |= {"argv": argv, "changeset": "../repository", "backoff": [0]}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        site.write("\n".join(["[[assignment]]", *lines]))
        self.sites.append(site)
        return site

    def commits(self, branch: str) -> list[str]:
        return self.git("log", "--format=%s", branch).splitlines()

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/otpy").split()


@pytest.fixture
def lists(tmp_path: Path) -> Iterator[Lists]:
    """Lists around one repository; every host started for them is ended."""
    made = Lists(tmp_path)
    yield made
    for site in made.sites:
        site.close()


def refused(site: Site) -> str:
    """Run a list whose agent is refused, and return the reason: it failed without a start."""
    status, host = site.run()
    assert (status, host.summary()) == (1, {"fix": "failed"}), host.stderr
    assert host.told("child.restarting") == host.told("agent.work_discarded") == []
    assert host.output("fix") == []
    (told,) = [one["reason"] for one in host.events if one["event"] == "summary"]
    return str(told)


def test_two_lists_of_one_name_at_once_do_not_share_a_work_tree(lists: Lists) -> None:
    """The second is refused before it starts; the first goes on, with its own work only."""
    first, second = lists.site("a"), lists.site("b")
    (second.folder / "go").touch()
    host = first.up()
    host.until("mortal.output", "fix")
    why = refused(second)
    assert f"a changeset that process {host.pid} works on" in why
    (first.folder / "go").touch()
    assert host.end() == 0, host.stderr
    assert lists.branches() == ["otpy/nightly/fix"]
    assert lists.commits("otpy/nightly/fix") == ["by a", "first"]
    assert lists.git("show", "otpy/nightly/fix:who") == "a"


def test_two_lists_of_one_name_one_after_the_other_do_not_steal(lists: Lists) -> None:
    """The finished work of the first stays on its branch, and the second names the owner."""
    first, second = lists.site("a"), lists.site("b")
    for site in (first, second):
        (site.folder / "go").touch()
    assert first.run()[0] == 0
    for options in ([], ["--fresh"]):
        status, host = second.run(*options)
        assert (status, host.summary()) == (1, {"fix": "failed"}), host.stderr
    why = refused(second)
    assert f"a work tree of the work list of '{first.folder / 'nightly.sqlite'}'" in why
    assert "give one of the two lists another `name`" in why
    assert lists.commits("otpy/nightly/fix") == ["by a", "first"]
    assert lists.branches() == ["otpy/nightly/fix"]
    second.file = second.file.rename(second.folder / "weekly.toml")
    assert second.run()[0] == 0
    assert lists.commits("otpy/weekly/fix") == ["by b", "first"]


def test_one_id_in_two_lists_of_a_repository_is_two_pieces_of_work(lists: Lists) -> None:
    """Each has a branch of its own, at the same time too."""
    monday, tuesday = lists.site("a", "mon"), lists.site("b", "tue")
    (tuesday.folder / "go").touch()
    host = monday.up()
    host.until("mortal.output", "fix")
    status, other = tuesday.run()
    assert (status, other.summary()) == (0, {"fix": "done"}), other.stderr
    (monday.folder / "go").touch()
    assert host.end() == 0, host.stderr
    assert lists.branches() == ["otpy/mon/fix", "otpy/tue/fix"]
    assert lists.commits("otpy/mon/fix") == ["by a", "first"]
    assert lists.commits("otpy/tue/fix") == ["by b", "first"]


def test_after_kill_9_the_next_host_has_the_work_tree_at_once(lists: Lists) -> None:
    """The lock goes with the host; the owner stays."""
    site = lists.site("a")
    host = site.up()
    host.until("mortal.output", "fix")
    host.kill()
    (site.folder / "go").touch()
    status, again = site.run()
    assert (status, again.summary()) == (0, {"fix": "done"}), again.stderr
    assert "by a" in lists.commits("otpy/nightly/fix")


def test_an_agent_that_an_earlier_version_began_goes_on_in_its_work_tree(lists: Lists) -> None:
    """That version stored no owner, and its branch did not name the list."""
    site = lists.site("a")
    host = site.up()
    host.until("mortal.output", "fix")
    host.kill()
    shutil.rmtree(lists.repository / ".git/otpy-owners")
    lists.git("branch", "-m", "otpy/nightly/fix", "otpy/fix")
    (site.folder / "go").touch()
    status, again = site.run()
    assert (status, again.summary()) == (0, {"fix": "done"}), again.stderr
    assert again.told("agent.work_discarded") == []
    assert lists.branches() == ["otpy/nightly/fix"]
    assert lists.git("show", "otpy/nightly/fix:who") == "aa"


def test_a_branch_in_the_way_fails_the_agent_and_reaps_nobody(lists: Lists) -> None:
    """It fails before its start, with the command to type; after that, the next run works."""
    site = lists.site("a")
    (site.folder / "go").touch()
    lists.git("branch", "otpy/nightly")
    assert "`git branch -m otpy/nightly NAME`" in refused(site)
    lists.git("branch", "-m", "otpy/nightly", "mine")
    assert site.run()[0] == 0


def test_what_comes_in_the_way_after_the_start_fails_an_agent_too(lists: Lists) -> None:
    """The agent has broken its work tree before its restart, which no restart repairs."""
    site = lists.site("a")
    result = json.dumps({"type": "result", "text": "ok"})
    spoil = f"rm ../../.git/worktrees/nightly-fix/HEAD; echo '{result}'"
    keys: dict[str, object] = {"id": "fix", "agent": "command", "prompt": "Do it."}
    keys |= {"argv": ["sh", "-c", spoil], "changeset": "../repository"}
    keys |= {"backoff": [0], "verify": ["false"]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    site.write("\n".join(["[[assignment]]", *lines]))
    status, host = site.run()
    assert (status, host.summary()) == (1, {"fix": "failed"}), host.stderr
    (why,) = [one["reason"] for one in host.events if one["event"] == "summary"]
    assert "wanted a git repository with a commit" in why
    assert host.told("mortal.restarting") == ["fix"]
