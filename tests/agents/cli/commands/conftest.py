"""Shared fixtures of the tests of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.cli.commands.second_terminal import SecondTerminal
from tests.agents.cli.commands.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A folder to type in; every command started there is ended."""
    made = Terminal(tmp_path)
    yield made
    made.close()


@pytest.fixture
def second(tmp_path: Path) -> Iterator[SecondTerminal]:
    """A folder with a work list, hosts that work on it, and a second terminal."""
    made = SecondTerminal(tmp_path)
    yield made
    made.close()
