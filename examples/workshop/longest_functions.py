"""Find the longest functions of the checkout."""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def main(root: Path) -> None:
    """Print the ten longest functions, longest first."""
    found: list[tuple[int, str]] = []
    for file in sources(root):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((length, f"{file.relative_to(root)}:{node.lineno} {node.name}"))
    for length, place in sorted(found, reverse=True)[:10]:
        print(f"{length:4} {place}", flush=True)
    print(f"{len(found)} functions measured", flush=True)


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
