"""How `otpy-agents control` shows a project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otpy_agents.control.state import InHand, ProjectState
from otpy_agents.control.task import ControlTask

__all__ = ["shown_state", "tasks_table"]


def shown_state(state: ProjectState, queued: Sequence[ControlTask]) -> str:
    """Return where a project stands, a line for each thing (CTL-56)."""
    rows = list(_rows(state, queued))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _rows(state: ProjectState, queued: Sequence[ControlTask]) -> Iterator[tuple[str, str]]:
    yield "project", state.project
    halt = f" ({state.halt_reason}: {state.halt_details or ''})" if state.halt_reason else ""
    yield "status", f"{state.status}{halt.replace(': )', ')')}"
    yield "mode", str(state.execution_mode)
    goal = state.description or "none; `otpy-agents control set-goal` sets one"
    yield "goal", f"{goal}{' (reached when no task is left)' if state.goal_completed else ''}"
    yield "iteration", str(state.iteration)
    waiting = [task for task in queued if not _is_in_hand(state, task.task_id)]
    yield "queue", f"{len(waiting)} waiting" if waiting else "empty"
    if state.in_hand is not None:
        yield "in hand", f"{state.in_hand.task.task_id}, {_attempt(state.in_hand)}"
    done, blocked = len(state.completed_tasks), len(state.blocked_tasks)
    yield "tasks", f"{done} completed, {blocked} blocked"
    if state.last_validation_report is not None:
        yield "last report", _report(state.last_validation_report)
    yield "updated", state.last_updated


def _report(report: Any) -> str:
    said = f"{'valid' if report.get('valid') else 'not valid'}, {report.get('confidence')}"
    names = [*report.get("failed_criteria", ()), *report.get("uncertain_criteria", ())]
    return f"{said}: {'; '.join(map(str, names))}" if names else said


def tasks_table(state: ProjectState, queued: Sequence[ControlTask]) -> str:
    """Return the tasks of a project, oldest first, a line for each."""
    rows = [("completed", one.task_id, one.completed_at) for one in state.completed_tasks]
    waiting = {task.task_id for task in queued}
    rows += [
        ("blocked", one.task_id, one.reason)
        for one in state.blocked_tasks
        if one.task_id not in waiting  # it was unblocked
    ]
    if state.in_hand is not None:
        hand = state.in_hand
        rows.append(("in hand", hand.task.task_id, f"{_attempt(hand)}: {hand.task.intent}"))
    rows += [
        ("waiting", task.task_id, task.intent)
        for task in queued
        if not _is_in_hand(state, task.task_id)
    ]
    if not rows:
        return "no task; `otpy-agents control enqueue --task-file FILE` adds some"
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _attempt(hand: InHand) -> str:
    if not hand.attempt:
        return "not attempted yet"
    return f"attempt {hand.attempt} of {hand.task.max_retries + 1}"


def _is_in_hand(state: ProjectState, task_id: str) -> bool:
    return state.in_hand is not None and state.in_hand.task.task_id == task_id
