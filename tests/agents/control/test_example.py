"""The example of the control plane, run as its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.host import CHECKOUT, ENVIRONMENT

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.timeout(150)]


def test_the_example_ends_completed_without_an_account(tmp_path: Path) -> None:
    """CTL-07: of five tasks, one is fixed, one clarified and one asked about."""
    environment = {name: text for name, text in ENVIRONMENT.items() if name != "OTPY_STATE"}
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "examples/control/demo.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "COMPLETED: the goal is reached; 5 tasks completed, 0 blocked" in done.stderr
    kinds = (tmp_path / "sandbox/greeter/prompts.log.jsonl").read_text()
    assert '"FIX_PROMPT"' in kinds
    assert '"CLARIFICATION_PROMPT"' in kinds
    assert "INTERROGATION_RESPONSE" in (tmp_path / "sandbox/greeter/audit.log.jsonl").read_text()
