"""The store in a file: state and queue are projections of the event log (C-19).

It is the default, as there is nothing to install for it (CTL-07).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

from attrs import field, frozen

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole
from otpy_agents.control.state import ProjectState, ProjectStatus, time_text
from otpy_agents.control.state_change import changed, difference, halting
from otpy_agents.control.state_reader import read_state
from otpy_agents.control.stores.behaviour import ControlStore, Record
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import (
    AlreadyRunning,
    InvalidTask,
    ProjectHeld,
    StateMissing,
    VersionConflict,
)
from otpy_agents.log import Append, EventLog, Projection, Stored, event_type
from otpy_agents.log.projection import Row
from otpy_agents.log.types import Told
from otpy_agents.store.lock import HostLock

__all__ = ["EVENTS", "PROJECTS", "QUEUES", "ProjectChanged", "SqliteControl", "project_stream"]


@event_type("project_changed")
@final
@frozen(kw_only=True)
class ProjectChanged:
    """The state of a project was changed.

    Attributes:
        change: What led there; see `state_change`.
        fencing: Number of the lease under which that was done; 0 for an operator.
        fresh: Whether the project starts over, and nothing of its old state counts.
    """

    change: Mapping[str, Any] = field(hash=False)
    fencing: int = 0
    fresh: bool = False


@event_type("tasks_enqueued")
@final
@frozen(kw_only=True)
class TasksEnqueued:
    """Tasks were put at the end of the queue; their numbers go on from the position of this event.

    Attributes:
        tasks: As a task file has them.
    """

    tasks: tuple[Mapping[str, Any], ...] = field(hash=False)


@event_type("task_reserved")
@final
@frozen(kw_only=True)
class TaskReserved:
    """A task was handed out.

    Attributes:
        task_id: Its id.
    """

    task_id: str


@event_type("task_settled")
@final
@frozen(kw_only=True)
class TaskSettled:
    """The state has a task in hand, and the queue forgets it.

    Attributes:
        task_id: Its id.
    """

    task_id: str


@event_type("lease_taken")
@final
@frozen(kw_only=True)
class LeaseTaken:
    """A host works on a project from now on.

    Attributes:
        number: Fencing number, one more than the one before.
        holder: Who, for a person.
    """

    number: int
    holder: str


EVENTS: Final = (ProjectChanged, TasksEnqueued, TaskReserved, TaskSettled, LeaseTaken)
"""The types of events by which projects are stored."""


def _project(event: Stored) -> str | None:
    return event.stream if event.name in {"project_changed", "lease_taken"} else None


def _fold_project(row: Row | None, event: Stored) -> Row:
    before: dict[str, Any] = dict(row or {"state": None, "fencing": 0, "holder": ""})
    if event.name == "lease_taken":
        return before | {"fencing": event.fields["number"], "holder": event.fields["holder"]}
    known = "{}" if event.fields["fresh"] else before["state"] or "{}"
    state: dict[str, Any] = json.loads(known)
    after = changed(state, event.fields["change"])
    return before | {"state": json.dumps(after, ensure_ascii=False)}


PROJECTS: Final = Projection(
    name="control_projects",
    columns={"state": "TEXT", "fencing": "INTEGER", "holder": "TEXT"},
    key=_project,
    fold=_fold_project,
)
"""A row for each project, by its stream: its state, and who works on it."""

_QUEUE: Final = {"tasks_enqueued", "task_reserved", "task_settled"}


def _is_reserved(entry: dict[str, Any], task_id: str) -> bool:
    return "reserved" in entry and entry["task"]["task_id"] == task_id


def _fold_queue(row: Row | None, event: Stored) -> Row | None:
    tasks: list[Any] = [] if row is None else json.loads(row["tasks"])
    match event.name:
        case "tasks_enqueued":
            tasks += [{"task": task} for task in event.fields["tasks"]]
        case "task_reserved":
            first = next(one for one in tasks if one["task"]["task_id"] == event.fields["task_id"])
            first["reserved"] = True
        case _:
            tasks = [one for one in tasks if not _is_reserved(one, event.fields["task_id"])]
    return {"tasks": json.dumps(tasks, ensure_ascii=False)} if tasks else None


QUEUES: Final = Projection(
    name="control_queues",
    columns={"tasks": "TEXT"},
    key=lambda event: event.stream if event.name in _QUEUE else None,
    fold=_fold_queue,
)
"""A row for each project with tasks in its queue, by its stream: the tasks, oldest first."""


def project_stream(root: Path, key: str) -> str:
    """Return the stream of a project: one for each sandbox root and key.

    Args:
        root: Folder of the sandbox.
        key: Of the state, such as `supervisor:state`; of one in Redis, `RedisPlace.project`.
    """
    place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]
    return f"control/{place}/{key}"


def _told(records: Sequence[Record]) -> list[object]:
    return [Told(record.name, dict(record.fields)) for record in records]


@final
class SqliteControl(ControlStore, OpenedWhole):
    """State, queue and lease of a project in the event log; see `ControlStore`.

    Args:
        path: The event log.
        stream: Of the project; see `project_stream`.
        place: What to call it for a person.
        clean: Takes secrets out of a text before it is written (G-04).
    """

    def __init__(
        self, path: Path, stream: str, place: str, *, clean: Callable[[str], str] = str
    ) -> None:
        self.log = EventLog(path, types=EVENTS, projections=[PROJECTS, QUEUES], clean=clean)
        self.stream = stream
        self._place = place
        self._fencing = 0
        name = hashlib.sha256(stream.encode()).hexdigest()[:12]
        self._lock = HostLock(path.with_name(f"{path.name}.{name}"))

    async def _open(self) -> None:
        await self.log.__aenter__()

    async def _close(self) -> None:
        await self.log.__aexit__(None, None, None)

    async def _row(self) -> Row:
        rows = await self.log.rows(PROJECTS.name)
        return rows.get(self.stream) or {"state": None, "fencing": 0, "holder": ""}

    async def load(self) -> ProjectState:
        """See `ControlStore.load`."""
        text = (await self._row())["state"]
        if text is None:
            raise StateMissing(self._place)
        return read_state(text)

    async def change(
        self, before: ProjectState | None, after: ProjectState, *records: Record, actor: str = ""
    ) -> ProjectState:
        """See `ControlStore.change`; state and records are one transaction."""
        old = {} if before is None else before.to_json()
        change = difference(old, after.to_json())
        event = ProjectChanged(change=change, fencing=self._fencing, fresh=before is None)
        told = _told(records)
        while True:
            version = await self.log.version(self.stream)
            row = await self._row()
            if self._fencing and row["fencing"] > self._fencing:
                raise ProjectHeld(self._place, row["holder"])
            with contextlib.suppress(VersionConflict):  # somebody else was faster: look again
                await self.log.append(Append(self.stream, [event, *told], version, actor))
                return await self.load()

    async def halt(self, reason: str, details: str, *records: Record, actor: str = "") -> None:
        """See `ControlStore.halt`."""
        if (await self._row())["state"] is None:
            raise StateMissing(self._place)
        change = halting(reason, details, time_text(CLOCK()))
        event = ProjectChanged(change=change, fencing=self._fencing)
        await self.log.append(Append(self.stream, [event, *_told(records)], None, actor))

    async def halted(self) -> ProjectState:
        """See `ControlStore.halted`."""
        after = await self.log.end()
        if (state := await self.load()).status is ProjectStatus.HALTED:
            return state
        async for event in self.log.follow(after=after, stream=self.stream):
            if event.name == "project_changed":
                state = await self.load()
                if state.status is ProjectStatus.HALTED:
                    return state
        raise RuntimeError("the log has ended")  # it never does

    async def tell(self, *records: Record) -> None:
        """See `ControlStore.tell`."""
        await self.log.append(Append(self.stream, _told(records)))

    async def push(self, tasks: Sequence[ControlTask], *, actor: str = "") -> None:
        """See `ControlStore.push`."""
        event = TasksEnqueued(tasks=tuple(task.to_json() for task in tasks))
        await self.log.append(Append(self.stream, [event], None, actor))

    async def _tasks(self) -> list[dict[str, Any]]:
        row = (await self.log.rows(QUEUES.name)).get(self.stream)
        tasks: list[dict[str, Any]] = [] if row is None else json.loads(row["tasks"])
        return sorted(tasks, key=lambda one: not one.get("reserved"))

    async def reserve(self) -> ControlTask | None:
        """See `ControlStore.reserve`."""
        tasks = await self._tasks()
        if not tasks:
            return None
        task = ControlTask.of_json(tasks[0]["task"])
        if not tasks[0].get("reserved"):
            await self.log.append(Append(self.stream, [TaskReserved(task_id=task.task_id)]))
        return task

    async def settle(self, task_id: str) -> None:
        """See `ControlStore.settle`."""
        if any(
            one.get("reserved") and one["task"]["task_id"] == task_id for one in await self._tasks()
        ):
            await self.log.append(Append(self.stream, [TaskSettled(task_id=task_id)]))

    async def queued(self) -> tuple[ControlTask, ...]:
        """See `ControlStore.queued`."""
        return tuple(ControlTask.of_json(one["task"]) for one in await self._tasks())

    async def unreadable(self) -> tuple[InvalidTask, ...]:
        """See `ControlStore.unreadable`; nobody but `push` writes entries here."""
        return ()

    @asynccontextmanager
    async def lease(self) -> AsyncGenerator[int]:
        """See `ControlStore.lease`; a lock of the kernel, which ends with its holder."""
        try:
            self._lock.acquire()
        except AlreadyRunning as error:
            holder = "another process" if error.pid is None else f"process {error.pid}"
            raise ProjectHeld(self._place, holder) from None
        try:
            while not self._fencing:
                version = await self.log.version(self.stream)
                taken = LeaseTaken(
                    number=(await self._row())["fencing"] + 1, holder=f"process {os.getpid()}"
                )
                with contextlib.suppress(VersionConflict):
                    await self.log.append(Append(self.stream, [taken], version))
                    self._fencing = taken.number
            yield self._fencing
        finally:
            self._fencing = 0
            self._lock.release()
