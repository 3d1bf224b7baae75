"""Check that links between the documents point to files that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def main(root: Path) -> None:
    """Print each link that leads nowhere and how many were looked at."""
    seen, dead = 0, 0
    for document in documents(root):
        for target in LINK.findall(document.read_text(encoding="utf-8")):
            if "://" in target or target.startswith("mailto:"):
                continue
            seen += 1
            if not (document.parent / target).exists():
                dead += 1
                print(f"{document.relative_to(root)}: {target} leads nowhere", flush=True)
    print(f"{seen} links followed, {dead} dead", flush=True)


def documents(root: Path) -> list[Path]:
    """Return the documents of the checkout, sorted."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
