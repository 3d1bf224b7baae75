from __future__ import annotations

import os
from pathlib import Path

import pytest

from otpy_agents.agent.preflight import Needs, check, obstacles
from otpy_agents.errors import PreflightFailed
from otpy_agents.worklist.assignment import Assignment
from otpy_agents.worklist.reader import parse


def assignment(program: str) -> Assignment:
    """Return an assignment that runs this program."""
    text = f'[[assignment]]\nid = "a"\nargv = ["{program}"]'
    return parse(text, Path("w.toml")).assignments[0]


def test_what_can_be_started_passes(tmp_path: Path) -> None:
    """A program on the path passes, and so does one in the working directory."""
    (tmp_path / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "run").chmod(0o755)
    check(assignment("sh"), tmp_path, os.environ)
    check(assignment("./run"), tmp_path, os.environ)


def test_everything_that_stands_in_the_way_is_listed_at_once(tmp_path: Path) -> None:
    """The parent gets the whole list (TREE-40)."""
    with pytest.raises(PreflightFailed) as caught:
        check(assignment("no-such-program"), tmp_path / "missing", os.environ)
    assert caught.value.assignment == "a"
    assert len(caught.value.problems) == 2
    assert "wanted a folder that exists" in str(caught.value)
    assert "'no-such-program'" in str(caught.value)


def test_the_path_of_the_worker_counts_not_ours(tmp_path: Path) -> None:
    """A program that the host could find but the worker could not is an obstacle."""
    with pytest.raises(PreflightFailed):
        check(assignment("sh"), tmp_path, {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (Needs(disk_bytes=10**18), "wanted 1000000000000000000"),
        (Needs(variables=("HOME", "OUR_KEY", "EMPTY")), "got no variable 'OUR_KEY'"),
        (Needs(variables=("EMPTY",)), "got no variable 'EMPTY'"),
        (Needs(cli="claude"), "wanted claude installed (npm install"),
        (Needs(cli="no-such-cli"), "no-such-cli"),
        (Needs(budget_left=0.0), "got 0 left of the budget"),
        (Needs(budget_left=-5.0), "got -5 left of the budget"),
        (Needs(budget_left=float("nan")), "got nan left of the budget"),
    ],
    ids=str,
)
def test_each_need_that_is_not_met_is_an_obstacle(needs: Needs, said: str, tmp_path: Path) -> None:
    """Needs are space, variables, the agent's CLI, and the rest of the budget."""
    environment = {"PATH": str(tmp_path), "HOME": "/", "EMPTY": ""}
    assert said in "; ".join(obstacles(needs, tmp_path, environment))


def test_what_is_there_is_no_obstacle(tmp_path: Path) -> None:
    """All needs are met at once."""
    (tmp_path / "claude").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "claude").chmod(0o755)
    needs = Needs(
        program="./claude",
        cli="claude",
        write=True,
        disk_bytes=1,
        variables=("KEY",),
        budget_left=0.01,
    )
    assert obstacles(needs, tmp_path, {"PATH": str(tmp_path), "KEY": "x"}) == []
    assert obstacles(Needs(cli="command", program="sh"), tmp_path, os.environ) == []


def test_a_directory_that_takes_no_files_is_an_obstacle_for_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that only reads may be started in it."""
    allowed = os.R_OK | os.X_OK

    def access(_path: Path, mode: int) -> bool:
        return mode & ~allowed == 0

    monkeypatch.setattr(os, "access", access)
    assert obstacles(Needs(), tmp_path, os.environ) == []
    (said,) = obstacles(Needs(write=True), tmp_path, os.environ)
    assert said.endswith("wanted one that can be written to")
    allowed = 0
    (said,) = obstacles(Needs(write=True), tmp_path, os.environ)
    assert said.endswith("wanted one that can be entered")


def test_all_obstacles_come_in_one_list_in_the_order_of_the_checks(tmp_path: Path) -> None:
    """The parent gets the whole list, for all needs (TREE-40)."""
    needs = Needs(
        program="none", cli="codex", disk_bytes=10**18, variables=("A", "B"), budget_left=0.0
    )
    with pytest.raises(PreflightFailed) as caught:
        check(assignment("sh"), tmp_path / "missing", {"PATH": ""}, needs)
    words = ["directory", "bytes free", "program 'none'", "codex", "'A'", "'B'", "budget"]
    assert len(caught.value.problems) == len(words)
    for word, problem in zip(words, caught.value.problems, strict=True):
        assert word in problem
