"""The same workloads in Erlang/OTP itself, where `erl` is installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.interpreters import ENVIRONMENTS

_SOURCE: Final = Path(__file__).with_name("workloads.erl")


def found() -> bool:
    """Whether Erlang can be compiled and run here."""
    return shutil.which("erl") is not None and shutil.which("erlc") is not None


def command(workload: str, size: int) -> list[object]:
    """Return the command line that measures `workload` and prints its readings."""
    call = f"workloads:main({workload.replace('-', '_')}, {size})."
    return ["erl", "-noshell", "-noinput", "+P", "2000000", "-pa", _compiled(), "-eval", call]


@cache
def _compiled() -> Path:
    folder = ENVIRONMENTS / "erlang"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["erlc", "-o", folder, _SOURCE], check=True)
    return folder
