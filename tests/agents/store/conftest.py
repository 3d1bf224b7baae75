"""Shared by the tests of the store of runs."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def socket_at() -> Callable[[Path], None]:
    """Return a function that leaves a socket behind, as a killed host does."""

    def leave(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))

    return leave
