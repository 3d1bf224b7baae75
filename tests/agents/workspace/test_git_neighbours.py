"""Git beside another git that makes or removes a work tree of the same repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from otpy_agents.workspace.git import Git
from tests.agents.workspace.git_world import GitWorld

pytestmark = pytest.mark.real_time

# As git says it when it meets a work tree that another git has not made whole yet.
PROGRAM = """#!/bin/sh
if [ ! -e {told} ]; then
  touch {told}
  echo "fatal: failed to read .git/worktrees/wf-1-step-001/commondir: Success" >&2
  exit 128
fi
exec {git} "$@"
"""


async def test_a_work_tree_that_is_just_being_made_is_waited_for(
    git: GitWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight workflows on one repository make theirs at the same time."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(told=tmp_path / "told", git=shutil.which("git")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    answer = await Git().run(git.root, "rev-parse", "--is-inside-work-tree")
    assert answer.text == "true"
    assert (tmp_path / "told").exists()
