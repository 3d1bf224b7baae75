"""Write `requirements.md`: each rule that code cites, where it is held, and what tests it.

Run it from anywhere: `python docs/reference/requirements.py`. What a rule says stands in
`requirements.toml`; where it is held and tested is read from the sources.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = HERE / "requirements.md"
RULE = re.compile(r"\b(?:RUN|TREE|CTL|ENG|C|G)-\d{2}\b")
HEAD = """\
# Requirements of the application

What `otpy_agents` and `otpy_monitors` must do, where each rule is held, and which tests hold it.
Docstrings cite the rules by these names.
The rules of the framework are in [conformance.md](conformance.md).

This page is written by `python docs/reference/requirements.py`.
A test fails when it is out of date.
"""


def rules() -> dict[str, str]:
    """Return what each rule says, by its name, in the order of the page."""
    return {
        f"{group}-{number}": text
        for group, entries in _groups().items()
        for number, text in entries.items()
        if number != "title"
    }


def _groups() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "requirements.toml").read_text(encoding="utf-8"))


def citations() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return which modules cite each rule, and which tests do, each as links."""
    held: dict[str, list[str]] = {}
    for folder in ("otpy", "monitors", "agents"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            for rule in sorted(set(RULE.findall(text))):
                held.setdefault(rule, []).append(_link(_module(file), file))
    tested: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for rule, name in sorted(set(_citing(file))):
            tested.setdefault(rule, []).append(_link(name, file))
    return held, tested


def _citing(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each rule that a file cites, with the test that does, or with the file."""
    text = file.read_text(encoding="utf-8")
    if not RULE.search(text):
        return
    lines = text.splitlines()
    spans = {
        range(node.lineno, (node.end_lineno or 0) + 1): node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    }
    for number, line in enumerate(lines, 1):
        for rule in RULE.findall(line):
            yield rule, next((name for span, name in spans.items() if number in span), file.stem)


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "otpy" else parts[1:]).removesuffix(".__init__")


def _link(name: str, file: Path) -> str:
    return f"[`{name}`](../../{file.relative_to(ROOT).as_posix()})"


def page() -> str:
    """Return the text of the page."""
    held, tested = citations()
    parts = [HEAD]
    for group, entries in _groups().items():
        parts.append(
            f"\n## {entries['title']}\n\n| rule | what must hold | held in | tested by |\n"
        )
        parts.append("| --- | --- | --- | --- |\n")
        for number, text in entries.items():
            rule = f"{group}-{number}"
            if number != "title":
                where = ", ".join(held.get(rule, [])) or "–"
                tests = ", ".join(tested.get(rule, [])) or "no test cites it"
                parts.append(f"| {rule} | {text} | {where} | {tests} |\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
