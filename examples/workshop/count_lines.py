"""Count lines: code, comments and blank ones."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path


def main(root: Path) -> None:
    """Print one line for each package and one for everything."""
    packages: dict[str, Counter[str]] = {}
    for file in sources(root):
        counted = packages.setdefault(file.relative_to(root).parts[0], Counter())
        counted.update(map(kind, file.read_text(encoding="utf-8").splitlines()))
    whole: Counter[str] = Counter()
    for package, counted in packages.items():
        print(f"{package}: {spoken(counted)}", flush=True)
        whole += counted
    print(f"all: {spoken(whole)}", flush=True)


def kind(line: str) -> str:
    """Return what sort of line it is."""
    text = line.strip()
    return "blank" if not text else "comment" if text.startswith("#") else "code"


def spoken(counted: Counter[str]) -> str:
    """Return the numbers as a phrase."""
    return ", ".join(f"{counted[name]} {name}" for name in ("code", "comment", "blank"))


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
