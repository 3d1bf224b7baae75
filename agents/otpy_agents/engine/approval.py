"""What a person is asked before work is applied: the rules in `.supervisor/approval.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from attrs import frozen

from otpy_agents.engine.globs import Globs, read_globs
from otpy_agents.engine.supervisor_files import FOLDER, read_yaml

__all__ = ["ApprovalRules", "PlanApproval", "Touched", "load_approval", "risks"]

APPROVAL_FILE: Final = f"{FOLDER}/approval.yaml"
_NAMED: Final = 3


class PlanApproval(StrEnum):
    """The approver of a plan (C-23)."""

    ASK = "ask"
    """A person."""
    AUTO = "auto"
    """The rule itself, which a person has written."""


@frozen(kw_only=True)
class ApprovalRules:
    """Which risks of a step ask a person; without any, no step needs approval.

    Attributes:
        files_touched: More files than this ask; None if no number does.
        paths: Globs of files that ask.
        cost_usd: A worker that cost more than this, in US dollars, asks; None if no cost does.
        plans: Who approves a plan.
    """

    files_touched: int | None = None
    paths: tuple[str, ...] = ()
    cost_usd: float | None = None
    plans: PlanApproval = PlanApproval.ASK


@frozen(kw_only=True)
class Touched:
    """What a step has done, as far as approval needs it.

    Attributes:
        files: Paths that were added, changed or removed, relative to the top of the repository.
        cost_usd: What its worker cost, in US dollars; None if that is unknown.
    """

    files: tuple[str, ...] = ()
    cost_usd: float | None = None


def load_approval(text: str | None, file: str = APPROVAL_FILE) -> ApprovalRules:
    """Return the rules that a text has.

    Args:
        text: What is in the file; None if it is not there.
        file: How messages name it.

    Raises:
        InvalidEngineFile: It says something it must not.
    """
    if text is None:
        return ApprovalRules()
    table = read_yaml(file, text)
    table.only("files_touched", "paths", "cost_usd", "plans")
    return ApprovalRules(
        files_touched=table.whole("files_touched", None),
        paths=read_globs(table, "paths"),
        cost_usd=table.number("cost_usd", None, wanted="US dollars as a number above 0"),
        plans=table.choice("plans", PlanApproval.ASK),
    )


def risks(rules: ApprovalRules, touched: Touched) -> tuple[str, ...]:
    """Return the risks that need a person's approval, a line each; empty if there is none."""
    return tuple(_risks(rules, touched))


def _risks(rules: ApprovalRules, touched: Touched) -> Iterator[str]:
    count = len(touched.files)
    if rules.files_touched is not None and count > rules.files_touched:
        files = "1 file is" if count == 1 else f"{count} files are"
        yield f"{files} touched, more than {rules.files_touched}"
    # One after the other: a glob with "!" takes out of those before it, and asks for nothing.
    asking = Globs(rules.paths).among(touched.files)
    for glob in rules.paths:
        found = () if glob.startswith("!") else Globs([glob]).among(asking)
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            yield f"{glob} is touched: {', '.join(found[:_NAMED])}{more}"
    if rules.cost_usd is not None:
        if touched.cost_usd is None:
            yield f"the worker's cost is unknown, and may be more than ${rules.cost_usd:.2f}"
        elif touched.cost_usd > rules.cost_usd:
            yield f"the worker cost ${touched.cost_usd:.2f}, more than ${rules.cost_usd:.2f}"
