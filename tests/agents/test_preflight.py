from __future__ import annotations

import os
from pathlib import Path

import pytest

from otpy_agents.errors import PreflightFailed
from otpy_agents.tree.assignment import Assignment
from otpy_agents.tree.preflight import check
from otpy_agents.tree.worklist import parse


def assignment(program: str) -> Assignment:
    """Return an assignment that runs this program."""
    text = f'[[assignment]]\nid = "a"\nargv = ["{program}"]'
    return parse(text, Path("w.toml")).assignments[0]


def test_what_can_be_started_passes(tmp_path: Path) -> None:
    """A program on the path, and one that lies in the working directory."""
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
    """A program we could find but the worker could not is an obstacle."""
    with pytest.raises(PreflightFailed):
        check(assignment("sh"), tmp_path, {"PATH": str(tmp_path)})
