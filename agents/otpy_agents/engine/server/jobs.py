"""Performs the effects of a workflow's machine: work trees, workers, gates (ENG-01 to ENG-03)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

from anyio.to_thread import run_sync
from attrs import evolve

from otpy_agents.engine.context import (
    ContextPacker,
    ContextRequest,
    ContextSection,
    PackedContext,
)
from otpy_agents.engine.events import (
    ContextPacked,
    EngineEvent,
    GateFailed,
    GatePassed,
    GateSkipped,
    StepDispatched,
    StepPruned,
    StepTampered,
    WorkerAnswered,
    WorkflowStarted,
    WorkItem,
)
from otpy_agents.engine.gates import (
    GateCache,
    GateExecutor,
    GateResult,
    GateStatus,
    KeptFiles,
    verdict,
)
from otpy_agents.engine.outputs import OutputKind, output_instructions
from otpy_agents.engine.plan import Feature
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.engine.server.site import Definitions, EngineSettings, gate_sandbox
from otpy_agents.engine.server.staff import Staff
from otpy_agents.engine.task_types import infer_task_type
from otpy_agents.engine.workers import WorkerResult
from otpy_agents.engine.workflow.protocol import (
    ApplyChanges,
    ApplyRefusal,
    ApplyRefused,
    ChangesApplied,
    CloseTree,
    DispatchStep,
    GatesEnded,
    OpenTree,
    RebaseStep,
    RunGates,
    SettleStep,
    StepRebased,
    StepSettled,
    StopStep,
    TreeOpened,
    WorkEnd,
    WorkerEnded,
    WorkflowNews,
    WorkOutcome,
)
from otpy_agents.errors import AgentsError, ApplyBlocked, ApplyConflict, HeadMoved
from otpy_agents.run.host.walls import OPEN
from otpy_agents.workspace import StepChanges, StepTree, StepTrees

__all__ = ["WorkflowJobs"]

_TOLD_OUTPUT: Final = 4000
"""Characters of a gate's output that the log keeps."""

_TOLD_NAMES: Final = 20
"""Names of deleted files that the log and the next worker are told."""

_GATE_EVENTS: Final[Mapping[GateStatus, type[GatePassed | GateFailed | GateSkipped]]] = {
    GateStatus.PASSED: GatePassed,
    GateStatus.FAILED: GateFailed,
    GateStatus.WARNED: GateFailed,
    GateStatus.SKIPPED: GateSkipped,
}


@final
class WorkflowJobs:
    """Performs the steps of one workflow.

    Args:
        started: How it began.
        settings: The settings of the person who started it.
        definitions: Roles, gates and rules of its base.
        trees: The work trees of the repository.
        staff: Chooses agents, and has them work.
        packer: Packs prompts.
        cache: Passed gates.
        outputs: Whole outputs of gates.
        tell: Appends events to the stream of the workflow.
    """

    def __init__(
        self,
        started: WorkflowStarted,
        settings: EngineSettings,
        definitions: Definitions,
        trees: StepTrees,
        staff: Staff,
        packer: ContextPacker,
        cache: GateCache,
        outputs: KeptFiles,
        tell: Callable[[EngineEvent], Awaitable[None]],
    ) -> None:
        self._started, self._settings, self._definitions = started, settings, definitions
        self._trees, self._staff, self._tell = trees, staff, tell
        self._packer, self._cache, self._outputs = packer, cache, outputs
        self._open: dict[str, StepTree] = {}
        self._changes: dict[str, StepChanges] = {}
        self._items: dict[str, WorkItem] = {}
        self._at_work: dict[str, str] = {}  # the agents of attempts that have not ended
        self._clean: StepTree | None = None  # of a step that was applied; another may have it
        self._commands = gate_sandbox(settings.sandbox, settings.environment, settings.note)

    def know(self, step: str, item: WorkItem) -> None:
        """Learn the item of a step; called before anything else for it."""
        self._items[step] = item

    def _role(self, step: str) -> WorkerRole:
        return self._definitions.roles.role(self._items[step].role)

    # --- work trees -------------------------------------------------------------------------------

    async def open_tree(self, effect: OpenTree) -> WorkflowNews:
        """Make a work tree, or take that of a step that was applied (ENG-19)."""
        reuse, self._clean = self._clean, None
        try:
            tree = await self._trees.open(self._started.workflow_id, effect.step, reuse=reuse)
        except BaseException:
            if reuse is not None:  # the end of the workflow deletes it
                self._open[reuse.step] = reuse
            raise
        self._open[effect.step] = tree
        return TreeOpened(effect.step)

    async def close_tree(self, effect: CloseTree) -> None:
        """Release a work tree; the last clean one is kept for the next step."""
        tree = self._open.pop(effect.step, None)
        self._changes.pop(effect.step, None)
        if tree is None:  # it may have been stopped while it was made
            tree = await self._trees.find(self._started.workflow_id, effect.step)
        if tree is None:
            return
        if effect.clean and self._clean is None:
            self._clean = tree
        else:
            await self._trees.discard(tree)

    async def close(self) -> None:
        """Let go of all work trees that are open still; the workflow has ended."""
        left = [*self._open.values(), *([] if self._clean is None else [self._clean])]
        self._open, self._clean = {}, None
        for tree in left:
            with contextlib.suppress(AgentsError):  # the next command deletes it
                await self._trees.discard(tree)

    async def settle(self, effect: SettleStep) -> WorkflowNews:
        """End the remains of a step from an earlier life, and look in git if it was applied."""
        name = self._started.workflow_id
        await self._staff.dismiss(name, effect.step)
        self._open.pop(effect.step, None)
        tree = await self._trees.find(name, effect.step)
        if tree is not None:
            commit = await self._trees.settle(tree)
        else:
            commit = await self._trees.applied(name, effect.step, since=self._started.base)
        return StepSettled(effect.step, commit or "")

    # --- workers ----------------------------------------------------------------------------------

    async def dispatch(self, effect: DispatchStep) -> WorkflowNews:
        """Pack the context, choose an agent, have it work, and collect its changes."""
        step, item, role = effect.step, self._items[effect.step], self._role(effect.step)
        tree, about = self._open[step], self._about(step)
        attempt = f"{self._started.workflow_id}/{step}/{effect.attempt}"
        route = await self._staff.route(role, item.task, self._definitions, attempt)
        packed = await self._pack(role, item, tree, effect.feedback)
        await self._tell(
            ContextPacked(
                **about,
                attempt=effect.attempt,
                tokens=packed.tokens,
                budget=packed.budget,
                left_out=tuple(f"{part.name}: {part.why}" for part in packed.left_out),
            )
        )
        kind = infer_task_type(item.task)
        await self._tell(
            StepDispatched(
                **about,
                attempt=effect.attempt,
                cli=route.cli,
                reason=route.reason,
                task_type=kind,
                base=tree.base,
            )
        )
        self._at_work[step] = route.cli
        result = await self._staff.work(
            role,
            route.cli,
            packed.prompt,
            tree.path,
            mounts=await self._trees.worker_mounts(tree),
            label=attempt,
            limits=self._definitions.limits,
        )
        del self._at_work[step]
        outcome = await self._outcome(step, role, tree, result)
        await self._tell(
            WorkerAnswered(
                **about,
                attempt=effect.attempt,
                cli=route.cli,
                status=str(outcome.status),
                message=outcome.message,
                output=outcome.output,
                files=outcome.files,
                task_type=kind,
                seconds=result.seconds,
                tokens_in=result.tokens_in,
                tokens_out=result.tokens_out,
                cost_usd=result.cost_usd,
            )
        )
        return WorkerEnded(step, outcome)

    async def count_late(self, effect: StopStep) -> None:
        """Count a failure of the agent whose attempt was stopped, if any was (C-33)."""
        agent = self._at_work.pop(effect.step, None)
        if agent is not None:
            role, limits = self._role(effect.step), self._definitions.limits
            await self._staff.count_failure(role, agent, effect.late, limits)

    def _about(self, step: str) -> Mapping[str, str]:
        return {
            "workflow_id": self._started.workflow_id,
            "step_id": step,
            "role": self._items[step].role,
        }

    async def _pack(
        self, role: WorkerRole, item: WorkItem, tree: StepTree, feedback: str
    ) -> PackedContext:
        request = ContextRequest(
            role=role,
            task=item.task,
            targets=item.targets,
            feedback=feedback,
            sections=self._roles_of_plans() if role.output is OutputKind.PLAN else (),
            output=output_instructions(role.output),
        )
        return await self._packer.pack(request, tree.path)

    def _roles_of_plans(self) -> tuple[ContextSection, ...]:
        """Return the note to a planner on the roles that a component may have."""
        roles = self._definitions.roles
        lines = [
            f"- {one.name}: {one.description}"
            for one in roles
            if one.output is OutputKind.IMPLEMENTATION
        ]
        return (ContextSection("Roles of components", "\n".join(lines)),)

    def _unknown_role(self, features: tuple[Feature, ...]) -> str:
        """Return the error in the roles that a plan names; empty if there is none."""
        names = self._definitions.roles.names
        for feature in features:
            for one in feature.components:
                if one.role not in names:
                    wanted = f"wanted one of {', '.join(names)}"
                    return f"component {one.id}: role: got {one.role!r}, {wanted}"
        return ""

    async def _outcome(
        self, step: str, role: WorkerRole, tree: StepTree, result: WorkerResult
    ) -> WorkOutcome:
        """Collect a worker's changes, and compare them with its claims (C-25)."""
        isolated = self._settings.sandbox != OPEN
        changes = self._changes[step] = await self._trees.changes(tree, isolated=isolated)
        if changes.tampered:
            await self._tell(StepTampered(**self._about(step), what=changes.tampered))
        known = WorkOutcome(
            status=WorkEnd.OK,
            output=result.output_json,
            files=changes.files,
            base=tree.base,
            cost_usd=result.cost_usd,
        )
        if result.failure:
            return evolve(known, status=WorkEnd.FAILED, message=result.failure, cause=result.cause)
        features = result.features(self._started.workflow_id)
        fault = result.fault or _claimed(role, result, changes) or self._unknown_role(features)
        if changes.links:
            fault = f"these links lead out of the repository: {', '.join(changes.links)}"
        if fault:
            return evolve(known, status=WorkEnd.FAULT, message=fault)
        return evolve(known, features=features)

    # --- gates and applying -----------------------------------------------------------------------

    async def run_gates(self, effect: RunGates) -> WorkflowNews:
        """Run the gates of the role on what would be applied, and tell each result as it comes."""
        step, role = effect.step, self._role(effect.step)
        tree = self._open[step]
        pruned = await self._prune(effect)
        results: asyncio.Queue[GateResult | None] = asyncio.Queue()
        telling = asyncio.create_task(self._tell_gates(effect, results))
        executor = GateExecutor(
            tree.path,
            self._commands,
            cache=self._cache,
            label=f"{self._started.workflow_id}/{step}",
            mounts=await self._trees.worker_mounts(tree),
        )
        try:
            ended = await executor.run(
                self._definitions.gates, role.gates, on_result=results.put_nowait
            )
        finally:
            results.put_nowait(None)
            await asyncio.gather(telling, return_exceptions=True)
        telling.result()
        said = verdict(ended, role.gates)
        feedback = f"{said.feedback}\n\n{pruned}" if said.feedback and pruned else said.feedback
        return GatesEnded(step, passed=said.passed, retry=said.retry, feedback=feedback)

    async def _prune(self, effect: RunGates) -> str:
        """Delete what is never applied, and return a line about it; empty if there is nothing."""
        gone = await self._trees.prune(self._changes[effect.step])
        if not gone:
            return ""
        names = tuple(os.fsencode(one).decode(errors="replace") for one in gone[:_TOLD_NAMES])
        about = self._about(effect.step)
        event = StepPruned(**about, attempt=effect.attempt, count=len(gone), names=names)
        await self._tell(event)
        return event.line

    async def _tell_gates(
        self, effect: RunGates, results: asyncio.Queue[GateResult | None]
    ) -> None:
        while (one := await results.get()) is not None:
            await self._tell(
                _GATE_EVENTS[one.status](
                    **self._about(effect.step),
                    gate=one.name,
                    status=str(one.status),
                    seconds=one.seconds,
                    cached=one.cached,
                    output=one.output[-_TOLD_OUTPUT:],
                    output_file=await self._keep_output(effect, one),
                    attempt=effect.attempt,
                )
            )

    async def _keep_output(self, effect: RunGates, result: GateResult) -> str:
        """Write all that a gate wrote to a file if the log does not keep it, and return where."""
        if len(result.output) <= _TOLD_OUTPUT or result.cached:
            return ""
        about = (self._started.workflow_id, effect.step, str(effect.attempt), result.name)
        file = await run_sync(self._outputs.put, f"{'-'.join(about)}.log", result.output)
        return "" if file is None else str(file)

    async def apply(self, effect: ApplyChanges) -> WorkflowNews:
        """Apply the changes made before the gates ran, and no later ones."""
        step, item = effect.step, self._items[effect.step]
        title = item.task.strip().splitlines()[0]
        try:
            commit = await self._trees.apply(self._changes[step], title)
        except HeadMoved as error:
            return ApplyRefused(step, ApplyRefusal.HEAD_MOVED, str(error))
        except ApplyBlocked as error:
            return ApplyRefused(step, ApplyRefusal.BLOCKED, str(error))
        return ChangesApplied(step, commit)

    async def rebase(self, effect: RebaseStep) -> WorkflowNews:
        """Move the changes of a step to the new HEAD."""
        step = effect.step
        try:
            tree = await self._trees.rebase(self._open[step], self._changes[step])
        except ApplyConflict as error:
            return ApplyRefused(step, ApplyRefusal.CONFLICT, str(error))
        self._open[step] = tree
        changes = self._changes[step] = await self._trees.changes(tree, isolated=True)
        return StepRebased(step, tree.base, changes.files)


def _claimed(role: WorkerRole, result: WorkerResult, changes: StepChanges) -> str:
    """Return the error in a worker's claims about its changes; empty if there is none (G-11)."""
    if result.gave_up:
        return f"the worker gave up: {result.gave_up}"
    if role.output is OutputKind.IMPLEMENTATION and result.claims and not changes.files:
        return f"got no change, wanted those the answer names: {', '.join(result.claims)}"
    return ""
