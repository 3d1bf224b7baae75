"""The store in Redis: its key is the truth, and the event log is told after each write (C-19).

The layout is the one that other programs know: the state as one JSON object under one key of the
database 0, the queue as the list `queue:NAME` of the database 2, pushed on the left and popped on
the right. Beside them there are three keys of ours: `queue:NAME:reserved`, which holds what was
handed out and is not settled yet, and `otpy:lease:KEY` and `otpy:fencing:KEY`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self, final

import psutil
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError, WatchError
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as AnswerLate

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole
from otpy_agents.control.state import ProjectState, ProjectStatus, time_text
from otpy_agents.control.state_change import Change, changed, difference, halting
from otpy_agents.control.state_reader import read_state
from otpy_agents.control.stores.behaviour import ControlStore, Record
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.sqlite import EVENTS, ProjectChanged, TasksEnqueued
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import (
    CorruptState,
    InvalidTask,
    ProjectHeld,
    StateMissing,
    StoreRefused,
    StoreUnreachable,
)
from otpy_agents.log import Append, EventLog
from otpy_agents.log.types import Told
from otpy_agents.process.orphans import same_start
from otpy_agents.store.redaction import without_secrets

__all__ = ["RedisControl"]

_LEASE: Final = 15.0
"""Seconds after which a lease that was not renewed is free."""

_RENEWED: Final = 5.0
_LOOK: Final = 0.25
_TYPED: Final = 200
"""Letters of an entry that a person may be asked to type."""

_PATIENCE: Final = 5.0
"""Seconds that a server may take to answer, or to come back."""

_GIVEN_UP: Final = 1.0
"""Seconds for giving up the lease, which runs out by itself if the server hangs."""

_OUT: Final = (StoreRefused, StoreUnreachable)
_LOST: Final = (ConnectionLost, AnswerLate)
"""Where an answer is lost, a write may have been made or not."""


@final
class RedisControl(ControlStore, OpenedWhole):
    """State, queue and lease of a project in Redis; see `ControlStore`.

    Args:
        place: Where it is.
        log: The event log, which is told what is written.
        stream: Of the project in that log; see `project_stream`.
        clean: Takes secrets out of a text before it is written (G-04).

    Raises:
        StoreUnreachable: Any operation: the server does not answer.
        StoreRefused: Any operation: the server refuses it, such as for a key of another kind.
    """

    def __init__(
        self, place: RedisPlace, log: Path, stream: str, *, clean: Callable[[str], str] = str
    ) -> None:
        self.log = EventLog(log, types=EVENTS, clean=clean)
        self.stream = stream
        self._place = place
        self._clean = clean
        self._key = place.state_key
        self._queue = f"queue:{place.queue_name}"
        self._reserved = f"{self._queue}:reserved"
        self._lease_key = f"otpy:lease:{place.state_key}"
        self._fencing_key = f"otpy:fencing:{place.state_key}"
        self._lease_keys = (self._lease_key, self._fencing_key)
        self._number = 0
        self._told: dict[str, Any] = {}
        self._holder = ""
        # What its methods return differs from release to release, and so do its annotations.
        self._states: Any = self._client(place.state_db)
        self._tasks_db: Any = self._client(place.queue_db)

    def _client(self, db: int) -> object:
        place = self._place
        return Redis(
            host=place.host,
            port=place.port,
            db=db,
            username=place.user,
            password=place.password,
            decode_responses=True,
            encoding_errors="backslashreplace",  # what is no text is no JSON, and is told as that
            socket_timeout=_PATIENCE,
            retry=Retry(NoBackoff(), 0),  # its own retries would make a write twice
        )

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            with self._reached():
                await self._states.ping()  # a server may hang, and Ctrl-C ends the wait
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _open(self) -> None:
        await self.log.__aenter__()

    async def _close(self) -> None:
        with contextlib.suppress(RedisError, OSError):
            await self._states.aclose()
            await self._tasks_db.aclose()
        await self.log.__aexit__(None, None, None)

    @contextlib.contextmanager
    def _reached(self, queue: str = "") -> Generator[None]:
        try:
            yield
        except AuthenticationError as error:
            wanted = "it asks for a login: redis://USER:PASSWORD@HOST:PORT"
            raise StoreUnreachable(str(self._place), wanted) from error
        except ResponseError as error:
            key = f"a list at {queue}" if queue else f"a string at {self._key}"
            wanted = f"{key} that can be read and written"
            raise StoreRefused(str(self._place), str(error), wanted) from error
        except (RedisError, OSError) as error:
            _obey()
            raise StoreUnreachable(str(self._place), str(error)) from error
        _obey()

    # --- the state --------------------------------------------------------------------------------

    async def load(self) -> ProjectState:
        """See `ControlStore.load`."""
        with self._reached():
            text = await _patiently(lambda: self._states.get(self._key))
        if text is None:
            raise StateMissing(str(self._place))
        return read_state(text)

    async def change(
        self, before: ProjectState | None, after: ProjectState, *records: Record, actor: str = ""
    ) -> ProjectState:
        """See `ControlStore.change`."""
        change = difference({} if before is None else before.to_json(), after.to_json())
        text = await self._write(change, fresh=before is None)
        await self._tell(text, records, actor)
        return read_state(text)

    async def halt(self, reason: str, details: str, *records: Record, actor: str = "") -> None:
        """See `ControlStore.halt`."""
        text = await self._write(halting(reason, details, time_text(CLOCK())), fresh=False)
        await self._tell(text, records, actor)

    async def _write(self, change: Change, *, fresh: bool) -> str:
        """Change the stored state, and write it as a whole; return the written state.

        It is made once: where its answer is lost, the key says whether it was made.
        """
        with self._reached():
            while True:
                async with self._states.pipeline() as pipe:
                    await _watch(pipe, self._key, *self._lease_keys)
                    found = await pipe.get(self._key)
                    if found is None and not fresh:
                        raise StateMissing(str(self._place))
                    if self._holder and (other := await self._other(pipe)):
                        raise ProjectHeld(str(self._place), other)
                    try:
                        state: dict[str, Any] = {} if fresh or found is None else json.loads(found)
                    except ValueError as error:
                        raise CorruptState("", str(error), "a JSON object") from None
                    text = self._text(changed(state, change))
                    pipe.multi()
                    pipe.set(self._key, text)
                    try:
                        with _outrun():  # then it looks again
                            await pipe.execute()
                            return text
                    except _LOST:
                        if await _patiently(lambda: self._states.get(self._key)) != text:
                            raise
                        return text

    def _text(self, value: object) -> str:
        return json.dumps(without_secrets(value, self._clean), ensure_ascii=False)

    async def _tell(self, text: str, records: Sequence[Record], actor: str) -> None:
        state: dict[str, Any] = json.loads(text)
        event = ProjectChanged(change=difference(self._told, state), fresh=not self._told)
        self._told = state
        told = [Told(record.name, dict(record.fields)) for record in records]
        await self.log.append(Append(self.stream, [event, *told], None, actor))

    async def halted(self) -> ProjectState:
        """See `ControlStore.halted`; the key is looked at four times a second."""
        while True:
            with contextlib.suppress(*_OUT):  # who writes next says so
                state = await self.load()
                if state.status is ProjectStatus.HALTED:
                    return state
            await asyncio.sleep(_LOOK)

    async def tell(self, *records: Record) -> None:
        """See `ControlStore.tell`."""
        told = [Told(record.name, dict(record.fields)) for record in records]
        await self.log.append(Append(self.stream, told))

    # --- the queue --------------------------------------------------------------------------------

    async def push(self, tasks: Sequence[ControlTask], *, actor: str = "") -> None:
        """See `ControlStore.push`."""
        entries = [self._text(one.to_json()) for one in tasks]
        with self._reached(self._queue):
            await _patiently(self._tasks_db.ping)
            try:
                await self._tasks_db.lpush(self._queue, *entries)  # one command: all or none
            except _LOST:
                if not set(entries) <= {*await self._entries()}:
                    raise
        event = TasksEnqueued(tasks=tuple(task.to_json() for task in tasks))
        await self.log.append(Append(self.stream, [event], None, actor))

    async def reserve(self) -> ControlTask | None:
        """See `ControlStore.reserve`."""
        with self._reached(self._queue):
            entry = await _patiently(lambda: self._tasks_db.lindex(self._reserved, -1))
            if entry is None:
                entry = await self._tasks_db.lmove(self._queue, self._reserved, "RIGHT", "LEFT")
        if entry is None:
            return None
        task = self._read(entry)
        if isinstance(task, InvalidTask):
            with self._reached(self._queue):
                await self._tasks_db.lmove(self._reserved, self._queue, "RIGHT", "RIGHT")
            raise task
        return task

    def _read(self, entry: str) -> ControlTask | InvalidTask:
        """Return the task of an entry; for another one, why it is none and how to remove it."""
        typed = json.dumps(entry, ensure_ascii=False) if len(entry) <= _TYPED else "ENTRY"
        remedy = f"`LREM {self._queue} 1 {typed}` in database {self._place.queue_db} removes it"
        try:
            return ControlTask.of_json(json.loads(entry))
        except InvalidTask as error:
            key = f"{self._queue}.{error.key}".rstrip(".")
            return InvalidTask(key, error.got, f"{error.wanted}; {remedy}")
        except ValueError:
            got = " ".join(entry.split())[:80]
            return InvalidTask(self._queue, got, f"a task as JSON; {remedy}")

    async def settle(self, task_id: str) -> None:
        """See `ControlStore.settle`."""
        with self._reached(self._queue):
            for entry in await self._listed(self._reserved):
                task = self._read(entry)
                if isinstance(task, ControlTask) and task.task_id == task_id:
                    await self._tasks_db.lrem(self._reserved, 1, entry)

    async def queued(self) -> tuple[ControlTask, ...]:
        """See `ControlStore.queued`."""
        return tuple(one for one in await self._tasks() if isinstance(one, ControlTask))

    async def unreadable(self) -> tuple[InvalidTask, ...]:
        """See `ControlStore.unreadable`; other programs push, too."""
        return tuple(one for one in await self._tasks() if isinstance(one, InvalidTask))

    async def _tasks(self) -> list[ControlTask | InvalidTask]:
        with self._reached(self._queue):
            return [self._read(entry) for entry in await self._entries()]

    async def _entries(self) -> list[str]:
        """Return what is in the queue, oldest first; what is reserved is the oldest."""
        reserved = await self._listed(self._reserved)
        waiting = await self._listed(self._queue)
        return [*reversed(reserved), *reversed(waiting)]

    async def _listed(self, key: str) -> list[str]:
        entries: list[str] = await _patiently(lambda: self._tasks_db.lrange(key, 0, -1))
        return entries

    # --- the lease --------------------------------------------------------------------------------

    @asynccontextmanager
    async def lease(self) -> AsyncGenerator[int]:
        """See `ControlStore.lease`; a key with a time to live, which is renewed.

        The lease of a process of this machine that has died is taken over at once, that of another
        machine when its time is over.
        """
        with self._reached():
            await self._take()
        renewal = asyncio.create_task(self._renew(), name=f"lease {self._key}")
        try:
            yield self._number
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})
            holder, self._holder = self._holder, ""
            with contextlib.suppress(RedisError, OSError):
                async with asyncio.timeout(_GIVEN_UP):
                    if await self._states.get(self._lease_key) == holder:
                        await self._states.delete(self._lease_key)

    async def _take(self) -> None:
        while True:
            async with self._states.pipeline() as pipe:
                await _watch(pipe, *self._lease_keys)
                found = await pipe.get(self._lease_key)
                if found is not None and (lives := _living(found)):
                    raise ProjectHeld(str(self._place), lives)
                number = int(await pipe.get(self._fencing_key) or 0) + 1
                holder = _holder(number)
                pipe.multi()
                pipe.set(self._fencing_key, number)
                pipe.set(self._lease_key, holder, px=int(1000 * _LEASE))
                with _outrun():
                    await pipe.execute()
                    self._number, self._holder = number, holder
                    return

    async def _renew(self) -> None:
        """Renew the lease as long as it is ours; a server that is away is asked again."""
        while True:
            await asyncio.sleep(_RENEWED)
            with contextlib.suppress(*_OUT), self._reached():
                async with self._states.pipeline() as pipe:
                    await _watch(pipe, *self._lease_keys)
                    if not await self._other(pipe):
                        pipe.multi()
                        pipe.set(self._lease_key, self._holder, px=int(1000 * _LEASE))
                        with _outrun():
                            await pipe.execute()

    async def _other(self, pipe: Any) -> str:
        """Return the foreign holder of the lease, for a person; empty while it is ours.

        It is ours though its time is over, as after a while without the server, if nobody has taken
        another number since. A server that was flushed has none, and nothing is ours there.
        """
        found = await pipe.get(self._lease_key)
        if found not in {None, self._holder}:
            return _living(found) or "another process"
        is_last = await pipe.get(self._fencing_key) == str(self._number)
        return "" if is_last else "another host"


async def _patiently(read: Callable[[], Awaitable[Any]]) -> Any:
    """Read, and read again for a while if the connection is lost, as a read changes nothing.

    A server closes connections that are idle, and redis-py learns of it by the next command: each
    write has a read before it, which finds that out.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + _PATIENCE
    while True:
        try:
            return await read()
        except ConnectionLost as error:
            _obey()
            if isinstance(error, AuthenticationError) or clock() >= end:
                raise
            await asyncio.sleep(_LOOK)


async def _watch(pipe: Any, *keys: str) -> None:
    await _patiently(lambda: pipe.watch(*keys))


@contextlib.contextmanager
def _outrun() -> Generator[None]:
    """Pass over a transaction that somebody else was faster than, in which nothing is written.

    redis-py has the same error for a connection that was lost meanwhile: that one is raised.
    """
    try:
        yield
    except WatchError as error:
        if isinstance(error.__context__, _LOST):
            raise error.__context__ from error


def _obey() -> None:
    """End a task that was cancelled while it asked: connecting, redis-py swallows that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _holder(number: int) -> str:
    me = psutil.Process()
    said = {"number": number, "host": socket.gethostname(), "pid": me.pid}
    return json.dumps({**said, "began": me.create_time()})


def _living(holder: str) -> str:
    """Return the holder of a lease, for a person; empty for a dead process of this machine."""
    said = json.loads(holder)
    pid, host = int(said["pid"]), str(said["host"])
    if host == socket.gethostname():
        try:
            if not same_start(psutil.Process(pid).create_time(), said["began"]):
                return ""
        except psutil.NoSuchProcess:
            return ""
        return f"process {pid}"
    return f"process {pid} of {host}"
