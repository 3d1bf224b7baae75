"""`otpy-agents engine roles`: the roles of a repository, and where their values come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.cli.engine_roles import roles
from otpy_agents.engine.roles import load_roles, read_roles
from otpy_agents.engine.supervisor_files import read_yaml
from tests.agents.click_runner import click_runner

DBA = """\
extends: implementer
cli: command
argv: [python, agent.py]
system_prompt: Mind the "schema".
context: {priority_order: [$TARGET, "*.sql"]}
gates: [{name: lint, on_fail: warn}]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".supervisor" / "roles").mkdir(parents=True)
    (tmp_path / ".supervisor" / "roles" / "dba.yaml").write_text(DBA)
    return tmp_path


def run(tree: Path, *words: str) -> tuple[int, str, str]:
    result = click_runner().invoke(roles, ["--repo", str(tree), *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("words", [(), ("list",)])
def test_roles_are_listed(tree: Path, words: tuple[str, ...]) -> None:
    """A line for each, with its base, its agent, its form of answer and its gates."""
    status, out, _ = run(tree, *words)
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert [line[0] for line in lines] == ["ROLE", "dba", "implementer", "planner", "reviewer"]
    assert lines[1][:6] == ["dba", "implementer", "command", "implementation", "test,", "lint"]


def test_a_role_is_shown_with_where_its_values_come_from(tree: Path) -> None:
    """Each line of the merged role says its file and line, or that it is a default."""
    status, out, _ = run(tree, "show", "dba")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    file = ".supervisor/roles/dba.yaml"
    for line in (
        f'cli: "command" # {file}:2',
        f"argv: # {file}:3",
        '- "python"',
        "- name: test # shipped implementer.yaml:25",
        f"- name: lint # {file}:6",
        f"on_fail: warn # {file}:6",
        "max_retries: 3 # default",
        f"priority_order: # {file}:5",
        "timeout: 300 # default",
    ):
        assert line in lines


@pytest.mark.parametrize("name", ["dba", "implementer", "planner", "reviewer"])
def test_what_is_shown_is_a_role_again(tree: Path, name: str) -> None:
    """The output is YAML, and means the same role when it stands alone."""
    _, out, _ = run(tree, "show", name)
    read_yaml("shown", out)
    shown = load_roles({name: ("shown", out)}).role(name)
    role = read_roles(tree).role(name)
    for part in (
        *("name", "description", "cli", "argv", "flags", "output", "system_prompt"),
        *("context", "gates", "config"),
    ):
        assert getattr(shown, part) == getattr(role, part)


def test_mistakes_are_told_in_one_line(tree: Path) -> None:
    """An unknown role, a broken file, and a folder that is no repository; the status is 1."""
    status, _, said = run(tree, "show", "coder")
    wanted = "wanted one of dba, implementer, planner, reviewer"
    assert (status, said) == (1, f"otpy-agents: role: got 'coder', {wanted}\n")
    (tree / ".supervisor" / "roles" / "dba.yaml").write_text("extends: implementer\ntimeout: 3")
    status, _, said = run(tree)
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith("otpy-agents: .supervisor/roles/dba.yaml:2: timeout: got the unknown")
    (tree / ".git").rmdir()
    status, _, said = run(tree)
    assert status == 1
    assert "wanted a folder in a git repository (`git init`)" in said
