"""What the tests of commands to a running tree share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.operate.second_terminal import SecondTerminal


@pytest.fixture
def second(tmp_path: Path) -> Iterator[SecondTerminal]:
    """A folder with a work list, hosts that work on it, and a second terminal."""
    made = SecondTerminal(tmp_path)
    yield made
    made.close()
