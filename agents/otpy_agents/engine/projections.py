"""The projections of the engine's events: tables that can be rebuilt at any time (ENG-07)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from otpy_agents.log import Projection, Stored
from otpy_agents.log.projection import Row

__all__ = ["PROJECTIONS", "STREAMS", "place_of", "plan_key", "step_key"]

STREAMS: Final = "engine/"
"""The prefix of the names of all streams of the engine."""

_STANDS: Final = {"created": "proposed", "started": "running"}


def place_of(repository: Path) -> str:
    """Return what streams and keys call a repository."""
    return hashlib.sha256(os.fsencode(repository)).hexdigest()[:12]


def step_key(workflow: str, step: str) -> str:
    """Return the key of a step among those of all workflows."""
    return f"{workflow}/{step}"


def plan_key(place: str, name: str) -> str:
    """Return the key of the plan, approval or count that an event concerns.

    Two repositories may have a plan with the same ids.

    Args:
        place: The repository; see `place_of`.
        name: Of a feature, or `FEATURE/PHASE`, `FEATURE/COMPONENT`, `WORKFLOW/STEP`.
    """
    return f"{place}:{name}"


def _place(event: Stored) -> str:
    return event.stream.split("/")[1]


@frozen
class _Stand:
    """How far something has come, from its events `NAME_started`, `NAME_failed` and so on."""

    name: str

    def columns(self, before: Row | None, event: Stored) -> dict[str, Any]:
        """Return the row after an event, as far as every table has it."""
        row: dict[str, Any] = dict(before or {})
        row["workflow_id"] = event.fields["workflow_id"]
        change = event.name.removeprefix(f"{self.name}_")
        row["status"] = event.fields.get("status") or _STANDS.get(change, change)
        if change == "started":
            row |= {"started": event.at, "ended": None, "reason": None}
        elif change in {"completed", "failed"}:
            row |= {"ended": event.at, "reason": event.fields.get("reason")}
        return row


_WORKFLOW: Final = _Stand("workflow")


def _fold_workflow(row: Row | None, event: Stored) -> Row | None:
    if event.name == "workflow_started":
        said = event.fields
        first: Mapping[str, Any] = said["items"][0] if said["items"] else {}
        about = {
            "repository": said["repository"],
            "kind": said["kind"],
            "feature": said["feature"],
            "title": first.get("task", ""),
            "stream": event.stream,
            "actor": event.actor,
        }
        return _WORKFLOW.columns(row, event) | about
    return (
        None
        if row is None
        else _WORKFLOW.columns(row, event) | {"cause": event.fields.get("cause")}
    )


def _workflow(event: Stored) -> str | None:
    ours = event.name in {"workflow_started", "workflow_completed", "workflow_failed"}
    return event.fields["workflow_id"] if ours else None


_STEP: Final = _Stand("step")
_STEP_EVENTS: Final = frozenset(
    f"step_{change}" for change in ("started", "retried", "applying", "completed", "failed")
) | {"step_dispatched"}


def _step(event: Stored) -> str | None:
    if event.name not in _STEP_EVENTS:
        return None
    return step_key(event.fields["workflow_id"], event.fields["step_id"])


def _fold_step(row: Row | None, event: Stored) -> Row | None:
    said = event.fields
    if event.name == "step_started":
        about = {
            "step_id": said["step_id"],
            "role": said["role"],
            "component": said.get("component"),
            "task": said["task"],
            "attempts": 0,
        }
        return _STEP.columns(row, event) | about
    if row is None:
        return None
    if event.name == "step_dispatched":
        return dict(row) | {"cli": said["cli"], "attempts": said["attempt"], "status": "running"}
    after = _STEP.columns(row, event)
    if event.name == "step_completed":
        after["commit_id"] = said["commit"] or None
    return after


def _part(name: str) -> tuple[Callable[[Stored], str | None], Callable[[Row | None, Stored], Row]]:
    """Return key and fold for the parts of plans."""
    stand = _Stand(name)

    def key(event: Stored) -> str | None:
        if not event.name.startswith(f"{name}_"):
            return None
        said, place = event.fields, _place(event)
        if name == "feature":
            inner = said.get("feature")
            return plan_key(place, inner["id"] if inner else said["feature_id"])
        own = said["phase_id" if name == "phase" else "component"]
        return plan_key(place, f"{said['feature_id']}/{own}")

    def fold(row: Row | None, event: Stored) -> Row:
        after = stand.columns(row, event)
        said = event.fields
        if event.name == f"{name}_created":
            after["title"] = said["feature"]["title"] if name == "feature" else said["title"]
            after["stream"] = event.stream
        if name == "component":
            after["phase_id"] = said.get("phase_id", after.get("phase_id"))
            after["step_id"] = said.get("step_id", after.get("step_id"))
            after["commit_id"] = said.get("commit", after.get("commit_id"))
        return after

    return key, fold


_TIMES: Final = {"started": "REAL", "ended": "REAL", "reason": "TEXT"}


def _kept(
    name: str,
    columns: Mapping[str, str],
    key: Callable[[Stored], str | None],
    fold: Callable[[Row | None, Stored], Row | None],
) -> Projection:
    """Return a projection of the streams of the engine; another's events may have such names."""

    def of_ours(event: Stored) -> str | None:
        return key(event) if event.stream.startswith(STREAMS) else None

    return Projection(name=name, columns=columns, key=of_ours, fold=fold)


def _part_projection(name: str, **more: str) -> Projection:
    key, fold = _part(name)
    columns = {"workflow_id": "TEXT", "stream": "TEXT", "title": "TEXT", "status": "TEXT"}
    return _kept(f"{name}s", {**columns, **_TIMES, **more}, key, fold)


# --- approvals ------------------------------------------------------------------------------------


def _approval(event: Stored) -> str | None:
    if not event.name.startswith("approval_") and event.name != "step_failed":
        return None
    said = event.fields
    feature = said.get("feature_id")
    name = step_key(said["workflow_id"], said["step_id"]) if feature is None else feature
    return plan_key(_place(event), name)


def _fold_approval(row: Row | None, event: Stored) -> Row | None:
    if event.name == "step_failed":
        # The question needs no answer any more, and cannot get one.
        waits = row is not None and row["status"] == "requested"
        return {**row, "status": "lapsed", "at": event.at} if row and waits else row
    asked = event.at if event.name == "approval_requested" else (row or {}).get("asked")
    return {
        "workflow_id": event.fields["workflow_id"],
        "stream": event.stream,
        "status": event.name.removeprefix("approval_"),
        "reason": event.fields["reason"],
        "actor": event.actor,
        "asked": asked,
        "at": event.at,
    }


# --- checkpoints ----------------------------------------------------------------------------------


def _fold_checkpoint(row: Row | None, event: Stored) -> Row | None:
    said = event.fields
    if event.name == "checkpoint_created":
        return {
            "workflow_id": said["workflow_id"],
            "stream": event.stream,
            "repository": said["repository"],
            "commit_id": said["commit"],
            "position": event.position,
            "at": event.at,
            "reverted": "",
        }
    if row is None:
        return None
    return dict(row) | {"reverted": " ".join((*row["reverted"].split(), *said["reverted"]))}


# --- gates ----------------------------------------------------------------------------------------


def _gate(event: Stored) -> str | None:
    if event.name not in {"gate_passed", "gate_failed", "gate_skipped"}:
        return None
    said = event.fields
    return f"{step_key(said['workflow_id'], said['step_id'])}/{said['gate']}"


def _fold_gate(_: Row | None, event: Stored) -> Row:
    said = event.fields
    names = ("workflow_id", "step_id", "gate", "status", "attempt", "seconds")
    return {**{name: said[name] for name in names}, "cached": int(said["cached"])}


# --- metrics --------------------------------------------------------------------------------------


def _day(event: Stored) -> str:
    return datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d")


def _metric(event: Stored) -> str | None:
    said = event.fields
    own: tuple[str, ...]
    match event.name:
        case "worker_answered":
            own = ("worker", said["role"], said["cli"], said["task_type"])
        case "gate_passed" | "gate_failed":
            own = ("gate", said["role"], said["gate"])
        case "step_completed" | "step_failed" | "step_retried":
            own = ("step", said["role"])
        case _:
            return None
    return plan_key(_place(event), "/".join((_day(event), *own)))


_NUMBERS: Final = {
    **dict.fromkeys(("count", "good", "retries", "cached", "tokens_in", "tokens_out"), "INTEGER"),
    **dict.fromkeys(("seconds", "cost_usd"), "REAL"),
}


def _fold_metric(row: Row | None, event: Stored) -> Row:
    said = event.fields
    after: dict[str, Any] = dict(row or dict.fromkeys(_NUMBERS, 0))
    after |= {"day": _day(event), "role": said.get("role")}
    match event.name:
        case "worker_answered":
            after |= {"kind": "worker", "cli": said["cli"], "task_type": said["task_type"]}
            after["count"] += 1
            after["good"] += said["status"] == "ok"
            after["tokens_in"] += said["tokens_in"]
            after["tokens_out"] += said["tokens_out"]
            after["cost_usd"] += said["cost_usd"] or 0.0
            after["seconds"] += said["seconds"]
        case "gate_passed" | "gate_failed":
            after |= {"kind": "gate", "gate": said["gate"]}
            after["count"] += 1
            after["good"] += event.name == "gate_passed"
            after["cached"] += said["cached"]
            after["seconds"] += said["seconds"]
        case "step_retried":
            after["kind"] = "step"
            after["retries"] += 1
        case _:
            after["kind"] = "step"
            after["count"] += 1
            after["good"] += event.name == "step_completed"
    return after


PROJECTIONS: Final = (
    _kept(
        name="workflows",
        columns={
            "workflow_id": "TEXT",
            "stream": "TEXT",
            "repository": "TEXT",
            "kind": "TEXT",
            "feature": "TEXT",
            "title": "TEXT",
            "actor": "TEXT",
            "status": "TEXT",
            "cause": "TEXT",
            **_TIMES,
        },
        key=_workflow,
        fold=_fold_workflow,
    ),
    _kept(
        name="steps",
        columns={
            "workflow_id": "TEXT",
            "step_id": "TEXT",
            "role": "TEXT",
            "component": "TEXT",
            "task": "TEXT",
            "cli": "TEXT",
            "attempts": "INTEGER",
            "status": "TEXT",
            "commit_id": "TEXT",
            **_TIMES,
        },
        key=_step,
        fold=_fold_step,
    ),
    _part_projection("feature"),
    _part_projection("phase"),
    _part_projection("component", phase_id="TEXT", step_id="TEXT", commit_id="TEXT"),
    _kept(
        name="approvals",
        columns={
            "workflow_id": "TEXT",
            "stream": "TEXT",
            "status": "TEXT",
            "reason": "TEXT",
            "actor": "TEXT",
            "asked": "REAL",
            "at": "REAL",
        },
        key=_approval,
        fold=_fold_approval,
    ),
    _kept(
        name="checkpoints",
        columns={
            "workflow_id": "TEXT",
            "stream": "TEXT",
            "repository": "TEXT",
            "commit_id": "TEXT",
            "position": "INTEGER",
            "at": "REAL",
            "reverted": "TEXT",
        },
        key=lambda event: event.fields["name"] if event.name.startswith("checkpoint_") else None,
        fold=_fold_checkpoint,
    ),
    _kept(
        name="gates",
        columns={
            "workflow_id": "TEXT",
            "step_id": "TEXT",
            "gate": "TEXT",
            "status": "TEXT",
            "attempt": "INTEGER",
            "seconds": "REAL",
            "cached": "INTEGER",
        },
        key=_gate,
        fold=_fold_gate,
    ),
    _kept(
        name="metrics",
        columns={
            "day": "TEXT",
            "kind": "TEXT",
            "role": "TEXT",
            "cli": "TEXT",
            "task_type": "TEXT",
            "gate": "TEXT",
            **_NUMBERS,
        },
        key=_metric,
        fold=_fold_metric,
    ),
)
"""The tables of the engine, each a pure fold over its events."""
