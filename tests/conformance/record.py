"""Record the traces of Erlang and Elixir for the hand-written scenarios.

python -m tests.conformance.record
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.elixir_dynamic_cases import DYNAMIC
from tests.conformance.elixir_partition_cases import PARTITIONS
from tests.conformance.elixir_registry_cases import REGISTRY
from tests.conformance.elixir_supervisor_cases import SUPERVISOR
from tests.conformance.elixir_task_cases import TASKS
from tests.conformance.erlang import ELIXIR, ERLANG, Erlang
from tests.conformance.rule_cases import RULE_CASES
from tests.conformance.suite_cases import SUITE
from tests.conformance.trace import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance import case, elixir_case

    Books = Mapping[str, Sequence[case.Case | elixir_case.Case]]

FOLDER = Path(__file__).with_name("recorded")
BOOKS: dict[str, list[case.Case]] = {"suite": SUITE, "rules": RULE_CASES}
ELIXIR_BOOKS: dict[str, list[elixir_case.Case]] = {
    "elixir_supervisor": SUPERVISOR,
    "elixir_dynamic_supervisor": DYNAMIC,
    "elixir_task_supervisor": TASKS,
    "elixir_partition_supervisor": PARTITIONS,
    "elixir_registry": REGISTRY,
}


def recorded(book: str) -> dict[str, Any]:
    """Return the recordings of one book: the scenario and the trace of each name."""
    found: dict[str, Any] = json.loads((FOLDER / f"{book}.json").read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Record every book again."""
    _record(ERLANG, "erlang", BOOKS)
    _record(ELIXIR, "elixir", ELIXIR_BOOKS)


def _record(command: tuple[str, ...], language: str, books: Books) -> None:
    with Erlang(command) as machine:
        for book, cases in books.items():
            found: dict[str, Any] = {language: machine.version}
            for case in cases:
                trace = machine.play(case.scenario)
                found[case.name] = {
                    "scenario": json.loads(json.dumps(case.scenario.plain())),
                    "trace": to_plain(trace),
                }
            (FOLDER / f"{book}.json").write_text(_text(found), encoding="utf-8")
            what = f"{len(cases)} cases, recorded from {language} {machine.version}"
            sys.stdout.write(f"{book}: {what}\n")


def _text(found: dict[str, Any]) -> str:
    """Return JSON with one line for each scenario and each section of its trace."""
    entries: list[str] = []
    for name, entry in found.items():
        if isinstance(entry, str):
            entries.append(f'"{name}": "{entry}"')
            continue
        sections = ",\n   ".join(json.dumps(section) for section in entry["trace"])
        scenario = json.dumps(entry["scenario"])
        entries.append(f'"{name}": {{\n  "scenario": {scenario},\n  "trace": [\n   {sections}]}}')
    return "{\n " + ",\n ".join(entries) + "\n}\n"


if __name__ == "__main__":
    main()
