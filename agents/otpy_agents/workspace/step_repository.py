"""One repository as all steps see it: its place, its settings, and its locks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Final, final

import psutil
from attrs import frozen

from otpy_agents.errors import AlreadyRunning, LedgerUnwritable, NotARepository, StepTreeTaken
from otpy_agents.store.astray import inode_of
from otpy_agents.store.lock import HostLock
from otpy_agents.workspace.git import Git
from otpy_agents.workspace.removal import remove_any
from otpy_agents.workspace.sealed_git import Settings, settings_of
from otpy_agents.workspace.step_place import StepPlace, StepRecord, StepTree

__all__ = ["STEP", "WORKFLOW", "AppliedStep", "StepRepository"]

WORKFLOW: Final = "Otpy-Workflow"
STEP: Final = "Otpy-Step"
"""Trailers of a commit that applies a step."""

PATIENCE: Final = 30.0
"""Seconds that the last command of a dead process may take."""

_COLUMNS: Final = 3
_PAUSE: Final = 0.01


@frozen
class AppliedStep:
    """A commit by which a step was applied.

    Attributes:
        commit: The commit.
        workflow: Id of the workflow.
        step: Id of the step.
    """

    commit: str
    workflow: str
    step: str


@final
class StepRepository:
    """The repository, and the locks that this process holds on its steps.

    Args:
        folder: A folder in its work tree.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place: StepPlace | None = None
        self._held: dict[str, HostLock] = {}

    async def where(self) -> StepPlace:
        """Return where everything lies; asked once."""
        if self._place is None:
            asked = ("--show-toplevel", "--git-common-dir", "--absolute-git-dir")
            answer = await Git().run(self._folder, "rev-parse", *asked)
            self._place = _place_of(self._folder, *answer.text.split("\n"))
        return self._place

    async def head(self) -> str:
        """Return the commit that the user is on."""
        place = await self.where()
        head = await Git().commit(place.root, "HEAD")
        if not head:
            raise NotARepository(place.root, "no commit")
        return head

    async def settings(self) -> Settings:
        """Return the user's current configuration, and adapt the sealed git to it."""
        place = await self.where()
        answer = await Git().run(place.root, "config", "--list", "-z")
        settings = settings_of(answer.out)
        place.sealed.prepare(settings)
        return settings

    async def sealed(self) -> Git:
        """Return a sealed git without a work tree."""
        settings = await self.settings()
        return (await self.where()).sealed.git(settings)

    async def commit(
        self, settings: Settings, tree: str, parents: Iterable[str], message: bytes
    ) -> str:
        """Make a commit that is on no branch yet, and return it."""
        place = await self.where()
        options = [part for parent in parents for part in ("-p", parent)]
        git = place.sealed.git(settings)
        made = await git.run(place.root, "commit-tree", tree, *options, stdin=message)
        return made.text

    async def log(self, since: str, text: str, heads: tuple[str, ...]) -> list[AppliedStep]:
        """Return the commits that applied a step, newest first.

        Args:
            since: A commit before them; empty to look at all.
            text: A part of their messages.
            heads: Where to begin.
        """
        columns = (f"%(trailers:key={name},valueonly,separator=%x20)" for name in (WORKFLOW, STEP))
        command = (
            *("rev-list", "--fixed-strings", f"--grep={text}", "--topo-order"),
            *(f"--format={'%x09'.join(('%H', *columns))}", *heads),
        )
        root, git = (await self.where()).root, Git(settings=("trailer.separators=:",))
        answer = await git.ask(root, *command, *((f"^{since}",) if since else ()))
        if answer.code:  # the base may be gone
            answer = await git.run(root, *command)
        rows = (line.split("\t") for line in answer.out.decode(errors="replace").splitlines())
        return [AppliedStep(*row) for row in rows if len(row) == _COLUMNS and row[1] and row[2]]

    # --- locks ------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncGenerator[tuple[int, ...]]:
        """Lock the work tree of the user; yield the descriptors that commands are to keep.

        Who waits may be cancelled.
        """
        place = await self.where()
        place.steps.mkdir(exist_ok=True)
        lock = HostLock(place.steps / "apply")
        while True:
            try:
                lock.acquire()
                break
            except AlreadyRunning:
                await asyncio.sleep(_PAUSE)
        try:
            yield (lock.descriptor,)
        finally:
            lock.release()

    async def hold(self, tree: StepTree) -> StepRecord:
        """Lock a step until it is released, and return its record.

        Raises:
            StepTreeTaken: Another process works on it.
        """
        record = (await self.where()).record(tree)
        while not self.holds(record):
            record.folder.mkdir(parents=True, exist_ok=True)
            lock = HostLock(record.lock)
            try:
                await self._acquire(lock)
            except AlreadyRunning as error:
                got = f"a step that process {error.pid} works on"
                raise StepTreeTaken(tree.path, got) from None
            except LedgerUnwritable:
                if record.folder.is_dir():
                    raise
                continue  # it was discarded at this moment
            held = os.fstat(lock.descriptor)
            if inode_of(record.folder / "step.lock") == (held.st_dev, held.st_ino):
                self._held[record.name] = lock
            else:
                lock.release()
        return record

    async def is_left_over(self, record: StepRecord) -> bool:
        """Tell whether no living process works on a step, and delete what says nothing of one."""
        if self.holds(record):
            return False
        lock = HostLock(record.lock)
        try:
            await self._acquire(lock)
        except (AlreadyRunning, LedgerUnwritable):
            return False
        try:
            if record.read() is None:  # it was killed before it made anything
                await asyncio.to_thread(remove_any, record.folder)
                return False
            return True
        finally:
            lock.release()

    async def _acquire(self, lock: HostLock) -> None:
        """Take the lock of a step; of a process that is dead, once its last command has ended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while True:
            try:
                lock.acquire()
            except AlreadyRunning as error:
                if error.pid is None or psutil.pid_exists(error.pid) or loop.time() > end:
                    raise
            else:
                return
            await asyncio.sleep(_PAUSE)

    def holds(self, record: StepRecord) -> bool:
        """Tell whether a step is ours."""
        return record.name in self._held

    def keeps(self, *records: StepRecord) -> tuple[int, ...]:
        """Return the descriptors that commands for our steps are to keep."""
        return tuple(self._held[record.name].descriptor for record in records)

    def release(self, record: StepRecord) -> None:
        """Leave a step to others."""
        lock = self._held.pop(record.name, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> None:
        """Leave all steps to others."""
        for lock in self._held.values():
            lock.release()
        self._held.clear()


def _place_of(folder: Path, top: str, common: str, git_dir: str) -> StepPlace:
    return StepPlace(Path(top).resolve(), (folder / common).resolve(), Path(git_dir).resolve())
