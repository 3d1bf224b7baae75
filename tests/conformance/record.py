"""Record what Erlang does with the hand-written scenarios.

python -m tests.conformance.record
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.erlang import Erlang
from tests.conformance.rule_cases import RULE_CASES
from tests.conformance.suite_cases import SUITE
from tests.conformance.trace import to_plain

if TYPE_CHECKING:
    from tests.conformance.case import Case

FOLDER = Path(__file__).with_name("recorded")
BOOKS: dict[str, list[Case]] = {"suite": SUITE, "rules": RULE_CASES}


def recorded(book: str) -> dict[str, Any]:
    """Return the recordings of one book: by name, scenario and trace."""
    found: dict[str, Any] = json.loads((FOLDER / f"{book}.json").read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Record every book anew."""
    with Erlang() as erlang:
        for book, cases in BOOKS.items():
            found: dict[str, Any] = {"erlang": erlang.release}
            for case in cases:
                trace = erlang.play(case.scenario)
                found[case.name] = {
                    "scenario": json.loads(json.dumps(case.scenario.plain())),
                    "trace": to_plain(trace),
                }
            (FOLDER / f"{book}.json").write_text(_text(found), encoding="utf-8")
            sys.stdout.write(f"{book}: {len(cases)} cases, recorded from OTP {erlang.release}\n")


def _text(found: dict[str, Any]) -> str:
    """Return JSON with one line for each scenario and each section of its trace."""
    entries: list[str] = []
    for name, entry in found.items():
        if name == "erlang":
            entries.append(f'"erlang": {entry}')
            continue
        sections = ",\n   ".join(json.dumps(section) for section in entry["trace"])
        scenario = json.dumps(entry["scenario"])
        entries.append(f'"{name}": {{\n  "scenario": {scenario},\n  "trace": [\n   {sections}]}}')
    return "{\n " + ",\n ".join(entries) + "\n}\n"


if __name__ == "__main__":
    main()
