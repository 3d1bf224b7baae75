"""How `otpy-agents engine` puts what happens, and where workflows stand, into words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from otpy_agents.cli.run_words import ago, money, one_line, span
from otpy_agents.engine.events import (
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
    CheckpointRestored,
    ContextPacked,
    EngineEvent,
    FeatureCreated,
    GateFailed,
    GatePassed,
    GateSkipped,
    StepApplying,
    StepCompleted,
    StepDispatched,
    StepFailed,
    StepPruned,
    StepRetried,
    StepStarted,
    StepTampered,
    WorkerAnswered,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowStarted,
)
from otpy_agents.engine.plan import Feature

__all__ = [
    "feature_lines",
    "metric_rows",
    "output_lines",
    "table",
    "told_line",
    "workflow_rows",
]

_LINE: Final = 300
_HASH: Final = 10


def told_line(event: EngineEvent) -> str | None:
    """Return an event as a line for people; None if it is not worth one."""
    return _of_workflow(event) or _of_attempt(event) or _of_step(event) or _of_approval(event)


def _of_workflow(event: EngineEvent) -> str | None:
    match event:
        case WorkflowStarted():
            of = f" of {event.feature}" if event.feature else ""
            steps = _several(len(event.items), "step")
            return f"{event.workflow_id}: {event.kind}{of}, {steps}, sandbox {event.sandbox}"
        case FeatureCreated():
            return f"{event.feature.id}: {one_line(event.feature.title, _LINE)}"
        case CheckpointRestored():
            commits = _several(len(event.reverted), "commit")
            return f"{event.name}: restored, {commits} reverted by {event.commit[:_HASH]}"
        case WorkflowCompleted():
            return f"{event.workflow_id}: completed"
        case WorkflowFailed():
            return f"{event.workflow_id}: failed ({event.cause})"
        case _:
            return None


def _of_attempt(event: EngineEvent) -> str | None:
    match event:
        case ContextPacked():
            left = f", {len(event.left_out)} left out" if event.left_out else ""
            tokens = f"{event.tokens:,} of {event.budget:,} tokens"
            return f"{event.step_id}: context of {tokens}{left}"
        case StepDispatched():
            return f"{event.step_id}: attempt {event.attempt} by {event.cli} ({event.reason})"
        case WorkerAnswered():
            return f"{event.step_id}: {_answered(event)}"
        case StepTampered():
            return f"{event.step_id}: its worker changed {'; '.join(event.what)}; undone"
        case StepPruned():
            return f"{event.step_id}: {one_line(event.line, _LINE)}"
        case GatePassed() | GateFailed() | GateSkipped():
            return f"{event.step_id}: {_gate(event)}"
        case _:
            return None


def _of_step(event: EngineEvent) -> str | None:
    match event:
        case StepStarted():
            return f"{event.step_id}: {event.role} begins: {one_line(event.task, _LINE)}"
        case StepRetried():
            return f"{event.step_id}: another attempt, told: {_first(event.feedback)}"
        case StepApplying():
            return f"{event.step_id}: applies {_files(event.files)}"
        case StepCompleted():
            as_commit = f" as {event.commit[:_HASH]}" if event.commit else ", nothing to apply"
            return f"{event.step_id}: completed{as_commit}"
        case StepFailed():
            return f"{event.step_id}: failed: {_first(event.reason)}"
        case _:
            return None


def _of_approval(event: EngineEvent) -> str | None:
    match event:
        case ApprovalRequested():
            name = event.feature_id or f"{event.workflow_id} {event.step_id}"
            said = f"`otpy-agents engine approve {name}` or `deny`"
            what = event.step_id or event.feature_id
            return f"{what}: waits for a person: {event.reason}; {said}"
        case ApprovalGranted():
            return f"{event.step_id or event.feature_id}: approved"
        case ApprovalDenied():
            return f"{event.step_id or event.feature_id}: denied"
        case _:
            return None


def _answered(event: WorkerAnswered) -> str:
    words = {"ok": "answered", "fault": "answered what does not fit", "failed": "gave no answer"}
    parts = [f"{words[event.status]} after {span(event.seconds)}"]
    if event.files:
        parts.append(f"changed {_files(event.files)}")
    if event.tokens_in or event.tokens_out:
        parts.append(f"{event.tokens_in:,}+{event.tokens_out:,} tokens")
    if event.cost_usd:
        parts.append(money(event.cost_usd))
    if event.message:
        parts.append(one_line(event.message, _LINE))
    return ", ".join(parts)


def _gate(event: GatePassed | GateFailed | GateSkipped) -> str:
    took = "known from before" if event.cached else span(event.seconds)
    last = next((line for line in reversed(event.output.splitlines()) if line.strip()), "")
    said = f": {one_line(last, _LINE)}" if last and isinstance(event, GateFailed) else ""
    where = f"; all of it in {event.output_file}" if said and event.output_file else ""
    return f"gate {event.gate} {event.status} ({took}){said}{where}"


def _first(text: str) -> str:
    """Return the first line of a gate's output, which may be long."""
    return one_line(text.strip().partition("\n")[0], _LINE)


def _several(number: int, name: str) -> str:
    return f"1 {name}" if number == 1 else f"{number} {name}s"


def _files(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{len(files)} files"


# --- results --------------------------------------------------------------------------------------


def feature_lines(feature: Feature) -> Iterator[str]:
    """Yield a feature as lines for people."""
    yield f"{feature.id}  {feature.title}"
    for phase in feature.phases:
        yield f"  {phase.id}  {phase.title}"
        for one in phase.components:
            needs = f"  after {', '.join(one.depends_on)}" if one.depends_on else ""
            files = f"  [{', '.join(one.files)}]" if one.files else ""
            yield f"    {one.id}  {one.title}{files}{needs}"


def output_lines(output: str) -> Iterator[str]:
    """Yield a worker's report as lines for people."""
    said: dict[str, Any] = json.loads(output) if output else {}
    for line in said.get("changes", ()):
        yield f"- {line}"
    if "issues" in said:
        yield f"{said['status'].replace('_', ' ')}: {said.get('summary', '')}".rstrip(": ")
    for issue in said.get("issues", ()):
        place = ":".join(str(part) for part in (issue["file"], issue["line"]) if part)
        yield f"{issue['severity']}  {place or '-'}  {issue['message']}"
    for line in said.get("next_steps", ()):
        yield f"next: {line}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, its columns as wide as they must be."""
    cells = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def workflow_rows(
    workflows: Mapping[str, Mapping[str, Any]], now: float
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each workflow, the latest first."""
    latest = sorted(workflows.items(), key=lambda one: one[1]["started"] or 0.0, reverse=True)
    for name, row in latest:
        title = row["feature"] or row["title"] or ""
        yield (
            *(name, row["kind"], row["status"], ago(row["started"], now)),
            one_line(row["reason"] or title, 80),
        )


def metric_rows(
    metrics: Iterable[Mapping[str, Any]], *, kind: str, by: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the sums of metrics of one kind, over all days, by some of their columns (ENG-45)."""
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    counted = ("count", "good", "retries", "cached", "tokens_in", "tokens_out", "seconds")
    for row in metrics:
        if row["kind"] != kind:
            continue
        key = tuple(str(row[name] or "") for name in by)
        total = sums.setdefault(key, {**dict(zip(by, key, strict=True))})
        for name in (*counted, "cost_usd"):
            total[name] = total.get(name, 0) + (row[name] or 0)
    for total in sums.values():
        total["success_rate"] = total["good"] / total["count"] if total["count"] else None
    return [sums[key] for key in sorted(sums)]
