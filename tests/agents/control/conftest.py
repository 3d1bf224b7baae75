"""Shared fixtures of the tests of the control plane."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.servers.server_program import program, running


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    """Run Redis; yield its port."""
    folder = str(tmp_path_factory.mktemp("redis"))
    command = [program("redis-server"), "--save", "", "--dir", folder, "--port"]
    with running(lambda port: [*command, str(port)]) as port:
        yield port
