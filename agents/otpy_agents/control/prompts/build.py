"""Builds the prompts of a task (CTL-29).

Every dispatch is a fresh context: each prompt has the whole task in it. What comes from a task, a
report or an answer is put into a template and never read as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from otpy_agents.control.halts import Halt, HaltReason
from otpy_agents.control.project_folder import Mention
from otpy_agents.control.prompts.task_types import TaskType, shipped_task_types, type_of
from otpy_agents.control.report import CriterionVerdict, ValidationReport
from otpy_agents.control.task import ControlTask
from otpy_agents.prompt_text import prompt_templates

__all__ = ["clarification_prompt", "first_prompt", "fix_prompt", "helper_prompt", "question_prompt"]

_TEMPLATES: Final = Path(__file__).with_name("templates")

Snapshot = Mapping[str, Any]
Types = tuple[TaskType, ...]


@frozen
class _Open:
    """A criterion that does not hold yet, as templates show it."""

    criterion: str
    failed: bool
    check: str = ""
    saw: str = ""
    where: str | None = None


def first_prompt(task: ControlTask, snapshot: Snapshot, *, types: Types | None = None) -> str:
    """Return the prompt of a task's first attempt.

    Args:
        task: The task.
        snapshot: What `take_snapshot` returned.
        types: Types of tasks, whose guidelines are appended; None for ours.
    """
    return _filled("first", task, types, snapshot=snapshot)


def fix_prompt(
    task: ControlTask,
    report: ValidationReport,
    *,
    strict: bool = False,
    snapshot: Snapshot | None = None,
    types: Types | None = None,
) -> str:
    """Return the prompt of an attempt that follows on a failed validation.

    Args:
        task: The task.
        report: What failed, with what was found.
        strict: Whether the same checks failed twice (CTL-44).
        snapshot: The result of `take_snapshot`, if the agent is to know it.
        types: Types of tasks; None for ours.
    """
    template = "strict_fix" if strict else "fix"
    found = tuple(_open_criteria(report))
    return _filled(template, task, types, open=found, snapshot=snapshot)


def clarification_prompt(
    task: ControlTask,
    halt: Halt,
    *,
    snapshot: Snapshot | None = None,
    types: Types | None = None,
) -> str:
    """Return the prompt of an attempt that follows on a question or a doubt.

    Args:
        task: The task.
        halt: What the agent said.
        snapshot: The result of `take_snapshot`, if the agent is to know it.
        types: Types of tasks; None for ours.
    """
    asked = halt.reason is HaltReason.ASKED_QUESTION
    return _filled("clarification", task, types, halt=halt, asked=asked, snapshot=snapshot)


def question_prompt(
    task: ControlTask, criterion: str, mentions: Sequence[Mention], *, number: int, limit: int
) -> str:
    """Return the question whether a criterion holds.

    Args:
        task: The task it belongs to.
        criterion: As its report has it.
        mentions: Where words of it were found.
        number: Which question about this criterion it is, from 1.
        limit: How many there are at most.
    """
    return _filled(
        "question", task, None, criterion=criterion, mentions=mentions, number=number, limit=limit
    )


def helper_prompt(
    task: ControlTask, report: ValidationReport, files: Sequence[str], *, whole: bool, limit: int
) -> str:
    """Return the prompt for a helper, which asks for commands that decide open criteria (CTL-39).

    Args:
        task: The task.
        report: What was found.
        files: Paths that there are.
        whole: Whether these are all.
        limit: How many commands are run at most.
    """
    criteria = report.uncertain_criteria
    return _filled("helper", task, None, criteria=criteria, files=files, whole=whole, limit=limit)


def _open_criteria(report: ValidationReport) -> Iterator[_Open]:
    for found in report.criteria:
        if found.verdict is not CriterionVerdict.PASSED:
            failed = found.verdict is CriterionVerdict.FAILED
            yield _Open(found.criterion, failed, found.check, found.saw, found.where)
    if not report.criteria:
        # Another program's report has names only.
        yield from (_Open(criterion, failed=True) for criterion in report.failed_criteria)
        yield from (_Open(criterion, failed=False) for criterion in report.uncertain_criteria)


def _filled(template: str, task: ControlTask, types: Types | None, **values: object) -> str:
    guidelines = type_of(task, types or shipped_task_types()).guidelines
    text = (
        prompt_templates(_TEMPLATES)
        .get_template(f"{template}.md.j2")
        .render(task=task, guidelines=guidelines, as_json=_as_json, **values)
    )
    return f"{text.strip()}\n"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
