"""Shared setup of the behaviours' tests: nothing is drawn on the terminal."""

from __future__ import annotations

from tests.runtime.conftest import logs, release, reports

__all__ = ["logs", "release", "reports"]
