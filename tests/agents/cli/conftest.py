"""What the tests of the commands about runs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.cli.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A folder to type in; whatever was started there is ended."""
    made = Terminal(tmp_path)
    yield made
    made.close()
