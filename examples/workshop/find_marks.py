"""Find lines that are too long and remarks that were left for later."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LIMIT = 100
LATER = re.compile(r"#\s*(TODO|FIXME|XXX)\b")


def main(root: Path) -> None:
    """Print each place and how many there are of each sort."""
    long, later = 0, 0
    for file in sources(root):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            place = f"{file.relative_to(root)}:{number}"
            if len(line) > LIMIT:
                long += 1
                print(f"{place}: {len(line)} columns", flush=True)
            if LATER.search(line):
                later += 1
                print(f"{place}: {line.strip()}", flush=True)
    print(f"{long} long lines, {later} remarks for later", flush=True)


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
