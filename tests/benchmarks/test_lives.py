"""The benchmark of very many lives measures what stays behind, and judges it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from click.testing import CliRunner

from benchmarks import lives


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    """Restore the configuration of structlog, if there was one: the default log depends on it."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.mark.parametrize("subject", lives.SUBJECTS)
def test_it_lives_all_lives_and_compares(subject: str) -> None:
    """Each subject is measured twice, and a few lives leave nothing behind."""
    result = CliRunner().invoke(lives.main, ["--lives", "100", "--subject", subject])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{subject}, 100 lives in ")


def test_it_fails_if_something_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit status says so, and the message names the amount."""
    monkeypatch.setattr(lives, "MOST", -1e6)
    result = CliRunner().invoke(lives.main, ["--lives", "100", "--subject", "restarts"])
    assert result.exit_code == 1
    assert "MB stay behind" in result.output
