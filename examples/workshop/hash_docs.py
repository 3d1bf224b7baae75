"""Count the documents and write one line with a hash for each."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def main(root: Path) -> None:
    """Write `docs.sha256` into the working directory."""
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(root)}\n"
        for file in documents(root)
    ]
    Path("docs.sha256").write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} documents hashed", flush=True)


def documents(root: Path) -> list[Path]:
    """Return the documents of the checkout, sorted."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
