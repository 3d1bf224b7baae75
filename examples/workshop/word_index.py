"""Make an index: which words are in which documents."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

WORD = re.compile(r"[A-Za-z]{4,}")


def main(root: Path) -> None:
    """Write `index.json` into the working directory."""
    index: dict[str, set[str]] = {}
    for document in documents(root):
        for word in WORD.findall(document.read_text(encoding="utf-8")):
            index.setdefault(word.lower(), set()).add(str(document.relative_to(root)))
    ordered = {word: sorted(places) for word, places in sorted(index.items())}
    Path("index.json").write_text(json.dumps(ordered, indent=1), encoding="utf-8")
    print(f"{len(ordered)} words indexed", flush=True)


def documents(root: Path) -> list[Path]:
    """Return the documents of the checkout, sorted."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
