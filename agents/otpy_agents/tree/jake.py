"""Jake: eternal, one per project. Hands out the assignments and hears of their ends."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NoReturn, final

import otpy
from otpy import (
    INFINITY,
    Backoff,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Killed,
    Process,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy.errors import MaxChildren, NotRunning, StartFailed
from otpy_agents.agent.course import Waits
from otpy_agents.agent.effort import Stage
from otpy_agents.errors import GangFailed, JakeGaveUp, NameAlreadyExists, PreflightFailed
from otpy_agents.store.records import Outcome, State
from otpy_agents.tree.pool import POOL

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from otpy_agents.tree.project import Project
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Todo"]

PERIOD: Final = 3600.0
_NAMED: Final = 10
"""So many assignments are named that wait for budget."""


def jake_supervisor(project: Project) -> SupervisorSpec:
    """Return the spec of `JakeSupervisor`: 10 restarts in an hour, then it escalates (TREE-16).

    The list may say how many, or that there is no limit (C-13).

    The supervisor above would start it again, with a new hour: a Jake who always crashes would do
    so for ever, unnoticed. So a Jake whose supervisor has given up notifies a person and works no
    more (C-13). His mortals are stopped, and other projects go on. When these are done he refuses
    to start; a restart cannot repair that, so the whole tree fails, and its host is told which
    projects were given up, and why.
    """
    limit = project.work.jake_restarts
    return SupervisorSpec(
        "JakeSupervisor",
        [
            ChildSpec(
                "Jake",
                jake,
                (project,),
                backoff=Backoff.exponential(5.0, max=300.0, reset_after=PERIOD),
            )
        ],
        intensity=INFINITY if limit is None else limit,
        period=PERIOD,
    )


async def jake(project: Project, *, task_status: TaskStatus[None]) -> None:
    """Work the list off, then ask the tree to end.

    What is done is in the ledger, what runs is in the pool, what ended is known to the pool: Jake
    keeps nothing of his own. Killed at any moment, the next Jake goes on where he was, and no
    assignment is lost or begun twice.

    Raises:
        JakeGaveUp: Before he is ready, if he or another has given up, and all are through.
    """
    me = otpy.current()
    above = me.parent.process
    if above is not None and isinstance(above.last_exit, Shutdown):
        _give_up(project)
    verdict = project.workplace.efforts.gave_up
    if verdict is not None and project.effort.given_up and project.workplace.efforts.at_rest:
        raise verdict
    task_status.started()
    if project.effort.given_up:
        await _rest(project)
    try:
        await _run(project)
    except Exception as error:
        project.effort.fell = Crashed(error)
        raise
    except asyncio.CancelledError:
        if isinstance(me.requested, Killed):
            project.effort.fell = me.requested
        raise


def _give_up(project: Project) -> None:
    """Let a person know, once, that the project is not worked on any more."""
    effort = project.effort
    if effort.given_up or effort.fell is None:  # else somebody has just restarted it
        return
    effort.stage = Stage.GIVEN_UP
    project.desk.tell(
        "operator.notified", "Jake", detail=str(JakeGaveUp({project.key: effort.fell}))
    )
    project.workplace.efforts.news()


async def _rest(project: Project) -> NoReturn:
    """Stop the mortals, whose news has no listener any more; then wait for the others, and fail."""
    me = otpy.current()
    above, branch = _above(me), me.parent.process
    assert branch is not None  # noqa: S101 - `jake_supervisor` is never a whole tree
    for starting in (branch.supervisor, above):  # who starts cannot serve whom it waits for
        assert starting is not None  # noqa: S101 - both are supervisors
        await starting.wait_ready()
    await above.terminate_child(POOL)
    await project.workplace.efforts.until_at_rest()
    verdict = project.workplace.efforts.gave_up
    assert verdict is not None  # noqa: S101 - we have given up
    branch.exit(Crashed(verdict))  # the next Jake does not even start
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def _run(project: Project) -> None:
    """Hand the list out to one pool after the other."""
    me = otpy.current()
    if me.last_exit is not None:
        project.desk.tell("jake.restarted", "Jake", reason=str(me.last_exit), restarts=me.restarts)
    else:
        await project.pool.take_strays()
    above, seen = _above(me), 0
    while True:
        process = await above.wait_for_restart(POOL, after=seen)
        seen = process.incarnation
        pool = process.supervisor
        assert isinstance(pool, DynamicSupervisor)  # noqa: S101 - its spec says so
        project.pool.serve(pool)
        with contextlib.suppress(NotRunning):
            # A pool that restarts has stopped its mortals: they are begun again by the next round.
            await _serve(project)
            return


def _above(me: Process) -> Supervisor:
    """Return the supervisor of the branch of Jake, and of the pool: of the project, or the root."""
    branch = me.parent.process
    project = None if branch is None else branch.parent.process
    above = me.root if project is None else project.supervisor
    assert isinstance(above, Supervisor)  # noqa: S101 - `app_supervisor` says so
    return above


async def _serve(project: Project) -> None:
    """Complete the list; when no project has work left, ask the tree to end."""
    todo = Todo(project)
    while True:
        project.effort.stage = Stage.AT_WORK
        await project.desk.memory.disk.until_written(partial(_work_off, project, todo))
        version, project.effort.stage = project.pool.courses.version, Stage.THROUGH
        project.desk.tell("list.finished", project.work.name)
        project.workplace.efforts.news()
        if project.workplace.efforts.at_rest and project.workplace.efforts.gave_up is None:
            await otpy.current().root.stop()
            return
        await project.pool.courses.until_news(version)


async def _work_off(project: Project, todo: Todo) -> None:
    """Begin assignments as there is room, until each has come out one way or the other."""
    pool = project.pool
    while True:
        version = pool.courses.version
        await pool.end_given_up()
        await todo.look()
        following = todo.following()
        await project.write_outcomes()
        if not pool.running:
            raise NotRunning(POOL)
        if todo.empty and pool.courses.version == version:
            return
        if following is None or not await _begin(project, following):
            await pool.courses.until_news(version)


async def _begin(project: Project, assignment: Assignment) -> bool:
    """Spawn the mortal for `assignment`; return False if there is no room for one more."""
    try:
        await project.pool.spawn(assignment)
    except MaxChildren:
        return False
    except NameAlreadyExists:
        pass  # somebody else spawned it in the meantime
    except PreflightFailed as error:
        project.pool.come_out(assignment.id, Outcome(State.FAILED, str(error)))
    except StartFailed as error:
        from_outside = error.__cause__ is None or isinstance(error.__cause__, GangFailed)
        if from_outside and project.pool.may_start_again(assignment.id):
            return True  # ended before it was ready, which says nothing about it: begin it again
        project.pool.come_out(assignment.id, Outcome(State.FAILED, str(error.__cause__ or error)))
    return True


@final
class Todo:
    """The queued and the working mortals. It looks at all once, then only at changes.

    A mortal that leaves the pool has an outcome. An assignment that has neither an outcome nor a
    mortal is to be begun.

    Args:
        project: Whose list it is.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._at_work: set[str] = set()
        # By place in the list. The new agents are apart: they may have to wait for budget while
        # others need not. Who was begun meanwhile stays in its heap, and is passed over.
        self._agents: list[tuple[int, str]] = []
        self._others: list[tuple[int, str]] = []
        self._queued: set[str] = set()
        self._held = False
        project.pool.courses.stirred |= project.desk.memory.listed.keys()

    @property
    def empty(self) -> bool:
        """Whether no mortal is queued, and none is at work."""
        return not self._at_work and not self._queued

    async def look(self) -> None:
        """Look at each assignment with news."""
        stirred = self._project.pool.courses.stirred
        while stirred:
            name = stirred.pop()
            try:
                await self._sort(name)
            except BaseException:
                stirred.add(name)
                raise

    async def _sort(self, name: str) -> None:
        pool, memory = self._project.pool, self._project.desk.memory
        self._queued.discard(name)
        self._at_work.discard(name)
        if pool.courses.outcome(name) is not None:
            return
        if pool.has(name) or name in pool.courses.ending:
            self._at_work.add(name)
        elif name not in memory.listed:
            return
        elif name in pool.posts and await memory.is_done(name):
            pool.mark_done(name)  # its pool was killed before it could tell
        else:
            is_agent = memory.listed[name].agent is not None
            new = is_agent and not self._project.desk.was_begun(name)
            self._queued.add(name)
            heappush(self._agents if new else self._others, (memory.place(name), name))

    def following(self) -> Assignment | None:
        """Return the next assignment to begin, if any; one that never can be begun comes out."""
        desk = self._project.desk
        while heads := sorted(filter(None, map(self._head, (self._agents, self._others)))):
            for head in heads:
                name = head[1]
                hindrance = desk.hindrance(desk.memory.listed[name])
                if hindrance is Waits.BUDGET:  # as for all new agents, and only for them
                    self._tell_held()
                    continue
                if head == self._head(self._agents):
                    self._held = False  # there is budget again
                if hindrance is None:
                    return desk.memory.listed[name]
                if hindrance is Waits.PLACE:
                    return None
                self._queued.discard(name)
                self._project.pool.come_out(name, hindrance)
                break
            else:
                return None
        return None

    def _head(self, heap: list[tuple[int, str]]) -> tuple[int, str] | None:
        while heap and heap[0][1] not in self._queued:
            heappop(heap)
        return heap[0] if heap else None

    def _tell_held(self) -> None:
        """Tell a person, once, which assignments wait for more budget."""
        if self._held:
            return
        self._held = True
        waiting = sorted({one for one in self._agents if one[1] in self._queued})
        names = ", ".join(name for _, name in waiting[:_NAMED])
        if len(waiting) > _NAMED:
            names += f" and {len(waiting) - _NAMED} others"
        detail = f"budget of {self._project.key!r} spent; not begun before there is more: {names}"
        self._project.desk.tell("operator.notified", "list", detail=detail)
