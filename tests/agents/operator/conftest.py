"""Shared by the tests of the operator socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import otpy
from tests.agents.operator.operated_host import Commands, Host, Notebook


@pytest.fixture
def commands() -> Commands:
    """Commands that can be watched."""
    return Commands()


@pytest.fixture
def notebook(commands: Commands) -> Notebook:
    """A log in memory."""
    return Notebook(commands.told)


@pytest.fixture
async def host(tmp_path: Path, commands: Commands, notebook: Notebook) -> AsyncGenerator[Host]:
    """A host with an operator socket."""
    made = Host(tmp_path / "1.sock", commands, notebook)
    async with otpy.start(made.spec(), hooks=[made.reports.append]) as root:
        made.root = root
        yield made
