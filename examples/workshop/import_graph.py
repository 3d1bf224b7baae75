"""Draw which module imports which, as a file for Graphviz."""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def main(root: Path) -> None:
    """Write `imports.dot` into the working directory and print the most wanted modules."""
    edges: set[tuple[str, str]] = set()
    for file in sources(root):
        importer = ".".join(file.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            edges |= {(importer, imported) for imported in imports(node)}
    lines = [f'  "{one}" -> "{other}";\n' for one, other in sorted(edges)]
    Path("imports.dot").write_text(f"digraph {{\n{''.join(lines)}}}\n", encoding="utf-8")
    wanted = [imported for _, imported in edges]
    for name in sorted(set(wanted), key=wanted.count, reverse=True)[:5]:
        print(f"{wanted.count(name):4} {name}", flush=True)
    print(f"{len(edges)} imports drawn", flush=True)


def imports(node: ast.AST) -> list[str]:
    """Return the modules a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return []


def sources(root: Path) -> list[Path]:
    """Return the Python files of the three packages, sorted."""
    folders = ("otpy", "agents", "monitors")
    return sorted(file for folder in folders for file in (root / folder).rglob("*.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
