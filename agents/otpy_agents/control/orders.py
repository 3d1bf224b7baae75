"""What an operator may order: the only authority over a project (CTL-01, CTL-50 to CTL-57).

A new project is halted, a goal and tasks leave it so, and `resume` lets it run (CTL-24).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from attrs import asdict, evolve, frozen

from otpy_agents.clock import CLOCK
from otpy_agents.control.state import (
    BlockedTask,
    ExecutionMode,
    ProjectState,
    ProjectStatus,
    time_text,
)
from otpy_agents.control.stores.behaviour import ControlStore, Record
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import OrderRefused, StateMissing

__all__ = ["Goal", "block", "enqueue", "halt", "init_state", "resume", "set_goal", "unblock"]


async def init_state(
    store: ControlStore, mode: ExecutionMode, *, fresh: bool, actor: str
) -> ProjectState:
    """Make the state of a new project: halted, without a goal (CTL-50).

    Args:
        store: Where.
        mode: Whether the operator is asked before each dispatch.
        fresh: Whether to forget a state that is there.
        actor: Who orders it.

    Raises:
        OrderRefused: There is a state, and `fresh` is not set.
        ProjectHeld: It is to be forgotten while a host works on it.
    """
    state = ProjectState(execution_mode=mode, last_updated=time_text(CLOCK()))
    if fresh:
        async with store.lease():
            return await store.change(None, state, actor=actor)
    try:
        known = await store.load()
    except StateMissing:
        return await store.change(None, state, actor=actor)
    got = f"a state from {known.last_updated}"
    raise OrderRefused("init-state", got, "none, or --force to forget it")


async def _change(
    store: ControlStore, state: ProjectState, *records: Record, actor: str, **changes: Any
) -> ProjectState:
    after = evolve(state, **changes, last_updated=time_text(CLOCK()))
    return await store.change(state, after, *records, actor=actor)


@final
@frozen
class Goal:
    """What is set of a goal; None leaves it as it is.

    Attributes:
        description: What is to be reached.
        project_id: Name of the project and of its folder.
        goal_completed: Whether it is reached.
    """

    description: str | None = None
    project_id: str | None = None
    goal_completed: bool | None = None


async def set_goal(store: ControlStore, goal: Goal, *, actor: str) -> ProjectState:
    """Set the goal, the name of the project, or whether the goal is reached (CTL-51).

    Raises:
        OrderRefused: The project is to get another name while a task is in hand.
    """
    state = await store.load()
    renamed = goal.project_id not in {None, state.project_id}
    if renamed and state.in_hand is not None:
        task = state.in_hand.task.task_id
        raise OrderRefused("set-goal", f"another --project-id while {task} is in hand", "none")
    changes = asdict(goal, filter=lambda _, value: value is not None)
    return await _change(store, state, actor=actor, **changes)


async def enqueue(store: ControlStore, tasks: Sequence[ControlTask], *, actor: str) -> ProjectState:
    """Append tasks to the queue, all of them or none (CTL-52); the only way to do so (C-23).

    Raises:
        OrderRefused: A task of that id was there before: it would be done twice, or never.
    """
    state = await store.load()
    queued = {task.task_id: "in the queue" for task in await store.queued()}
    hand = {} if state.in_hand is None else {state.in_hand.task.task_id: "in hand"}
    done = {one.task_id: "completed" for one in state.completed_tasks}
    blocked = {one.task_id: "blocked" for one in state.blocked_tasks}
    known = {**done, **blocked, **queued, **hand}
    for task in tasks:
        if task.task_id in known:
            got = f"the task {task.task_id!r}, which is {known[task.task_id]}"
            raise OrderRefused("enqueue", got, "an id that no task has had")
    await store.push(tasks, actor=actor)
    return await _change(store, await store.load(), actor=actor, exhausted=False)


async def halt(store: ControlStore, reason: str, *, actor: str) -> None:
    """Halt the project; a loop that works on it stops its attempt and ends (CTL-54)."""
    record = Record("halt", {"task_id": None, "reason": reason})
    await store.halt(reason, "", record, actor=actor)


async def resume(store: ControlStore, *, actor: str) -> ProjectState:
    """Let the project run again; `start` begins the loop (CTL-55, CTL-65, C-30).

    Raises:
        OrderRefused: It is not halted, or has no goal.
    """
    state = await store.load()
    if state.status is ProjectStatus.RUNNING:
        raise OrderRefused("resume", "a project that is RUNNING", "one that is HALTED")
    if not state.description:
        wanted = "one with a goal: `otpy-agents control set-goal --description TEXT`"
        raise OrderRefused("resume", "a project without a goal", wanted)
    return await _change(
        store,
        state,
        actor=actor,
        status=ProjectStatus.RUNNING,
        halt_reason=None,
        halt_details=None,
        exhausted=False,
    )


async def block(store: ControlStore, task_id: str, *, actor: str) -> None:
    """Give up the task in hand, so that the others can be done (CTL-01, CTL-64).

    Raises:
        OrderRefused: It is not in hand.
        ProjectHeld: A host works on it.
    """
    async with store.lease():
        state = await store.load()
        hand = state.in_hand
        if hand is None or hand.task.task_id != task_id:
            name = "none is" if hand is None else hand.task.task_id
            raise OrderRefused("block", f"the task {task_id!r}", f"the one in hand: {name}")
        halt = ": ".join(filter(None, (state.halt_reason, state.halt_details)))
        reason = f"by the operator, after {halt}" if halt else "by the operator"
        blocked = BlockedTask(task_id, time_text(CLOCK()), reason, hand.task)
        # A host that was killed here before may not have told the queue.
        await store.settle(task_id)
        await _change(
            store,
            state,
            Record("task_blocked", {"task_id": task_id, "reason": reason}),
            actor=actor,
            blocked_tasks=(*state.blocked_tasks, blocked),
            **state.put_down(),
        )


async def unblock(store: ControlStore, task_id: str, *, actor: str) -> None:
    """Let a blocked task be done once more, after those that wait (CTL-64).

    It is only put into the queue, which is one write: it is blocked until the loop takes it.

    Raises:
        OrderRefused: No such task is blocked, or it waits already.
    """
    state = await store.load()
    found = next((one for one in state.blocked_tasks if one.task_id == task_id), None)
    if found is None:
        names = ", ".join(one.task_id for one in state.blocked_tasks) or "none is"
        raise OrderRefused("unblock", f"the task {task_id!r}", f"a blocked one: {names}")
    if found.task is None:
        wanted = "one that this program blocked; enqueue it under another id"
        raise OrderRefused("unblock", f"the task {task_id!r}, which is not stored", wanted)
    if any(task.task_id == task_id for task in await store.queued()):
        raise OrderRefused("unblock", f"the task {task_id!r}, which waits", "a task that does not")
    await store.push([found.task], actor=actor)
