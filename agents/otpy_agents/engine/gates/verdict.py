"""The consequences of gate results for a step (ENG-32)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

from otpy_agents.engine.gates.gate import Gate, GateFailAction, GateResult, GateStatus
from otpy_agents.engine.roles import GateUse, OnFail

__all__ = ["GateVerdict", "is_required", "skipped", "status_of", "verdict"]

FEEDBACK_LIMIT: Final = 8_000
"""Characters of outputs in the feedback, of all gates together."""

_STATUS: Final = {
    GateFailAction.FAIL: GateStatus.FAILED,
    GateFailAction.WARN: GateStatus.WARNED,
    GateFailAction.SKIP: GateStatus.SKIPPED,
}


@frozen
class GateVerdict:
    """What becomes of a step.

    Attributes:
        passed: Whether it may be applied.
        blocking: The results that forbid it.
        retry: Whether the worker is to try again.
        feedback: The message to the worker then; empty if it passed.
    """

    passed: bool
    blocking: tuple[GateResult, ...]
    retry: bool
    feedback: str


def status_of(gate: Gate, exit_code: int | None) -> GateStatus:
    """Return the status of a gate; without an exit code it did not pass (C-37)."""
    return GateStatus.PASSED if exit_code == 0 else _STATUS[gate.fail_action]


def skipped(gate: Gate, failed: str) -> GateResult:
    """Return the result of a gate that is skipped because another failed.

    Its result is unknown, so it blocks a step if its failure would.

    Args:
        gate: The gate.
        failed: The other.
    """
    return GateResult(
        name=gate.name,
        status=GateStatus.SKIPPED,
        output=f"not run, because {failed} did not pass",
        blocked_by=failed if gate.fail_action is GateFailAction.FAIL else "",
        is_started=False,
    )


def is_required(use: GateUse | None) -> bool:
    """Tell whether a step needs a gate to pass, by its role's word on that gate.

    A gate of which the role says nothing is one that another depends on.
    """
    return use is None or (use.required and use.on_fail is not OnFail.WARN)


def verdict(results: Iterable[GateResult], uses: Sequence[GateUse]) -> GateVerdict:
    """Judge a step; a gate that is required and has no result holds it up, too.

    Args:
        results: What its gates ended with.
        uses: What its role says of them.
    """
    known = {one.name: one for one in results}
    missing = [_missing(use) for use in uses if use.name not in known]
    blocking = tuple(one for one in (*known.values(), *missing) if one.is_hold_up)
    final = {use.name for use in uses if use.on_fail is OnFail.BLOCK}
    retry = all(one.name not in final and (one.is_started or one.blocked_by) for one in blocking)
    return GateVerdict(not blocking, blocking, bool(blocking) and retry, _feedback(blocking))


def _missing(use: GateUse) -> GateResult:
    return GateResult(
        name=use.name,
        status=GateStatus.FAILED,
        output="it was not run",
        required=is_required(use),
        is_started=False,
    )


def _feedback(blocking: Sequence[GateResult]) -> str:
    ran = sum(1 for one in blocking if not one.blocked_by)
    return "\n\n".join(_told(one, FEEDBACK_LIMIT // max(1, ran)) for one in blocking)


def _told(one: GateResult, most: int) -> str:
    if one.blocked_by:
        return f"The gate {one.name} was {one.output}."
    code = "" if one.exit_code is None else f" with exit code {one.exit_code}"
    text = one.output.strip()
    if len(text) > most:
        head, tail = most // 3, most - most // 3
        cut = f"[{len(text) - most} characters were cut here]"
        text = f"{text[:head]}\n{cut}\n{text[-tail:]}"
    return f"The gate {one.name} failed{code}:\n{text or 'it wrote nothing'}"
