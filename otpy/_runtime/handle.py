"""What every running supervisor offers, static or dynamic."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from otpy._core.phase import Phase
from otpy._core.protocol import RetryNow
from otpy._core.reason import Normal
from otpy._runtime.hooks import checked_hook
from otpy._runtime.portal import Portal
from otpy._runtime.shell import Shell
from otpy._runtime.snapshot import ChildInfo, Counts, TreeSnapshot, counts_of, info_of, snapshot_of
from otpy._runtime.waiters import check_loop, wait_among
from otpy.errors import NotFound, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.child import Child
    from otpy._core.reason import ExitReason
    from otpy._runtime.process import Process
    from otpy.reports import ReportHook


class SupervisorHandle(Shell):
    """The operations that `Supervisor` and `DynamicSupervisor` share."""

    @property
    def running(self) -> bool:
        """Whether it serves: it is started, and neither ending nor ended."""
        return self._machine.phase is Phase.RUNNING

    @property
    def ended(self) -> bool:
        """Whether it has ended, and nothing below it runs."""
        return self._exit is not None

    @property
    def settled(self) -> bool:
        """Whether nothing is in progress and nothing waits to be dealt with."""
        return self._machine.settled

    @property
    def abandoned(self) -> tuple[Process, ...]:
        """Children in this tree that refused to end, or left a task that did; oldest first."""
        return tuple(self.tree.abandoned)

    def child(self, id: str) -> Process:
        """Return the process of the running child `id`.

        Raises:
            NotFound: If there is no such child.
            NotRunning: If it is known but does not run just now.
        """
        child = self._machine.children.get(id)
        process = None if child is None else self.process_of(child)
        if process is not None:
            return process
        path = f"{self.path}/{id}"
        raise NotFound(path) if child is None else NotRunning(path)

    def whereis(self, path: str) -> Process:
        """Return the process at `path`, which begins with this supervisor's own path.

        Raises:
            NotFound: If nothing has this path, or the path is this supervisor's own.
            NotRunning: If it is known but does not run just now.
        """
        if not path.startswith(f"{self.path}/"):
            raise NotFound(path)
        first, *below = path[len(self.path) + 1 :].split("/")
        process = self.child(first)
        for step in below:
            if process.supervisor is None:
                raise NotFound(path)
            process = process.supervisor.child(step)
        return process

    async def wait_for_restart(self, id: str, *, after: int) -> Process:
        """Wait for an incarnation of child `id` later than `after`, and return it when ready.

        Returns at once if it is there already, so that no restart is missed. Cancelling the wait
        disturbs nothing.

        Raises:
            NotFound: If there is no such child, or it is gone for good.
            NotRunning: If the supervisor has ended.
        """
        while True:
            child = self._machine.children.get(id)
            process = None if child is None else self.process_of(child)
            if process and process.ready and process.incarnation > after:
                return process
            if self._exit is not None:
                raise NotRunning(self.path)
            if child is None:
                raise NotFound(f"{self.path}/{id}")
            await self._change_of(id)

    async def _change_of(self, key: str | None) -> None:
        """Wait until something happens to the child `key`; None is the supervisor itself."""
        waiters = self._waiters.setdefault(key, {})
        try:
            await wait_among(waiters, self.tree.loop, self)
        finally:
            if not waiters:
                self._waiters.pop(key, None)

    async def wait(self) -> ExitReason:
        """Wait until this supervisor has ended and return why; cancelling disturbs nothing."""
        if self._exit is not None:
            return self._exit
        return await wait_among(self._end_waiters, self.tree.loop, self)

    async def wait_ready(self) -> None:
        """Wait until all initial children have been started, or it has ended."""
        while self._machine.phase is Phase.STARTING:
            await self._change_of(None)

    async def stop(self, reason: ExitReason | None = None) -> None:
        """Stop everything below in reverse order, then end with `reason`; return when done.

        A supervisor that is somebody's child is restarted by its restart type: a permanent one
        comes back (SUP-720). Cancelling the caller does not take the stop back.

        Args:
            reason: Its exit reason; `Normal()` if none is given.
        """
        if self._exit is None:
            check_loop(self.tree.loop, self)
            self.shut_down(reason or Normal())
        await self.wait()

    @property
    def failed(self) -> bool:
        """Whether it has given up."""
        return self._blame is not None

    def failure(self) -> Exception | None:
        """Return the `SupervisorFailed` that says why it gave up; None if it did not."""
        if self._blame is None:
            return None
        return self._blame.error(process.path for process in self.tree.abandoned)

    def subscribe(self, hook: ReportHook) -> Callable[[], None]:
        """Give every report of the whole tree to `hook` from now on; in any thread.

        Returns:
            A function that takes the hook off the stream; calling it twice does no harm.

        Raises:
            InvalidSpec: If `hook` cannot be called, or is a coroutine function.
        """
        hooks = self.tree.hooks
        hooks.append(checked_hook(f"subscribe {self.path!r}", hook))

        def unsubscribe() -> None:
            with suppress(ValueError):  # it was taken off before, for its failure perhaps
                hooks.remove(hook)

        return unsubscribe

    async def retry_now(self, id: str) -> bool:
        """Do not wait any longer for the restart of child `id` (extension).

        Returns:
            Whether it was waiting for one.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        reply, _ = await self._request(lambda ref: RetryNow(ref, id), id)
        return reply.child is not None

    async def which_children(self) -> list[ChildInfo]:
        """Return all children known, newest first (SUP-810).

        It tells what was so when its turn came, behind a restart in progress for one.

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        return [info_of(row) for row in reversed(await self._table())]

    async def count_children(self) -> Counts:
        """Count the children (SUP-811, DYN-12).

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        return counts_of(await self._table())

    def snapshot(self) -> TreeSnapshot:
        """Return what stands here and below, right now, also while a restart is in progress.

        Raises:
            WrongThread: In another thread, which would see the tree in the middle of a change; that
                one calls `root.portal().call(root.snapshot)`.
        """
        self.tree.check_thread(self)
        return snapshot_of(self)

    def portal(self) -> Portal:
        """Return a way into this tree for other threads; see `Portal`."""
        return Portal(self.tree)

    def seen(self) -> tuple[Phase, tuple[Child, ...]]:
        """Return its phase, and the records of its children in start order; for `snapshot`."""
        return self._machine.phase, tuple(self._machine.children.values())

    def process_of(self, child: Child) -> Process | None:
        """Return the live process of `child`, if it has one."""
        process: Process | None = child.process
        return process if process is not None and process.alive else None
