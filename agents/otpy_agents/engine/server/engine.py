"""The workflows of a repository, as a branch of a tree."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

from attrs import evolve

import otpy
from otpy import ChildSpec, DynamicSupervisor, Process, Strategy, Supervisor, SupervisorSpec
from otpy.errors import AlreadyStarted, NotRunning
from otpy_agents.agent.runs import HostedRuns, Runs
from otpy_agents.completion import wait_beside
from otpy_agents.engine.circuits import CIRCUITS_FILE
from otpy_agents.engine.context import ContextPacker, Repomix
from otpy_agents.engine.events import (
    ApprovalGranted,
    CheckpointCreated,
    ComponentCreated,
    EngineEvent,
    FeatureCreated,
    PhaseCreated,
    WorkflowKind,
    WorkflowStarted,
    WorkItem,
)
from otpy_agents.engine.gates import GateCache, KeptFiles, cache_folder, outputs_folder
from otpy_agents.engine.orders import Orders
from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.plan import Component, Feature, read_plan
from otpy_agents.engine.server.jobs import WorkflowJobs
from otpy_agents.engine.server.recovery import settle_dead
from otpy_agents.engine.server.site import (
    Definitions,
    EngineSettings,
    engine_log,
    lock_of,
    stream_of,
)
from otpy_agents.engine.server.staff import Staff
from otpy_agents.engine.server.workflow import EngineWorkflow
from otpy_agents.engine.workflow.protocol import EndWorkflow
from otpy_agents.errors import AlreadyRunning, OrderRefused
from otpy_agents.log import Append, EventLog, log_beside
from otpy_agents.run.host.host import RunHost
from otpy_agents.store import RunStore
from otpy_agents.store.lock import HostLock
from otpy_agents.store.redaction import Redaction
from otpy_agents.workspace import StepTrees

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = ["Engine", "open_engine"]

_ENGINE: Final = "Engine"
_POOL: Final = "Workflows"
_PLANNER: Final = "planner"


@final
class Engine:
    """The workflows that a host works on, any number of them (ENG-46); made by `open_engine`.

    Its branch is `Engine`: the host of runs, `Workflows`, which holds a supervisor for each, and
    `opener`, which starts them, also after a restart of these.

    Args:
        settings: The settings of the person who starts workflows.
        log: The event log.
        store: The store of runs.
        trees: The repository.
        cache: Passed gates.
        outputs: Whole outputs of gates.
        agents: Makes the runs of workers; None for a host of runs in this branch.
    """

    def __init__(
        self,
        settings: EngineSettings,
        log: EventLog,
        store: RunStore,
        trees: StepTrees,
        cache: GateCache,
        outputs: KeptFiles,
        agents: Runs | None = None,
    ) -> None:
        self.orders = Orders(log, trees, settings.repository)
        self._settings, self._log, self._trees, self._store = settings, log, trees, store
        self._cache, self._outputs = cache, outputs
        self._host = RunHost(store, environment=settings.environment)
        self._packer = ContextPacker(repomix=Repomix.installed())
        runs = HostedRuns(self._host, store) if agents is None else agents
        self._staff = Staff(self._host, runs, store, log, settings)
        self._workflows: dict[str, EngineWorkflow] = {}
        self._ends: dict[str, asyncio.Future[EndWorkflow]] = {}
        self._stopped: str | None = None
        self._added = asyncio.Event()
        self._root: asyncio.Future[Supervisor | DynamicSupervisor] = (
            asyncio.get_running_loop().create_future()
        )

    def spec(self) -> SupervisorSpec:
        """Return the branch: for `otpy.start`, or among the `branches` of `open_app`; once."""
        return SupervisorSpec(
            _ENGINE,
            [
                self._host.spec(),
                DynamicSupervisor.spec(_POOL),
                ChildSpec("opener", self._opener),
            ],
            strategy=Strategy.REST_FOR_ONE,
        )

    # --- beginning workflows ----------------------------------------------------------------------

    async def begin_run(
        self, role: str, task: str, targets: tuple[str, ...], *, rebase: bool, actor: str
    ) -> str:
        """Begin a workflow of one step, and return its id (ENG-42).

        Args:
            role: The role of the worker.
            task: The task.
            targets: Files it is about, relative to the repository.
            rebase: Whether it is tried on the new HEAD if HEAD moves meanwhile.
            actor: The person who wants it.

        Raises:
            OrderRefused: The task is empty.
            UnknownRole: There is no such role.
            InvalidEngineFile: A file in `.supervisor` is wrong.
        """
        if not task.strip():
            raise OrderRefused("run", "an empty task", "words that say what is to be done")
        item = WorkItem(role=role, task=task, targets=targets)
        definitions = await self._definitions()
        plans = definitions.roles.role(role).output is OutputKind.PLAN
        kind = WorkflowKind.PLAN if plans else WorkflowKind.RUN
        return await self._begin(definitions, actor, kind=kind, items=(item,), rebase=rebase)

    async def begin_plan(self, task: str, *, actor: str) -> str:
        """Begin a workflow whose planner proposes features, and return its id (C-23)."""
        return await self.begin_run(_PLANNER, task, (), rebase=False, actor=actor)

    async def features_in(self, what: str) -> tuple[Feature, ...]:
        """Return the feature of an id, or those of a file.

        Raises:
            OrderRefused: There is no such feature, or it is not approved.
            InvalidEngineFile: The file is not a plan.
        """
        feature = await self.orders.feature(what)
        if feature is not None:
            approval = await self.orders.approval_of(what)
            if approval not in {"granted", "skipped"}:
                got = (
                    f"{what}, which was denied" if approval == "denied" else f"the proposal {what}"
                )
                wanted = f"an approved one; `otpy-agents engine approve {what}` approves it"
                raise OrderRefused("workflow", got, wanted)
            return (feature,)
        file = Path(what)
        try:
            text = await asyncio.to_thread(file.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            wanted = "a feat-... that `engine plan` printed, or a plan as YAML"
            why = error.strerror if isinstance(error, OSError) else "no UTF-8"
            raise OrderRefused("workflow", f"{what!r} ({why})", wanted) from None
        features = read_plan(file, text).features
        for one in features:
            if await self.orders.approval_of(one.id) == "denied":
                wanted = f"another id, or `otpy-agents engine approve {one.id}`"
                raise OrderRefused("workflow", f"{one.id}, which was denied", wanted)
        return features

    async def begin_feature(self, feature: Feature, *, parallel: int, actor: str) -> str:
        """Begin a workflow over the components of a feature that are not completed yet.

        Args:
            feature: From `features_in`.
            parallel: Components at the same time.
            actor: Who wants it; he has approved the feature by that.

        Raises:
            OrderRefused: All of it is completed, or another workflow is at it.
            UnknownRole: A component names a role that there is not.
        """
        if (other := await self.orders.at_work_on(feature.id)) is not None:
            wanted = f"one that nobody works on; `otpy-agents engine status {other}` shows it"
            raise OrderRefused("workflow", f"{feature.id}, which {other} works on", wanted)
        done = await self.orders.completed(feature.id)
        items: list[WorkItem] = []
        phase_of: list[int] = []
        required = feature.requirements
        for number, phase in enumerate(feature.phases):
            for one in phase.components:
                if one.id not in done:
                    items.append(_item_of(feature, one, required[one.id] - done))
                    phase_of.append(number)
        if not items:
            wanted = "one with components that are to be done"
            raise OrderRefused("workflow", f"{feature.id}, which is completed", wanted)
        events = await self._consent(feature)
        return await self._begin(
            await self._definitions(),
            actor,
            *events,
            kind=WorkflowKind.FEATURE,
            items=tuple(items),
            phases=tuple(phase.id for phase in feature.phases),
            phase_of=tuple(phase_of),
            feature=feature.id,
            parallel=parallel,
            rebase=True,  # what its own other steps have applied must not stop it
        )

    async def _consent(self, feature: Feature) -> list[EngineEvent]:
        """Return the events of a feature that a person starts: its plan, and its approval.

        A plan that he has changed takes the place of the one that was known.
        """
        known = await self.orders.feature(feature.id)
        if known == feature:
            granted = await self.orders.approval_of(feature.id) in {"granted", "skipped"}
            return [] if granted else [_granted(feature)]
        before = set[str]() if known is None else {one.id for one in known.components}
        phases = set[str]() if known is None else {phase.id for phase in known.phases}
        return [*_created(feature, phases, before), _granted(feature)]

    async def _definitions(self) -> Definitions:
        head = await self._trees.head()
        definitions = await Definitions.at(self._trees, head, self._settings.repository)
        for name in definitions.changed:
            self._settings.note(f"{name} counts as it is committed, not as it lies there")
        return definitions

    async def _begin(
        self,
        definitions: Definitions,
        actor: str,
        *events: EngineEvent,
        kind: WorkflowKind,
        items: tuple[WorkItem, ...],
        rebase: bool,
        phases: tuple[str, ...] = (),
        phase_of: tuple[int, ...] = (),
        feature: str | None = None,
        parallel: int = 1,
    ) -> str:
        rules = definitions.rules(frozenset(item.role for item in items))
        name, lock = self._named()
        started = WorkflowStarted(
            workflow_id=name,
            kind=kind,
            repository=str(self._settings.repository),
            base=definitions.commit,
            items=items,
            phases=phases,
            phase_of=phase_of,
            feature=feature,
            parallel=parallel,
            rebase=rebase,
            sandbox=self._settings.sandbox,
        )
        checkpoint = CheckpointCreated(
            workflow_id=name, name=name, repository=started.repository, commit=started.base
        )
        stream = stream_of(self._settings.repository, name)
        told = [evolve(event, workflow_id=name) for event in events]
        first = [started, checkpoint, *told]

        async def tell(event: EngineEvent) -> None:
            await self._log.append(Append(stream, [event]))
            self._settings.listen(event)

        try:
            jobs = WorkflowJobs(
                started,
                self._settings,
                definitions,
                self._trees,
                self._staff,
                self._packer,
                self._cache,
                self._outputs,
                tell,
            )
            begun, *_ = await self._log.append(Append(stream, first, actor=actor))
        except BaseException:
            lock.remove()
            raise
        workflow = self._workflows[name] = EngineWorkflow(
            name, self._log, begun, rules, jobs, lock, self._settings.listen
        )
        self._ends[name] = workflow.over
        workflow.over.add_done_callback(lambda _: self._forget(name))
        if self._stopped is not None:
            workflow.stop(self._stopped)
        self._added.set()
        for event in first:
            self._settings.listen(event)
        return name

    def _named(self) -> tuple[str, HostLock]:
        """Return an id, locked before any reader can see it and take it for a dead one."""
        while True:
            name = f"wf-{secrets.token_hex(4)}"
            lock = lock_of(self._store.path, name)
            with contextlib.suppress(AlreadyRunning):  # by who looks whether it is left over
                lock.acquire()
                lock.renew()
                return name, lock

    # --- working on them --------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Have all workflows stop what runs in order, and end as failed; those that follow too."""
        self._stopped = reason
        for workflow in self._workflows.values():
            workflow.stop(reason)

    async def wait(self, name: str) -> EndWorkflow:
        """Wait until a workflow has ended, and return how; cancelling disturbs nothing.

        Raises:
            NotRunning: The tree has ended before.
        """
        over = self._ends[name]
        root = await asyncio.shield(self._root)
        await wait_beside(root, asyncio.wait([over]))
        if not over.done():
            raise NotRunning(_ENGINE)
        return over.result()

    def _forget(self, name: str) -> None:
        """Forget a workflow that has ended, but not one that was only interrupted."""
        if not self._workflows[name].is_ours:
            del self._workflows[name]

    def close(self) -> None:
        """Leave the workflows that have not ended to be settled; the tree has ended."""
        for workflow in self._workflows.values():
            workflow.close()

    async def _opener(self, *, task_status: TaskStatus[None]) -> None:
        """Start each workflow."""
        parent = cast("Supervisor", otpy.current().parent)
        if not self._root.done():
            self._root.set_result(otpy.current().root)
        pool = cast("DynamicSupervisor", parent.child(_POOL).supervisor)
        task_status.started()
        begun: set[str] = set()
        while True:
            self._added.clear()
            begun &= self._workflows.keys()
            for name in [name for name in self._workflows if name not in begun]:
                begun.add(name)
                await self._open(pool, name)
            await self._added.wait()

    async def _open(self, pool: DynamicSupervisor, name: str) -> None:
        workflow = self._workflows.get(name)
        if workflow is None:  # it has ended while another was started
            return
        with contextlib.suppress(AlreadyStarted):  # by an opener before this one
            process = cast("Process", await pool.start_child(workflow.spec()))
            process.on_exit(lambda _, __: workflow.give_up())


def _item_of(feature: Feature, component: Component, needs: frozenset[str]) -> WorkItem:
    about = f"\n\n{component.description}" if component.description else ""
    return WorkItem(
        role=component.role,
        task=f"{component.title}{about}\n\nIt is a part of: {feature.title}",
        targets=component.files,
        component=component.id,
        needs=tuple(sorted(needs)),
    )


def _created(feature: Feature, phases: set[str], components: set[str]) -> list[EngineEvent]:
    """Return the events of a plan, but for the parts that are known already."""
    events: list[EngineEvent] = [FeatureCreated(workflow_id="", feature=feature)]
    for phase in feature.phases:
        of = {"workflow_id": "", "feature_id": feature.id, "phase_id": phase.id}
        if phase.id not in phases:
            events.append(PhaseCreated(**of, title=phase.title))
        events += [
            ComponentCreated(**of, component=one.id, title=one.title)
            for one in phase.components
            if one.id not in components
        ]
    return events


def _granted(feature: Feature) -> ApprovalGranted:
    reason = "the person who started it wrote it"
    return ApprovalGranted(workflow_id="", feature_id=feature.id, reason=reason)


@asynccontextmanager
async def open_engine(
    settings: EngineSettings, *, agents: Runs | None = None
) -> AsyncGenerator[Engine]:
    """Open the resources of workflows, for the length of a block in which their tree runs.

    What a dead host has left is settled first.

    Args:
        settings: The settings of the person who starts workflows.
        agents: Makes the runs of workers; None for a host of runs in the branch of the engine.

    Raises:
        NotARepository: It is none, or it has no commit.
        LedgerError: The store of runs, or the event log, cannot be used.
    """
    clean = Redaction(settings.environment, names=settings.secrets)
    path = log_beside(settings.state)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    trees = StepTrees(settings.repository)
    try:
        async with RunStore(settings.state) as store, engine_log(path, clean=clean) as log:
            for line in await settle_dead(
                log, store, trees, settings.repository, settings.environment
            ):
                settings.note(line)
            await trees.overlook(CIRCUITS_FILE)
            common = await trees.git_folder()
            cache = GateCache(cache_folder(common, settings.environment))
            outputs = KeptFiles(outputs_folder(common, settings.environment), clean=clean)
            engine = Engine(settings, log, store, trees, cache, outputs, agents)
            try:
                yield engine
            finally:
                engine.close()
    finally:
        trees.close()
