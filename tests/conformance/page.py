"""Write `docs/reference/conformance.md`: each rule, whether it holds here, and the proof.

python -m tests.conformance.page
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from tests.conformance.differences import DIFFERENCES, Difference
from tests.conformance.elixir_differences import ELIXIR_DIFFERENCES
from tests.conformance.record import BOOKS, ELIXIR_BOOKS
from tests.conformance.rules import (
    DIFFERENT,
    ELIXIR_NOT_APPLICABLE,
    NOT_APPLICABLE,
    SUITE_NOT_APPLICABLE,
    TITLES,
    all_rules,
    section_of,
)

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "docs" / "reference" / "conformance.md"
EXPLANATIONS = tuple(
    ROOT / "docs" / "explanation" / name
    for name in ("otp-differences.md", "behaviour-differences.md", "asyncio-limits.md")
)
HEAD = """\
# Conformance

Each rule of OTP that this project has a number for, and how it is known to hold here.
The numbers are explained in [differences from OTP](../explanation/otp-differences.md#rule-numbers).

- **tested**: a test proves it. `erlang:` is a scenario that Erlang and otpy act out alike,
  `elixir:` one that Elixir and otpy do.
- **difference**: otpy does something else, on purpose. Why is said of
  [supervisors and signals](../explanation/otp-differences.md), of
  [servers, tasks, registries and partitions](../explanation/behaviour-differences.md), and of
  [what asyncio cannot do](../explanation/asyncio-limits.md).
- **not applicable**: it has no meaning here.
- **open**: no test names it.

Beside these, each run of the tests compares otpy with a real Erlang on new random scenarios.

This page is written by `python -m tests.conformance.page`; a test fails when it is out of date.
"""
_RULE = re.compile(r"\b(?:SUP-\d{3}|(?:REP|SIG|GEN|APP|ESU|DYN|TSK|PAR|REG|AIO)-\d{2})\b")
_RANGE = re.compile(r"\b(SUP-|[A-Z]{3}-)(\d+) to (?:\1)?(\d+)\b")
_SHOWN = 4
_COMPARED = (*DIFFERENCES, *ELIXIR_DIFFERENCES)


def page() -> str:
    """Return the text of the whole page."""
    proofs = _proofs()
    parts = [HEAD]
    for section, rules in groupby(all_rules(), section_of):
        parts.append(f"\n## {section}: {TITLES[section]}\n\n")
        parts.append("| rule | status | by |\n| --- | --- | --- |\n")
        parts += [_row(rule, proofs[rule]) for rule in rules]
    parts.append("\n## Differences\n\n")
    parts.append("What a comparison with Erlang leaves out or rewrites, all of it.\n\n")
    parts += _differences("Erlang", DIFFERENCES)
    parts.append("\nAnd a comparison with Elixir:\n\n")
    parts += _differences("Elixir", ELIXIR_DIFFERENCES)
    parts.append("\n## Cases of OTP's supervisor suite without an equivalent\n\n")
    parts += _cases(SUITE_NOT_APPLICABLE)
    parts.append("\n## Cases of Elixir's tests without an equivalent\n\n")
    parts += _cases(ELIXIR_NOT_APPLICABLE)
    return "".join(parts)


def _differences(language: str, differences: Iterable[Difference]) -> Iterator[str]:
    yield f"| name | rules | kind | {language} | otpy | why |\n"
    yield "| --- | --- | --- | --- | --- | --- |\n"
    for d in differences:
        yield f"| {d.name} | {', '.join(d.rules)} | {d.kind} | {d.erlang} | {d.otpy} | {d.why} |\n"


def _cases(reasons: dict[str, str]) -> Iterator[str]:
    yield "| cases | why |\n| --- | --- |\n"
    for cases, why in reasons.items():
        yield f"| {cases} | {why} |\n"


def _row(rule: str, proofs: list[str]) -> str:
    shown = proofs[:_SHOWN]
    if len(proofs) > _SHOWN:
        shown[-1] += f" and {len(proofs) - _SHOWN} more"
    said = [table[rule] for table in (DIFFERENT, NOT_APPLICABLE) if rule in table]
    named = [d.name for d in _COMPARED if rule in d.rules]
    return f"| {rule} | {_status(rule, proofs)} | {', '.join([*said, *named, *shown])} |\n"


def _status(rule: str, proofs: list[str]) -> str:
    different = rule in DIFFERENT or any(rule in d.rules for d in _COMPARED)
    found = {
        "tested": bool(proofs),
        "difference": different,
        "not applicable": rule in NOT_APPLICABLE,
    }
    return ", ".join(word for word, so in found.items() if so) or "open"


def statuses() -> dict[str, str]:
    """Return the status of every rule; "not applicable" excludes any other."""
    proofs = _proofs()
    return {rule: _status(rule, proofs[rule]) for rule in all_rules()}


@cache
def _proofs() -> defaultdict[str, list[str]]:
    """Return the tests of each rule: scenarios, then tests that name it in their docstring."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    erlang = ((f"erlang:{case.name}", case.rules) for book in BOOKS.values() for case in book)
    elixir = (
        (f"elixir:{case.name}", case.rules) for book in ELIXIR_BOOKS.values() for case in book
    )
    for name, rules in (*erlang, *elixir):
        for rule in rules:
            found[rule].append(name)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, text in _docstrings(path):
            for rule in _named_in(text):
                found[rule].append(f"`{path.stem}::{name}`")
    return found


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if node.name.startswith("test_") and text:
                yield node.name, text


def _named_in(text: str) -> list[str]:
    rules = set(_RULE.findall(text))
    for prefix, first, last in _RANGE.findall(text):
        width = len(first)
        rules.update(f"{prefix}{n:0{width}}" for n in range(int(first), int(last) + 1))
    return sorted(rules)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
