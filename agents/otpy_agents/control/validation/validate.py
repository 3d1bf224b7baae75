"""Judges an agent's work by the task's own criteria (CTL-35 to CTL-38)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import regex
from anyio import to_thread
from attrs import frozen

from otpy_agents.attempt.json_answer import find_json
from otpy_agents.control.halts import Halt, HaltReason
from otpy_agents.control.report import (
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.task import ControlTask, TableCriterion
from otpy_agents.control.validation.checks import (
    Check,
    CommandEnds,
    CommandLines,
    FileHas,
    JsonHas,
    LineCount,
    NoCheck,
    OperatorPattern,
    PathIs,
    Sight,
    SuitePasses,
)
from otpy_agents.control.validation.json_output import complaints
from otpy_agents.control.validation.sentences import read_sentence
from otpy_agents.sandbox.commands import CommandOutcome

__all__ = [
    "AgentOutcome",
    "RunCommand",
    "commands_of",
    "find_format_halt",
    "judge",
    "validate",
]

_OUTPUT_SHOWN: Final = 300

Argv: TypeAlias = tuple[str, ...]


@frozen
class AgentOutcome:
    """What an agent ended with.

    Attributes:
        exit_code: None if it is unknown.
        final_words: Its final answer, without the output of its tools.
    """

    exit_code: int | None
    final_words: str


RunCommand: TypeAlias = Callable[[Argv], Awaitable[CommandOutcome]]
"""Runs a program with its arguments where no harm can come of it (C-44)."""

Outcomes: TypeAlias = Mapping[Argv, CommandOutcome]


async def validate(
    task: ControlTask, folder: Path, *, result: AgentOutcome, run_command: RunCommand
) -> ValidationReport:
    """Check everything that a task demands, and report each check.

    No model decides, and nothing is changed but by the commands, which `run_command` holds. Each
    is run once, one after the other. An exit code of the agent other than 0 fails nothing; it only
    takes the confidence `HIGH` away.

    Args:
        task: What was asked for.
        folder: The folder of the project; what leads out of it fails.
        result: What the agent ended with.
        run_command: Runs the test command and the commands of criteria.

    Cancellation:
        A command that runs is cancelled; there is no report.
    """
    outcomes: dict[Argv, CommandOutcome] = {}
    for argv in commands_of(task):
        outcomes[argv] = await run_command(argv)
    return await to_thread.run_sync(partial(judge, task, folder, result, outcomes))


def commands_of(task: ControlTask) -> tuple[Argv, ...]:
    """Return the commands that the validation of a task needs, in order, each once."""
    found: list[Argv] = []
    for criterion in task.acceptance_criteria:
        checks = _reading(criterion)[1]
        found.extend(
            _argv(check.command)
            for check in checks
            if isinstance(check, CommandEnds | CommandLines)
        )
    if task.test_command is not None:
        found.append(_argv(task.test_command))
    return tuple(dict.fromkeys(found))


def judge(
    task: ControlTask, folder: Path, result: AgentOutcome, outcomes: Outcomes
) -> ValidationReport:
    """Return the report of a validation whose commands have been run; reads, and changes nothing.

    Args:
        task: What was asked for.
        folder: The folder of the project.
        result: What the agent ended with.
        outcomes: What `commands_of` ended with.
    """
    look = partial(_look, task, folder, outcomes)
    demanded = [
        *(_judge_artifact(look, name) for name in task.required_artifacts),
        *(_judge_criterion(look, criterion) for criterion in task.acceptance_criteria),
        *_judge_required_tests(look, task),
        *_judge_json(task, result),
    ]
    if not demanded:
        demanded.append(_nothing_demanded(task))
    told = [*_tell_tests(look, task), _tell_exit(result)]
    return ValidationReport.of([*demanded, *told])


def find_format_halt(task: ControlTask, final_words: str) -> Halt | None:
    """Return the halt of an answer that has no JSON although the task gives a schema for it.

    JSON that does not fit the schema is not a halt but a failed check.
    """
    if task.expected_json_schema is None or find_json(final_words) is not None:
        return None
    excerpt = " ".join(final_words.split())[:200]
    return Halt(HaltReason.OUTPUT_FORMAT_INVALID, "no JSON in the final answer", excerpt)


_Look: TypeAlias = Callable[[Check], Sight]


def _look(task: ControlTask, folder: Path, outcomes: Outcomes, check: Check) -> Sight:
    if isinstance(check, SuitePasses):
        if task.test_command is None:
            return Sight(None, "the task has no test_command")
        return _sight_of(outcomes.get(_argv(task.test_command)), CommandEnds(task.test_command))
    if isinstance(check, CommandEnds | CommandLines):
        return _sight_of(outcomes.get(_argv(check.command)), check)
    return check.look(folder)


def _argv(command: str | Argv) -> Argv:
    return ("/bin/sh", "-c", command) if isinstance(command, str) else command


def _sight_of(outcome: CommandOutcome | None, check: CommandEnds | CommandLines) -> Sight:
    if outcome is None:
        return Sight(None, "it was not run")
    output = outcome.output.strip()
    shown = f"…{output[-_OUTPUT_SHOWN:]}" if len(output) > _OUTPUT_SHOWN else output
    said = f": {shown}" if shown else ", and it wrote nothing"
    if outcome.is_late:
        return Sight(False, f"it did not end in time{said}")
    # An unknown exit code is not a success (C-37), and no statement replaces it.
    if outcome.exit_code is None:
        return Sight(False, f"it has no exit code{said}")
    if isinstance(check, CommandLines):
        lines = sum(1 for line in outcome.output.splitlines() if line.strip())
        is_enough = check.least <= lines and (check.most is None or lines <= check.most)
        return Sight(outcome.exit_code in {0, 1} and is_enough, f"{lines:,} lines{said}")
    is_printed = check.prints is None or check.prints in outcome.output
    return Sight(
        outcome.exit_code == check.code and is_printed, f"exit code {outcome.exit_code}{said}"
    )


def _judge_artifact(look: _Look, name: str) -> CriterionReport:
    return _report(f"required artifact {name}", MatchQuality.EXACT, (PathIs(name),), look)


def _judge_criterion(look: _Look, criterion: str | TableCriterion) -> CriterionReport:
    quality, checks = _reading(criterion)
    return _report(str(criterion), quality, checks, look)


def _reading(criterion: str | TableCriterion) -> tuple[MatchQuality, tuple[Check, ...]]:
    if isinstance(criterion, TableCriterion):
        return MatchQuality.EXACT, tuple(_checks_of(criterion))
    reading = read_sentence(criterion)
    return (MatchQuality.LOW, ()) if reading is None else (reading.quality, reading.checks)


def _checks_of(table: TableCriterion) -> Iterator[Check]:
    if table.file is not None:
        content = list(_checks_of_content(table.file, table))
        if table.exists is not None or not content:
            yield PathIs(table.file, wanted=table.exists is not False)
        yield from content
    if table.command:
        yield CommandEnds(table.command)


def _checks_of_content(file: str, table: TableCriterion) -> Iterator[Check]:
    if table.contains is not None:
        text = table.contains
        yield FileHas(file, re.compile(re.escape(text)), f"the text {text!r}")
    if table.matches is not None:
        what = f"a match of /{table.matches}/"
        try:
            yield FileHas(file, OperatorPattern(table.matches), what)
        except regex.error as error:
            yield NoCheck(f"{file} has {what}", f"that is not a regular expression: {error}")
    if table.lines is not None:
        yield LineCount(file, table.lines)
    if table.json_path is not None:
        yield JsonHas(file, table.json_path, table.equals)


def _report(
    criterion: str, quality: MatchQuality, checks: tuple[Check, ...], look: _Look
) -> CriterionReport:
    if not checks:
        return CriterionReport(
            criterion,
            CriterionVerdict.UNCERTAIN,
            MatchQuality.LOW,
            "it holds, which no rule can check",
            "no rule reads this sentence",
        )
    sights = [look(check) for check in checks]
    # Failures are told; else uncertain results; else everything.
    worst = min((sight.holds for sight in sights), key=_WORST_FIRST.index)
    told = [sight for sight in sights if sight.holds is worst]
    return CriterionReport(
        criterion,
        _verdict(told[0], quality),
        quality,
        "; ".join(str(check) for check in checks),
        "; ".join(sight.saw for sight in told),
        told[0].where,
    )


_WORST_FIRST: Final = (False, None, True)


def _verdict(sight: Sight, quality: MatchQuality) -> CriterionVerdict:
    # Neither a sign nor its absence proves anything.
    if sight.holds is None or quality is MatchQuality.LOW:
        return CriterionVerdict.UNCERTAIN
    return CriterionVerdict.PASSED if sight.holds else CriterionVerdict.FAILED


def _judge_required_tests(look: _Look, task: ControlTask) -> Iterator[CriterionReport]:
    if task.tests_required:
        yield _report("the tests pass", MatchQuality.EXACT, (SuitePasses(),), look)


def _tell_tests(look: _Look, task: ControlTask) -> Iterator[CriterionReport]:
    """Report the run of optional tests: a failure lowers the confidence, and fails nothing."""
    if task.test_command is None or task.tests_required:
        return
    sight = look(SuitePasses())
    yield CriterionReport(
        "the test command was run",
        CriterionVerdict.PASSED,
        MatchQuality.EXACT if sight.holds else MatchQuality.MEDIUM,
        f"`{task.test_command}` was run; tests_required is false, so how it ended fails nothing",
        sight.saw,
    )


def _judge_json(task: ControlTask, result: AgentOutcome) -> Iterator[CriterionReport]:
    if task.expected_json_schema is None:
        return
    verdict, saw = _fit(task.expected_json_schema, result.final_words)
    yield CriterionReport(
        "expected_json_schema",
        verdict,
        MatchQuality.EXACT,
        "the final answer has JSON that fits the schema",
        saw,
    )


def _fit(schema: Mapping[str, Any], words: str) -> tuple[CriterionVerdict, str]:
    found = find_json(words)
    if found is None:
        return CriterionVerdict.FAILED, "the final answer has no JSON"
    errors = complaints(found.value, schema)
    if errors is None:
        return CriterionVerdict.FAILED, "the schema is not a usable JSON Schema"
    if errors:
        return CriterionVerdict.FAILED, "; ".join(errors)
    return CriterionVerdict.PASSED, "JSON that fits"


def _nothing_demanded(task: ControlTask) -> CriterionReport:
    # Nothing to check is nothing proved: somebody has to say that it is done.
    return CriterionReport(
        task.intent,
        CriterionVerdict.UNCERTAIN,
        MatchQuality.LOW,
        "it is done, which no rule can check",
        "the task has no criterion, no required artifact, no tests and no schema",
    )


def _tell_exit(result: AgentOutcome) -> CriterionReport:
    code = "unknown" if result.exit_code is None else str(result.exit_code)
    return CriterionReport(
        "the agent ended",
        CriterionVerdict.PASSED,
        MatchQuality.EXACT if result.exit_code == 0 else MatchQuality.MEDIUM,
        "it ended; its exit code fails nothing",
        f"exit code {code}",
    )
