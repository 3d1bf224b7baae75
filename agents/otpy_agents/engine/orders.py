"""What a person may order beside workflows: approvals, rollbacks, and a look at plans (G-16)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from attrs import frozen

from otpy_agents.engine.events import (
    ApprovalDenied,
    ApprovalGranted,
    CheckpointRestored,
    FeatureCreated,
)
from otpy_agents.engine.plan import Feature
from otpy_agents.engine.projections import place_of, plan_key, step_key
from otpy_agents.errors import OrderRefused
from otpy_agents.log import Append, EventLog

if TYPE_CHECKING:
    from otpy_agents.log.projection import Row, Rows
    from otpy_agents.workspace import StepTrees

__all__ = ["Checkpoint", "Orders", "reverted_by"]


@final
@frozen
class Checkpoint:
    """A named position of the log, and the commit that HEAD was on then (C-45).

    Attributes:
        name: `WORKFLOW` for the beginning of one, `WORKFLOW/STEP` for the end of a step.
        commit: The commit.
        position: The position.
        at: When that was, in Unix seconds.
    """

    name: str
    commit: str
    position: int
    at: float


@final
class Orders:
    """Orders about the workflows of one repository.

    Args:
        log: The event log, with the tables of the engine.
        trees: The repository.
        repository: Its folder, as the log has it.
    """

    def __init__(self, log: EventLog, trees: StepTrees, repository: Path) -> None:
        self._log, self._trees, self._repository = log, trees, str(repository)
        self._place = place_of(repository)

    async def _rows(self, table: str) -> Rows:
        """Return the rows of this repository, by what persons call them."""
        prefix = plan_key(self._place, "")
        return {
            key.removeprefix(prefix): row
            for key, row in (await self._log.rows(table)).items()
            if key.startswith(prefix)
        }

    # --- approvals --------------------------------------------------------------------------------

    async def waiting(self) -> Rows:
        """Return what waits for a person, by feature or `WORKFLOW/STEP`."""
        rows = await self._rows("approvals")
        return {key: row for key, row in rows.items() if row["status"] == "requested"}

    async def answer(self, name: str, step: str | None, *, yes: bool, why: str, actor: str) -> str:
        """Say yes or no to what waits for it, and return what that was.

        A plan that was denied may still be approved.

        Args:
            name: Id of a feature or of a workflow.
            step: Id of the step; None if just one of the workflow waits.
            yes: What is said.
            why: A word with it.
            actor: Who says it.

        Raises:
            OrderRefused: Nothing of that name waits.
        """
        order, waiting = "approve" if yes else "deny", await self.waiting()
        denied = (await self._rows("approvals")).get(name)
        if yes and denied is not None and denied["status"] == "denied":
            waiting[name] = denied
        wanted = name if step is None else step_key(name, step)
        found = [
            key
            for key, row in waiting.items()
            if key == wanted or (step is None and row["workflow_id"] == name and "/" in key)
        ]
        if len(found) != 1:
            got = f"{wanted}, for which {len(found)} wait" if found else f"{wanted}, which does not"
            ours = ", ".join(sorted(found or waiting)) or "something that waits; nothing does"
            raise OrderRefused(order, f"{got} wait" if not found else got, ours)
        (key,) = found
        row, kind = waiting[key], ApprovalGranted if yes else ApprovalDenied
        workflow, _, its_step = key.partition("/")
        about = {"step_id": its_step} if its_step else {"feature_id": workflow}
        event = kind(workflow_id=row["workflow_id"], reason=why, **about)
        await self._log.append(Append(row["stream"], [event], actor=actor))
        return key

    # --- plans ------------------------------------------------------------------------------------

    async def feature(self, name: str) -> Feature | None:
        """Return a feature that was planned here; None if there is none of that name."""
        row = (await self._rows("features")).get(name)
        if row is None or not row["stream"]:
            return None
        async for stored in self._log.read(stream=row["stream"]):
            if stored.name == "feature_created":
                event = stored.event
                if isinstance(event, FeatureCreated) and event.feature.id == name:
                    return event.feature
        return None

    async def approval_of(self, name: str) -> str:
        """Return the approval of a feature: `requested`, `granted`, `denied`; empty if none."""
        row = (await self._rows("approvals")).get(name)
        return "" if row is None else str(row["status"])

    async def at_work_on(self, feature: str) -> str | None:
        """Return the workflow that works on a feature; None if none does."""
        for name, row in (await self._log.rows("workflows")).items():
            here = row["repository"] == self._repository and row["feature"] == feature
            if here and row["status"] == "running":
                return name
        return None

    async def completed(self, feature: str) -> frozenset[str]:
        """Return the ids of the components of a feature that are completed.

        One whose commit was reverted, or is on another branch, is to be done again.
        """
        rows = await self._rows("components")
        prefix = f"{feature}/"
        return frozenset(
            [
                key.removeprefix(prefix)
                for key, row in rows.items()
                if key.startswith(prefix) and row["status"] == "completed"
                if not row["commit_id"] or await self._stands(row["commit_id"])
            ]
        )

    async def _stands(self, commit: str) -> bool:
        """Return whether HEAD contains a commit's changes."""
        if not await self._trees.is_past(commit):
            return False
        return commit not in reverted_by(await self._trees.messages_since(commit))

    # --- checkpoints ------------------------------------------------------------------------------

    async def checkpoints(self) -> AsyncIterator[Checkpoint]:
        """Yield the checkpoints of this repository, oldest first."""
        rows: list[tuple[str, Row]] = sorted(
            (await self._log.rows("checkpoints")).items(), key=lambda one: one[1]["position"]
        )
        for name, row in rows:
            if row["repository"] == self._repository:
                yield Checkpoint(name, row["commit_id"], row["position"], row["at"])

    async def rollback(self, name: str, *, actor: str) -> tuple[str, int]:
        """Revert what steps applied since a checkpoint, by one commit (C-45).

        Returns:
            The commit, and how many it reverts; with none there is no commit.

        What git says was reverted since is not reverted again, also if that was by hand, or by a
        rollback that was killed.

        Raises:
            OrderRefused: There is no such checkpoint, or HEAD does not stand on its commit.
            ApplyConflict: What came later cannot stand without it.
            ApplyBlocked: Files of the user are in the way.
        """
        row: Any = (await self._log.rows("checkpoints")).get(name)
        if row is None or row["repository"] != self._repository:
            wanted = "a checkpoint; `otpy-agents engine rollback` lists them"
            raise OrderRefused("rollback", f"{name!r}", wanted)
        since: str = row["commit_id"]
        if not await self._trees.is_past(since):
            got = f"{name}, whose commit {since[:12]} is not in the history of HEAD"
            raise OrderRefused("rollback", got, "one of this branch, or another branch checked out")
        applied = [one.commit for one in await self._trees.commits_since(since)]
        reverted = reverted_by(await self._trees.messages_since(since))
        commits = tuple(one for one in applied if one not in reverted)
        if not commits:
            return "", 0
        commit = await self._trees.revert(commits, f"Roll back to {name}")
        event = CheckpointRestored(
            workflow_id=row["workflow_id"], name=name, reverted=commits, commit=commit
        )
        await self._log.append(Append(row["stream"], [event], actor=actor))
        return commit, len(commits)


_REVERTS: Final = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\.$", re.MULTILINE)


def reverted_by(messages: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the commits that later ones reverted, by the messages of these.

    Args:
        messages: Commits and their messages, oldest first; git and the engine write the same
            sentence. A revert that is reverted itself brings back what it took.
    """
    gone: set[str] = set()
    took: dict[str, set[str]] = {}
    for commit, message in messages:
        took[commit] = {*_REVERTS.findall(message)}
        for one in took[commit]:
            gone.add(one)
            gone -= took.get(one, set())
    return frozenset(gone)
