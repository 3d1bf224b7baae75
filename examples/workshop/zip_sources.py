"""Pack the sources and check what was packed."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def main(root: Path) -> int:
    """Write `sources.zip` into the working directory."""
    target = Path("sources.zip")
    files = sources(root)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(root))
    with zipfile.ZipFile(target) as archive:
        damaged = archive.testzip()
    print(f"{len(files)} files in {target.stat().st_size} bytes", flush=True)
    return 0 if damaged is None else 1


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
