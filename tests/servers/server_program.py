"""Servers that tests start: Debian's programs, on a free port, until the end of a block."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

__all__ = ["program", "running"]


def program(name: str) -> str:
    """Return the path of a program, even if only the folder of its package has it."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/sbin")]
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *map(str, places)]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextmanager
def running(
    command: Callable[[int], list[str]], *, port: int = 0, **options: Any
) -> Generator[int]:
    """Run a server until the end of the block; yield the port that it listens to.

    Args:
        command: Returns its command line for a port.
        port: The wanted port; 0 for any free one.
        options: Passed on to `subprocess.Popen`.
    """
    for _ in range(5):  # another program may take the port first
        with socket.create_server(("127.0.0.1", port)) as listener:
            port = int(listener.getsockname()[1])
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command(port), stdout=quiet, stderr=quiet, **options) as process:
            try:
                if _listens(process, port):
                    yield port
                    return
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
    pytest.fail(f"{command(0)[0]} does not run")


def _listens(process: subprocess.Popen[Any], port: int) -> bool:
    patience = time.monotonic() + 60
    while process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return True
        assert time.monotonic() < patience, f"port {port}: nobody listens"
        time.sleep(0.05)
    return False
