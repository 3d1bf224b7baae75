"""The example of the engine, run as its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.host import CHECKOUT, ENVIRONMENT

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(150)]


def test_the_example_plans_implements_and_reviews_without_an_account(tmp_path: Path) -> None:
    """A gate fails first, then passes; each component is one commit."""
    environment = {name: text for name, text in ENVIRONMENT.items() if name != "OTPY_STATE"}
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "examples/engine/demo.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stderr
    assert said.index("gate test failed") < said.index("gate test passed")
    assert "approved: small, clear and tested" in done.stdout
    repository = tmp_path / "calculator"
    git = ["git", "-C", str(repository)]
    log = subprocess.check_output([*git, "log", "--format=%(trailers:key=Otpy-Step,valueonly)"])
    assert log.split() == [b"step-002", b"step-001"]
    assert not subprocess.check_output([*git, "status", "--porcelain", "-uno"])
    assert not [*(repository / ".worktrees").glob("wf-*")]
    main = [sys.executable, str(repository / "main.py"), "2 3 4 * +"]
    assert subprocess.check_output(main) == b"14\n"
