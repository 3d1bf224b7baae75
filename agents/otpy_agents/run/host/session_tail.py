"""Reads the session files of an attempt while it is made, and after it was cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

from otpy_agents.adapters.adapter import Adapter
from otpy_agents.adapters.session_log import SessionLog, UsageReader
from otpy_agents.attempt.events import Spent

__all__ = ["SessionTail", "tail_of"]

_BLOCK: Final = 256 * 1024  # bytes that are read and parsed before others have their turn
_AT_ONCE: Final = 0.05
"""Seconds after a line of output at which is looked; lines that come until then share the look."""

_AGAIN: Final = (0.25, 0.7, 1.5)
"""Seconds until the next looks, each after the one before, as long as no line comes: a CLI writes
an answer to its file a moment before or after it prints what that leads to."""

_NEW_FILES: Final = 10.0
"""Seconds after which is looked for more files, such as those of helpers; the search is dear."""


def tail_of(
    adapter: Adapter, variables: Mapping[str, str], *, resumed: bool, began: float
) -> SessionTail | None:
    """Return what reads the session files of an attempt; None if its CLI has none.

    Args:
        adapter: The CLI.
        variables: Its environment.
        resumed: Whether it goes on in a session that has earlier attempts in it.
        began: When it began, in Unix seconds.
    """
    if adapter.session_log is None:
        return None
    # A count of the whole session has what went before in it, and a new session has none.
    since = began if resumed and not adapter.cumulative_usage else 0.0
    return SessionTail(adapter.session_log, variables, since)


@final
class SessionTail:
    """The session files of one attempt, read as they grow.

    A file that cannot be read is passed over: then the usage is known when the CLI ends.

    Args:
        log: What its CLI's files say.
        variables: The environment of the CLI.
        since: Unix seconds; what was spent earlier is none of this attempt.
    """

    def __init__(self, log: SessionLog, variables: Mapping[str, str], since: float) -> None:
        self._log, self._variables = log, variables
        self._reader = UsageReader(log, since)
        self._read: dict[Path, int] = {}
        self._files: Sequence[Path] = ()
        self._search_at = 0.0
        self._news = asyncio.Event()

    def wrote(self) -> None:
        """The CLI has written a line of output."""
        self._news.set()

    async def follow(
        self, session: Callable[[], str | None], tell: Callable[[Spent], None]
    ) -> None:
        """Tell the usage each time that it grew; looks only after new output.

        Args:
            session: Returns the session; None while it is not known.
            tell: Must neither block nor raise.

        Cancellation:
            Nothing is lost: the next look goes on where the last one stopped.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            await asyncio.sleep(_AT_ONCE)
            await self._tell_more(session(), tell)
            for pause in _AGAIN:
                if await self._hears_more(pause):
                    break
                await self._tell_more(session(), tell)

    async def _tell_more(self, session: str | None, tell: Callable[[Spent], None]) -> None:
        spent = await self.look(session)
        if spent is not None:
            tell(spent)

    async def _hears_more(self, seconds: float) -> bool:
        """Wait that long for a line of output; return whether one came."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def look(self, session: str | None, *, last: bool = False) -> Spent | None:
        """Read the lines since the last look; return the sum if it changed.

        Args:
            session: The session; None if it is not known.
            last: Whether no look follows, so that none of its files may be missed.
        """
        before, now = self._reader.total, asyncio.get_running_loop().time()
        if session is not None and (last or not self._files or now >= self._search_at):
            with contextlib.suppress(OSError):
                self._files = self._log.files(session, self._variables)
            self._search_at = now + _NEW_FILES
        for path in self._files:
            with contextlib.suppress(OSError):
                for _ in iter(partial(self._read_block, path), False):
                    await asyncio.sleep(0)  # others have their turn
        return self._reader.spent if self._reader.total != before else None

    def _read_block(self, path: Path) -> bool:
        """Read whole lines, and return whether there may be more."""
        if not path.is_file():  # to open a pipe that an agent has put there would wait for ever
            return False
        start = self._read.get(path, 0)
        with path.open("rb") as file:
            # The file was rewritten; already counted requests are recognised.
            start = start if file.seek(0, os.SEEK_END) >= start else 0
            file.seek(start)
            block = file.read(_BLOCK)
            if len(block) == _BLOCK and b"\n" not in block:
                block += file.readline()
        whole = block[: block.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for line in whole.splitlines():
            self._reader.feed(line.decode(errors="replace"))
        return len(block) >= _BLOCK and bool(whole)
