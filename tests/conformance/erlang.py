"""A running Erlang, or Elixir, that plays scenarios."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, final

from tests.conformance.trace import Trace, from_plain

if TYPE_CHECKING:
    from types import TracebackType

    from tests.conformance import elixir_scenario, scenario

FOLDER = Path(__file__).parent
ERLANG = ("escript", str(FOLDER / "runner.erl"))
ELIXIR = ("elixir", "--erl", "+S 1:1 +sbwt none", str(FOLDER / "elixir_runner" / "runner.exs"))


def erlang_is_missing() -> bool:
    """Whether this machine has no Erlang."""
    return shutil.which("escript") is None


def elixir_is_missing() -> bool:
    """Whether this machine has no Elixir."""
    return shutil.which("elixir") is None


@final
class Erlang:
    """One Erlang machine for many scenarios; with the command of Elixir, for Elixir's.

    Attributes:
        version: For Erlang the OTP release, such as 25; for Elixir the version, such as 1.14.0.
    """

    def __init__(self, command: tuple[str, ...] = ERLANG) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.version = self._line().strip()

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

    def play(self, scenario: scenario.Scenario | elixir_scenario.Scenario) -> Trace:
        """Run `scenario` and return its trace."""
        self.begin(scenario)
        return self.finish()

    def begin(self, scenario: scenario.Scenario | elixir_scenario.Scenario) -> None:
        """Start `scenario`, without waiting for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(scenario.term())
        self._process.stdin.flush()

    def finish(self) -> Trace:
        """Return the trace of the started scenario."""
        return from_plain(json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it has ended"
        return line
