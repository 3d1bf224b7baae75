"""Writes events to the log of a user, without keeping the caller waiting."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast, final

from otpy_agents.completion import OpenedWhole
from otpy_agents.errors import LedgerAstray
from otpy_agents.log.commands import users_log
from otpy_agents.log.event import Append
from otpy_agents.log.event_log import EventLog
from otpy_agents.log.types import COLUMNS, Told

__all__ = ["Teller"]

_OWED: Final = 10_000
_BATCH: Final = 1000
_LONGEST: Final = 4000
_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0


@final
class Teller(OpenedWhole):
    """Takes events at once and writes them soon; an async context manager.

    Nothing it does can fail or slow who tells: a log that cannot be written is complained of in one
    line, events wait for it, and beyond ten thousand the oldest are let go. Leaving writes what is
    owed. A program that is killed takes what it told in the last moments with it.

    Args:
        path: The event log; see `log_beside`.
        clean: Takes secrets out of a text before it is written.
        complain: Is given one line when the log cannot be written; again only after it could be.
    """

    def __init__(
        self,
        path: Path,
        *,
        clean: Callable[[str], str] = str,
        complain: Callable[[str], object] = lambda _line: None,
    ) -> None:
        self._path = path
        self._clean = clean
        self._complain = complain
        self._owed: deque[Append] = deque(maxlen=_OWED)
        self._taken = 0
        self._news, self._leaving = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._log: EventLog | None = None
        self._refused = False
        self._waited = False  # whether the last write that failed had waited for a lock

    def tell(self, stream: str, name: str, fields: Mapping[str, Any]) -> None:
        """Take an event; texts beyond 4000 characters are cut.

        Args:
            stream: Its stream.
            name: Of its type.
            fields: Its content.
        """
        said = {key: _plain(value) for key, value in fields.items()}
        said |= {key: str(said[key]) for key in COLUMNS if said.get(key) is not None}
        if len(self._owed) == _OWED:
            self._taken = max(0, self._taken - 1)  # the oldest goes
        self._owed.append(Append(stream, [Told(name, said)]))
        self._news.set()

    async def _open(self) -> None:
        self._task = asyncio.create_task(self._write_on())

    async def _close(self) -> None:
        self._leaving.set()
        self._news.set()
        if self._task is not None:
            await self._task

    async def _write_on(self) -> None:
        """Write told events until the block is left; then the remaining ones, if possible."""
        delay = _FIRST_DELAY
        while True:
            await self._news.wait()
            self._news.clear()
            while self._owed:
                last = self._leaving.is_set()  # a write that began before says nothing about now
                if await self._write():
                    delay = _FIRST_DELAY
                    continue
                if last or (self._waited and self._leaving.is_set()):
                    break
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._leaving.wait()
                delay = min(2 * delay, _LAST_DELAY)
            if self._leaving.is_set():
                return await self._close_log()

    async def _write(self) -> bool:
        """Write the oldest events; return whether the log took them."""
        batch = list(islice(self._owed, _BATCH))
        self._taken = len(batch)
        try:
            if self._log is None:
                self._log = await users_log(self._path, self._clean).__aenter__()
            await self._log.append(*batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, work must not suffer from it
            await self._close_log()
            self._waited = isinstance(error.__cause__, sqlite3.Error)
            if not self._refused:
                self._refused = True
                self._complain(str(error))
            return isinstance(error, LedgerAstray) and await self._write()  # into a new one
        self._refused = False
        for _ in range(self._taken):
            self._owed.popleft()
        return True

    async def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            await log.__aexit__(None, None, None)


def _plain(value: object) -> object:
    """Return a value as the log takes it: short, and nothing that JSON has not."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {str(key): _plain(item) for key, item in entries.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    return str(value)[:_LONGEST]
