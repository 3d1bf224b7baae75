"""A running Erlang that plays scenarios."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, final

from tests.conformance.trace import Trace, from_plain

if TYPE_CHECKING:
    from types import TracebackType

    from tests.conformance.scenario import Scenario

RUNNER = Path(__file__).with_name("runner.erl")


def erlang_is_missing() -> bool:
    """Whether this machine has no Erlang."""
    return shutil.which("escript") is None


@final
class Erlang:
    """One Erlang machine for many scenarios.

    Attributes:
        release: Its OTP release, such as 25.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["escript", str(RUNNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.release = int(self._line())

    def __enter__(self) -> Erlang:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def play(self, scenario: Scenario) -> Trace:
        """Run `scenario` and return its trace."""
        assert self._process.stdin is not None
        self._process.stdin.write(scenario.term())
        self._process.stdin.flush()
        return from_plain(json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Erlang has ended"
        return line
