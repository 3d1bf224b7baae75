"""Which Python runs a measurement: interpreters that are found, environments made on demand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

from benchmarks.catalogue import PEERS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parent.parent
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
ASYNCIO: Final = "asyncio"
UVLOOP: Final = "uvloop"

ENVIRONMENTS: Final = Path(tempfile.gettempdir()) / f"otpy-benchmarks-{os.getuid()}"
"""What was made on demand, and is used again; may be deleted at any time."""


@final
@frozen
class Setting:
    """What a column of numbers was taken on.

    Attributes:
        python: Version of the interpreter, such as `3.12`.
        loop: `asyncio` or `uvloop`.
    """

    python: str
    loop: str = ASYNCIO

    def __str__(self) -> str:
        """Return it for a heading."""
        return f"Python {self.python}, {self.loop}"


def find(version: str) -> Path | None:
    """Return an interpreter of that version which runs and can make environments."""
    if version == OWN:
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [*sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    if (on_path := shutil.which(f"python{version}")) is not None:
        candidates.append(Path(on_path))  # may be a shim without a version behind it
    question = (
        f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    )
    for candidate in candidates:
        if subprocess.run([candidate, "-c", question], capture_output=True, check=False).returncode:
            continue
        return candidate
    return None


def python_for(setting: Setting, subject: str) -> Path:
    """Return the interpreter that can run `subject` in `setting`; installs what it lacks."""
    peer = PEERS.get(subject)
    if peer is not None:
        return _environment(setting.python, subject, [*peer.requirement.split(), "attrs"])
    if setting.python == OWN and (setting.loop == ASYNCIO or find_spec("uvloop")):
        return Path(sys.executable)
    return _environment(setting.python, "own", [*_dependencies(), UVLOOP])


def _dependencies() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dependencies: list[str] = tomllib.loads(text)["project"]["dependencies"]
    return dependencies


def _environment(version: str, name: str, wanted: Iterable[str]) -> Path:
    """Return the interpreter of an environment with `wanted`, made unless it is there."""
    folder, wanted = ENVIRONMENTS / f"{version}-{name}", [*wanted]
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists() and complete.read_text(encoding="utf-8") == " ".join(wanted):
        return python
    found = find(version)
    if found is None:
        raise FileNotFoundError(f"there is no Python {version} that can make environments")
    print(f"installing {', '.join(wanted)} into {folder}", file=sys.stderr)
    subprocess.run([found, "-m", "venv", "--clear", folder], check=True)
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([str(python), *pip, *wanted], check=True, stdout=sys.stderr)
    complete.write_text(" ".join(wanted), encoding="utf-8")
    return python
