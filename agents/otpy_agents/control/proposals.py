"""Commands that a helper agent proposes for what no rule could tell (CTL-39, C-22).

The helper decides nothing: it names commands, we run them where they can do no harm, and a rule
reads their exit codes. Whatever failed stays failed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast, final

from attrs import evolve, frozen

from otpy_agents.attempt.json_answer import find_json
from otpy_agents.control.project_folder import locate
from otpy_agents.control.report import (
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.validation import CommandOutcome

__all__ = ["MOST_COMMANDS", "ProposedCommand", "read_proposals", "settled_by_commands"]

MOST_COMMANDS: Final = 8
"""Commands of one answer that are run."""

_NOT_RUN: Final = 126
"""The least exit code that a shell gives to what it could not run, or what a signal ended."""
_SHOWN: Final = 200


@final
@frozen
class ProposedCommand:
    """A command that is to show whether a criterion holds.

    Attributes:
        criterion: As the report has it.
        argv: Program and arguments.
    """

    criterion: str
    argv: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.argv)


def read_proposals(
    words: str, report: ValidationReport, folder: Path
) -> tuple[ProposedCommand, ...]:
    """Return the commands in an answer that are run: at most eight, each once.

    One counts only if it is for a criterion that is uncertain and has a file of the project among
    its arguments, or in one of them: `true` shows nothing.

    Args:
        words: The final words of the helper; JSON as its prompt demands.
        report: What was found.
        folder: Where the task is done.
    """
    found = find_json(words)
    value: object = None if found is None else found.value
    items = cast("list[object]", value) if isinstance(value, list) else []
    proposed = dict.fromkeys(_commands(items))
    return tuple(
        one
        for one in proposed
        if one.criterion in report.uncertain_criteria and _names_a_file(one, folder)
    )[:MOST_COMMANDS]


def _commands(items: list[object]) -> Iterator[ProposedCommand]:
    for item in items:
        table = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        criterion, command = table.get("criterion"), table.get("command")
        words = cast("list[object]", command) if isinstance(command, list) else []
        argv = tuple(word for word in words if isinstance(word, str))
        is_whole = len(argv) == len(words) and all(argv) and "\0" not in "".join(argv)
        if isinstance(criterion, str) and argv and is_whole:
            yield ProposedCommand(criterion, argv)


def _names_a_file(command: ProposedCommand, folder: Path) -> bool:
    try:
        words = [part for word in command.argv[1:] for part in (word, *shlex.split(word))]
    except ValueError:
        words = list(command.argv[1:])
    return any(isinstance(locate(folder, word), Path) and word != "." for word in words)


def settled_by_commands(
    report: ValidationReport, outcomes: Mapping[ProposedCommand, CommandOutcome]
) -> ValidationReport:
    """Return the report after the commands have been run.

    What is uncertain holds if all of its commands exit with 0, and fails if one exits with another
    code; one that could not be run, or was ended, leaves it as it is. What is settled so is never
    surer than `MEDIUM`.

    Args:
        report: What was found.
        outcomes: What each command ended with.
    """

    def settled(one: CriterionReport) -> CriterionReport:
        ended = [(str(a), b) for a, b in outcomes.items() if a.criterion == one.criterion]
        known = [b.exit_code for _, b in ended if b.exit_code is not None]
        is_run = len(known) == len(ended) and all(0 <= code < _NOT_RUN for code in known)
        if one.verdict is not CriterionVerdict.UNCERTAIN or not ended or not is_run:
            return one
        worst, outcome = max(ended, key=lambda pair: pair[1].exit_code or 0)
        said = " ".join(outcome.output.split())[-_SHOWN:]
        return evolve(
            one,
            verdict=CriterionVerdict.FAILED if outcome.exit_code else CriterionVerdict.PASSED,
            quality=MatchQuality.MEDIUM,
            check="; ".join(f"`{command}` ends with exit code 0" for command, _ in ended),
            saw=f"exit code {outcome.exit_code} of `{worst}`, which a helper proposed: {said}",
        )

    return ValidationReport.of(map(settled, report.criteria))
