"""Compile every source file into a folder of its own and count the failures."""

from __future__ import annotations

import py_compile
import sys
from pathlib import Path


def main(root: Path) -> int:
    """Compile everything under `root`; the result goes to the working directory."""
    broken = 0
    files = sources(root)
    for number, file in enumerate(files):
        try:
            py_compile.compile(str(file), cfile=f"{number}.pyc", doraise=True)
        except py_compile.PyCompileError as error:
            broken += 1
            print(f"{file}: {error.msg.strip().splitlines()[-1]}", flush=True)
    print(f"{len(files)} files compiled, {broken} broken", flush=True)
    return 1 if broken else 0


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
