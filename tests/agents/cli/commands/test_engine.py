"""`otpy-agents engine`, as a person types it: real repositories, real workers, real gates."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.cli.engine_start import EnginePlace, EngineStart
from otpy_agents.engine.events import FailureCause
from otpy_agents.engine.server import Engine
from otpy_agents.engine.workflow.protocol import EndWorkflow
from tests.agents.cli.commands.terminal import Terminal

pytestmark = pytest.mark.real_time

WORKER = """
import json, os, pathlib, sys
role = sys.argv[1]
if role == "planner":
    one = {"id": "one", "title": "Write one.txt", "files": ["one.txt"]}
    two = {"id": "two", "title": "Write two.txt", "files": ["two.txt"], "depends_on": ["one"]}
    phase = {"title": "All", "components": [one, two]}
    print(json.dumps({"features": [{"title": "Texts", "phases": [phase]}]}))
else:
    prompt = pathlib.Path(os.environ["OTPY_PROMPT_FILE"]).read_text()
    name = "two.txt" if "Write two.txt" in prompt else "one.txt"
    pathlib.Path(name).write_text(role)
    said = {"status": "success", "files_modified": [name], "changes": [f"wrote {name}"]}
    print(json.dumps(said))
"""
GATES = """
gates:
  good: {{command: [{python}, -c, "raise SystemExit(0)"]}}
  bad: {{command: [{python}, -c, "raise SystemExit('it is bad')"]}}
"""
ROLE = """
extends: {base}
cli: command
argv: [{python}, {worker}, {base}]
"""


class Repository:
    """A repository with scripted workers, and a user who types commands in it."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal, self.folder = terminal, terminal.folder
        worker = self.folder.parent / "worker.py"
        worker.write_text(WORKER)
        roles = self.folder / ".supervisor" / "roles"
        roles.mkdir(parents=True)
        for base in ("planner", "implementer"):
            text = ROLE.format(base=base, python=sys.executable, worker=worker)
            (roles / f"{base}.yaml").write_text(text)
        bad = "extends: implementer\ngates: [{name: bad, on_fail: block}]\n"
        (roles / "judged.yaml").write_text(bad)
        text = GATES.format(python=sys.executable)
        (self.folder / ".supervisor" / "gates.yaml").write_text(text)
        for name in ("test", "lint"):  # the shipped gates need programs that may be missing here
            with (self.folder / ".supervisor" / "gates.yaml").open("a") as file:
                file.write(f"  {name}: {{command: [{sys.executable}, -c, 'pass']}}\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Begin")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write_bad_gate(self, program: str) -> None:
        """Make the failing gate run this program instead, and commit that."""
        gates = self.folder / ".supervisor" / "gates.yaml"
        gates.write_text(gates.read_text().replace("raise SystemExit('it is bad')", program))
        self.git("commit", "-q", "-a", "-m", "Write another gate")

    def types(self, *words: str, status: int = 0) -> str:
        """Type a command; return its output."""
        done = self.terminal.call_here("engine", *words)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def does(self, *words: str, status: int = 0) -> str:
        """Type a command that starts workers; return its output."""
        return self.types(*words, "--sandbox", "process", status=status)


@pytest.fixture
def repository(terminal: Terminal) -> Repository:
    return Repository(terminal)


REFUSED = [
    (("run", "implementer", "Do it"), "--sandbox: got nothing, wanted docker:IMAGE"),
    (("run", "implementer", "Do it", "--sandbox", "chroot"), "--sandbox: got 'chroot', wanted"),
    (("run", "pilot", "Fly", "--sandbox", "process"), "'pilot'"),
    (("run", "implementer"), "Missing argument 'TASK'"),
    (("run", "implementer", " ", "--sandbox", "process"), "run: got an empty task"),
    (("plan", "", "--sandbox", "process"), "run: got an empty task"),
    (("context", "implementer", ""), "TASK: got an empty task"),
    (
        ("run", "implementer", "x", "--sandbox", "process", "-t", "/etc/passwd"),
        "-t: got '/etc/passwd', wanted a file in",
    ),
    (("status", "wf-a", "--workflow-id", "wf-b"), "Got two workflows, wanted one."),
    (("status", "--at", "5", "--follow"), "Got --at with --follow, wanted one of the two."),
    (("run", "implementer", "x", "--sandbox", "process", "--allow-host", "a"), "--allow-host: got"),
    (("workflow", "feat-x", "--sandbox", "process"), "workflow: got 'feat-x'"),
    (("workflow", "feat-x", "--parallel", "0"), "--parallel"),
    (("approve", "feat-x"), "approve: got feat-x, which does not wait"),
    (("deny", "wf-x", "step-001"), "deny: got wf-x/step-001, which does not wait"),
    (("status", "wf-x"), "wf-x: got no workflow of that name here"),
    (("status", "--at", "yesterday"), "--at: got 'yesterday', wanted"),
    (("rollback", "wf-x"), "rollback: got 'wf-x', wanted a checkpoint"),
    (("metrics", "--days", "0"), "--days"),
    (("metrics", "--days", "99999999999"), "--days"),
    (("fly",), "No such command 'fly'"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(one[0]) for one in REFUSED])
def test_what_cannot_be_is_refused_in_one_line_with_the_status_1(
    repository: Repository, words: tuple[str, ...], said: str
) -> None:
    """No workflow begins; status 2 means a failed gate."""
    refused = repository.types(*words, status=1)
    assert refused.count("\n") == 1, refused
    assert said in refused
    assert repository.types("status").startswith("no workflow was begun")


def test_a_folder_without_a_repository_or_a_commit_is_refused(terminal: Terminal) -> None:
    """A step begins at a commit."""
    words = ("run", "implementer", "Do it", "--sandbox", "process")
    for is_repository in (False, True):
        if is_repository:
            subprocess.run(["git", "init", "-q"], cwd=terminal.folder, check=True)
        done = terminal.call_here("engine", *words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr


def test_a_broken_file_is_named_with_its_line(repository: Repository) -> None:
    """It is refused before the workflow begins."""
    file = repository.folder / ".supervisor" / "limits.yaml"
    file.write_text("workflow: 10\ncomponent: never\n")
    refused = repository.does("run", "implementer", "Write", status=1)
    assert ".supervisor/limits.yaml:2" in refused


def test_init_writes_examples_that_can_be_read_and_changes_nothing_twice(
    repository: Repository,
) -> None:
    """ENG-43: a file written by hand stays."""
    (repository.folder / ".supervisor" / "gates.yaml").unlink()
    first = repository.types("init")
    assert "gates.yaml: written" in first
    assert "is there, and stays" in repository.types("init")
    assert "circuits.json" in (repository.folder / ".supervisor/.gitignore").read_text()
    for words in (("roles", "show", "example"), ("gates", "list"), ("metrics",)):
        repository.types(*words)


def test_a_run_is_one_commit_on_the_branch(repository: Repository) -> None:
    """ENG-42: the worker's own account of it is printed."""
    said = repository.does("run", "implementer", "Write one.txt", "-t", "one.txt")
    assert "- wrote one.txt" in said
    assert (repository.folder / "one.txt").read_text() == "implementer"
    assert repository.git("log", "--format=%s", "-1") == "Write one.txt\n"
    assert "completed" in repository.types("status")


def test_a_worker_that_prints_its_environment_tells_no_secret(repository: Repository) -> None:
    """G-04, ENG-48: neither the screen nor the log contains its value."""
    worker = repository.folder.parent / "worker.py"
    leaks = """
import json, os, pathlib
pathlib.Path("one.txt").write_text("made")
said = json.dumps(dict(os.environ))
print(json.dumps({"status": "completed", "files_modified": ["one.txt"], "changes": [said]}))
"""
    worker.write_text(leaks)
    environment = {"DEPLOY_TOKEN": "sesame-open-up", "SAFE": "42-and-more"}
    words = ("engine", "run", "implementer", "Print your environment", "--sandbox", "process")
    done = repository.terminal.call_here(*words, env=environment)
    assert done.returncode == 0, done.stderr
    assert "[DEPLOY_TOKEN]" in done.stdout
    said = done.stdout + done.stderr + repository.types("status", "--json")
    assert "sesame" not in said
    for file in repository.terminal.state.parent.glob("events.sqlite3*"):
        assert b"sesame" not in file.read_bytes()


def test_a_file_in_the_place_of_the_work_trees_is_one_line(repository: Repository) -> None:
    """It is named, and no traceback is shown."""
    (repository.folder / ".worktrees").write_text("x")
    said = repository.does("run", "implementer", "Write one.txt", status=1)
    assert said.splitlines()[-1].startswith(
        f"otpy-agents: {repository.folder}/.worktrees: got 'File exists', wanted a file"
    )
    assert "Traceback" not in said


def test_a_workflow_that_ends_without_a_count_is_one_line(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log may be what could not be written, and then nothing was counted."""
    monkeypatch.setenv("OTPY_STATE", str(repository.terminal.state))
    place = EnginePlace(repository.folder, repository.folder)
    start = EngineStart(
        place, "ann", sandbox="process", hosts=(), secrets=(), seed=None, quiet=True
    )

    async def work(_: Engine, __: str) -> EndWorkflow:
        return EndWorkflow(FailureCause.ERROR, "/log: got no room, wanted some")

    with pytest.raises(SystemExit, match="1"):
        start.run(work)
    assert capsys.readouterr().err == "otpy-agents: /log: got no room, wanted some\n"


def test_a_gate_that_fails_applies_nothing_and_has_a_status_of_its_own(
    repository: Repository,
) -> None:
    """ENG-27: the branch and the files are as before."""
    said = repository.does("run", "judged", "Write one.txt", status=2)
    assert "it is bad" in said
    assert not (repository.folder / "one.txt").exists()
    assert repository.git("log", "--format=%s") == "Begin\n"


def test_a_plan_waits_for_a_person_and_is_worked_off_then(repository: Repository) -> None:
    """C-23: each component is one commit; a completed one is not done again."""
    file = repository.folder.parent / "plan.yaml"
    planned = repository.does("plan", "Write texts", "--output", str(file))
    feature = next(word for word in planned.split() if word.startswith("feat-")).strip(":")
    refused = repository.does("workflow", feature, status=1)
    assert f"`otpy-agents engine approve {feature}`" in refused
    repository.types("approve", feature, "--why", "go on")
    repository.does("workflow", feature)
    subjects = repository.git("log", "--format=%s").splitlines()
    assert subjects == ["Write two.txt", "Write one.txt", "Begin"]
    assert "which is completed" in repository.does("workflow", feature, status=1)


def test_a_plan_that_was_denied_is_not_worked_off(repository: Repository) -> None:
    """The refusal says that it was denied."""
    planned = repository.does("plan", "Write texts")
    feature = next(word for word in planned.split() if word.startswith("feat-")).strip(":")
    repository.types("deny", feature, "--why", "no")
    assert "which was denied" in repository.does("workflow", feature, status=1)


def test_what_was_rolled_back_is_worked_off_again(repository: Repository) -> None:
    """A component counts as completed while HEAD contains its commit."""
    planned = repository.does("plan", "Write texts")
    feature = next(word for word in planned.split() if word.startswith("feat-")).strip(":")
    assert f"`otpy-agents engine workflow {feature}`" in repository.types("approve", feature)
    repository.does("workflow", feature)
    names = [line.split()[0] for line in repository.types("rollback").splitlines()]
    repository.types("rollback", next(name for name in names[1:] if "/" not in name))
    assert not (repository.folder / "one.txt").exists()
    repository.does("workflow", feature)
    assert (repository.folder / "one.txt").exists()
    assert "which is completed" in repository.does("workflow", feature, status=1)


def test_a_plan_that_a_person_has_changed_takes_the_place_of_the_one_before(
    repository: Repository,
) -> None:
    """C-23: starting it approves it; while denied, it is refused."""
    file = repository.folder.parent / "plan.yaml"
    planned = repository.does("plan", "Write texts", "--output", str(file))
    feature = next(word for word in planned.split() if word.startswith("feat-")).strip(":")
    repository.types("deny", feature)
    assert "which was denied" in repository.does("workflow", str(file), status=1)
    repository.types("approve", feature)
    file.write_text(file.read_text().replace("Write two.txt", "Write two.txt at last"))
    repository.does("workflow", str(file))
    assert "Write two.txt at last" in repository.git("log", "--format=%s")
    assert "waits for a person" not in repository.types("status")


def test_a_failed_gate_is_told_in_one_line_behind_the_end_of_its_output(
    repository: Repository,
) -> None:
    """The last lines of its output say most; `status` names the gate, too."""
    repository.write_bad_gate("import sys; [print(n) for n in range(400)]; sys.exit(1)")
    said = repository.does("run", "judged", "Write one.txt", status=2).splitlines()
    assert len(said) < 45, said
    assert said[-1].startswith("otpy-agents: The gate bad failed with exit code 1:"), said[-1]
    assert said[-1].endswith("0 of 1 steps completed")
    assert "399" in said[-2]
    name = next(word for word in said[0].split() if word.startswith("wf-")).strip(":")
    assert "bad   failed" in repository.types("status", name)


def test_all_that_a_loud_gate_wrote_stands_in_a_file_without_secrets(
    repository: Repository,
) -> None:
    """ENG-32: the log keeps the end, and its event names the file."""
    said = "print('sesame-open-up'); [print(n) for n in range(4000)]"
    repository.write_bad_gate(f"import sys; {said}; sys.exit(1)")
    words = ("engine", "run", "judged", "Write one.txt", "--sandbox", "process")
    done = repository.terminal.call_here(*words, env={"DEPLOY_TOKEN": "sesame-open-up"})
    assert done.returncode == 2, done.stderr
    named = re.findall(r"gate bad failed .*: 3999; all of it in (\S+)", done.stderr)
    assert named, done.stderr
    texts = [Path(name).read_text() for name in named]
    wanted = "".join(f"{number}\n" for number in range(4000))
    assert set(texts) == {f"[DEPLOY_TOKEN]\n{wanted}"}
    assert len(set(named)) == len(named), "each attempt has a file of its own"


def test_roles_take_the_repository_where_it_is_typed(repository: Repository) -> None:
    """`--repo` stands after the whole command, `roles list` for example."""
    folder = str(repository.folder)
    for words in (("roles", "list"), ("roles", "show", "judged")):
        assert "judged" in repository.types(*words, "--repo", folder)


def test_a_plan_of_a_person_is_approved_by_starting_it(repository: Repository) -> None:
    """JSON is YAML, too."""
    file = repository.folder.parent / "plan.yaml"
    component = {"id": "one", "title": "Write one.txt", "files": ["one.txt"]}
    phase = {"id": "p", "title": "All", "components": [component]}
    file.write_text(json.dumps({"features": [{"id": "feat-t", "title": "T", "phases": [phase]}]}))
    repository.does("workflow", str(file))
    assert (repository.folder / "one.txt").exists()


def test_rollback_reverts_what_was_applied_since_by_one_commit(repository: Repository) -> None:
    """C-45: no history is rewritten, and no commit is reverted twice."""
    repository.does("run", "implementer", "Write one.txt")
    repository.does("run", "implementer", "Write two.txt")
    names = [line.split()[0] for line in repository.types("rollback").splitlines()]
    assert len(names) == 4
    repository.types("rollback", names[0])
    assert not (repository.folder / "one.txt").exists()
    assert len(repository.git("log", "--format=%s").splitlines()) == 4
    assert "nothing was applied since" in repository.types("rollback", names[0])


def test_status_shows_how_it_stood_and_metrics_what_it_took(repository: Repository) -> None:
    """ENG-10, ENG-45: the status is that at a position of the log."""
    repository.does("run", "implementer", "Write one.txt")
    rows: dict[str, Any] = json.loads(repository.types("status", "--json"))
    (name,) = rows["workflows"]
    assert rows["steps"][f"{name}/step-001"]["status"] == "completed"
    assert json.loads(repository.types("status", "--json", "--at", "1"))["steps"] == {}
    assert "running" in repository.types("status", "--at", "1")
    assert "step-001" in repository.types("status", name)
    metrics: dict[str, Any] = json.loads(repository.types("metrics", "--format", "json"))
    assert metrics["roles"][0]["success_rate"] == 1.0
    assert metrics["agents"][0]["cli"] == "command"
    assert {one["gate"] for one in metrics["gates"]} == {"test", "lint"}


def test_a_risk_waits_until_a_person_in_another_terminal_says_yes(
    repository: Repository, tmp_path: Path
) -> None:
    """The host reads the approval from the log."""
    (repository.folder / ".supervisor" / "approval.yaml").write_text("files_touched: 0\n")
    command = [sys.executable, "-m", "otpy_agents", "engine", "run", "implementer", "Write one.txt"]
    with subprocess.Popen(
        [*command, "--sandbox", "process"],
        cwd=repository.folder,
        env=repository.terminal.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        waits = next(line for line in running.stderr if "waits for a person" in line)
        name, step = waits.split("approve ")[1].split("`")[0].split()
        assert f"{name}/{step} waits for a person" in repository.types("status")
        repository.types("approve", name, step)
        assert running.wait(60) == 0
        running.stderr.read()
    assert (repository.folder / "one.txt").exists()
